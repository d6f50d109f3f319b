"""What `deploy/` holds for an installation that stays: units of systemd, their settings, proxies.

Nothing here is started by systemd: no machine that tests has one of its own to spare. The units are read by systemd's
own checker, which also counts what each may do to the machine; their commands are those that the operations page names.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from ctypes.util import find_library
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from scheduling.lab.pages.studies import MOST_SENT
from tests.patience import PATIENCE

DEPLOY = Path(settings.BASE_DIR) / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MOST_EXPOSED = {"bourse-engine@.service": 29}  # of 100, by systemd's own count; it walls programs of tenants in
EXPOSED = 20


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """As they would be installed, with a product that need not run."""
    home = tmp_path / "bourse"
    (home / ".venv" / "bin").mkdir(parents=True)
    shutil.copy("/bin/true", home / ".venv" / "bin" / "python")
    for unit in (DEPLOY / "systemd").glob("bourse*"):
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/bourse", str(home)))
    return tmp_path


def ran(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False, **options)  # type: ignore[call-overload, no-any-return]


@needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_unit_is_one_and_may_do_little_else_than_its_work(unit: Path, units: Path) -> None:
    result = ran("systemd-analyze", "verify", "--man=no", units / unit.name)
    assert unit.stem not in result.stderr, result.stderr
    most = MOST_EXPOSED.get(unit.name, EXPOSED)
    judged = ran(
        "systemd-analyze", "security", "--offline=true", f"--threshold={most}", "--no-pager", units / unit.name
    )
    assert judged.returncode == 0, judged.stdout[-2_000:]


def abilities(*unit: Path) -> dict[str, Any]:
    """Of a process as a unit's service has them; without one, as this machine gives them to anybody."""
    words = [sys.executable, "-m", "tests.marketplace.as_unit", *unit]
    result = ran(*words, cwd=settings.BASE_DIR)
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@needs("systemd-analyze")
@pytest.mark.skipif(find_library("seccomp") is None, reason="libseccomp is not installed")
def test_what_gangs_are_walled_in_with_works_in_the_unit_of_an_engine() -> None:
    """Files and ports, memory shared by nobody else, signals, the list of networks: as without systemd."""
    assert abilities(DEPLOY / "systemd" / "bourse-engine@.service") == abilities()


@needs("systemd-analyze")
@pytest.mark.skipif(find_library("seccomp") is None, reason="libseccomp is not installed")
def test_learners_step_takes_the_lowest_priority_in_the_unit_of_a_worker() -> None:
    unit = abilities(DEPLOY / "systemd" / "bourse-worker.service")
    assert unit["priority"] is None
    assert unit["walls"] == 0


def test_units_run_what_the_operations_page_runs() -> None:
    page = (Path(settings.BASE_DIR) / "docs" / "operations.md").read_text()
    commands = {
        match[1].split(" --loglevel")[0].split(" --schedule")[0].split(" --name")[0].strip()
        for unit in UNITS
        if (match := re.search(r"^ExecStart=.*?(\.venv/bin/python [^\"'\n]*)", unit.read_text(), re.M))
    }
    assert len(commands) == len(UNITS)
    assert [command for command in commands if command not in page] == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_process_stays_with_its_version_when_the_link_moves(unit: Path, tmp_path: Path) -> None:
    """What it loads later, and what a gang may read, is below the folder to which `/opt/bourse` led when it began."""
    version = tmp_path / "bourse-1.1.0"
    ran(sys.executable, "-m", "venv", "--without-pip", version / ".venv")
    (tmp_path / "bourse").symlink_to(version.name)
    lines = dict(re.findall(r"^(WorkingDirectory|ExecStart)=(.*)$", unit.read_text(), re.M))
    python = ["env", *re.findall(r"(\S*\.venv/bin/python) ", lines["ExecStart"].replace("/opt", str(tmp_path)))]
    program = "import os, sys; print(sys.prefix, sys.executable, os.getcwd())"
    result = ran(*python, "-c", program, cwd=lines["WorkingDirectory"].replace("/opt", str(tmp_path)))
    assert result.stdout.split() == [str(version / ".venv"), str(version / ".venv" / "bin" / "python"), str(version)]


@pytest.mark.wide
def test_commands_of_the_operations_page_have_the_services_settings(tmp_path: Path) -> None:
    """Its two lines for a shell, with the example's settings; who runs them stays the one who tests."""
    page = (Path(settings.BASE_DIR) / "docs" / "operations.md").read_text()
    lines = re.findall(r"^    (set -a; .*|manage\(\) { runuser .*)$", page, re.M)
    assert len(lines) == 2
    key = secrets.token_urlsafe(50)
    (tmp_path / "secret-key").write_text(key)
    shutil.copy(DEPLOY / "systemd" / "environment.example", tmp_path / "environment")
    text = "\n".join(
        [
            "set -eu",
            'runuser() { shift 3; "$@"; }',
            *lines,
            'DATABASE_URL=none:// manage shell --verbosity 0 --command "$1"',
        ]
    )
    for there, here in (
        ("/etc/bourse", tmp_path),
        ("/opt/bourse/.venv/bin/python", sys.executable),
        ("/opt/bourse", settings.BASE_DIR),
    ):
        text = text.replace(str(there), str(here))
    program = "from django.conf import settings as s; print(s.SECRET_KEY, s.VAR_DIR, s.PUBLIC_URL, s.DEVELOPMENT)"
    result = ran("bash", "-c", text, "bash", program, env={"PATH": os.environ["PATH"]})
    assert result.stdout.split() == [key, "/var/lib/bourse", "https://bourse.example", "False"], result.stderr


# What makes systemd forbid new rights in a service that is not root's, as its manual lists it (NoNewPrivileges=).
FORBID_NEW_RIGHTS = {
    "SystemCallFilter", "SystemCallArchitectures", "RestrictAddressFamilies", "RestrictNamespaces", "PrivateDevices",
    "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectClock", "ProtectHostname",
    "MemoryDenyWriteExecute", "RestrictRealtime", "RestrictSUIDSGID", "DynamicUser", "LockPersonality",
    "SystemCallLog", "NoNewPrivileges",
}  # fmt: skip


def test_engine_of_tenants_users_may_call_sudo() -> None:
    own_settings = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd" / "bourse-engine@.service").read_text(), re.M))
    tenants_settings = dict(
        re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd" / "cluster" / "tenants.conf").read_text(), re.M)
    )
    forbids = FORBID_NEW_RIGHTS & own_settings.keys()
    assert forbids
    assert {
        name: tenants_settings.get(name) for name in forbids if tenants_settings.get(name) not in ("", "false")
    } == {}
    assert own_settings["CapabilityBoundingSet"] == ""
    assert tenants_settings["CapabilityBoundingSet"] == "~"


def test_shared_folder_of_a_cluster_is_that_of_its_guide() -> None:
    guide = (Path(settings.BASE_DIR) / "docs" / "guide" / "slurm.md").read_text()
    folders = re.findall(r"^ReadWritePaths=(.*)$", (DEPLOY / "systemd" / "cluster" / "shared.conf").read_text(), re.M)
    assert folders == re.findall(r'"shared": "(.*)"', guide)


BACKUPS = "/var/lib/bourse-backup"


def backup_command(name: str, folder: Path) -> str:
    """A command of the backup's unit as the shell gets it, with `folder` in place of the one that systemd makes."""
    commands = re.findall(
        rf"^{name}=/bin/sh -c '(.*)'$", (DEPLOY / "systemd" / "bourse-backup.service").read_text(), re.M
    )
    assert len(commands) == 1
    text: str = commands[0].replace("$$", "$").replace("%%", "%")
    assert BACKUPS in text
    return text.replace(BACKUPS, str(folder))


def test_backup_of_a_night_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to("/bin/echo")
    before = datetime.now(UTC)
    result = ran("sh", "-c", backup_command("ExecStart", tmp_path), cwd=tmp_path)
    words = result.stdout.split()
    assert words[:2] == ["manage.py", "backup"]
    days = {str(tmp_path / f"{at:%Y-%m-%dT%H%M}") for at in (before, datetime.now(UTC))}
    assert {words[2]} <= days


@pytest.mark.parametrize(
    ("days", "rest"),
    [("14", {"2026-11-28T0230", "2026-11-14T0230", "of-hand"}), ("0", None), ("two weeks", None), ("", None)],
)
def test_backups_go_after_so_many_days_and_nothing_else_does(tmp_path: Path, days: str, rest: set[str] | None) -> None:
    now = time.time()
    ages = {"2026-11-28T0230": 1, "2026-11-14T0230": 14, "2026-11-13T0230": 15.1, "2026-01-01T0230": 332, "of-hand": 99}
    for name, age in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "database.dump").touch()
        os.utime(tmp_path / name, (now - age * 86_400,) * 2)
    command = backup_command("ExecStartPost", tmp_path)
    result = ran("sh", "-c", command, env={"PATH": os.environ["PATH"], "BACKUP_DAYS": days})
    assert {each.name for each in tmp_path.iterdir()} == (rest or set(ages))
    assert (result.returncode == 0) == (days in ("14", "0")), result.stderr


@needs("systemd-analyze")
def test_backup_is_made_once_a_night(units: Path) -> None:
    result = ran("systemd-analyze", "verify", "--man=no", units / "bourse-backup.timer")
    assert "bourse-backup" not in result.stderr, result.stderr
    at = re.findall(r"^OnCalendar=(.*)$", (units / "bourse-backup.timer").read_text(), re.M)
    calendar = ["systemd-analyze", "calendar", "--iterations=2", "--base-time=2026-11-29 12:00 UTC"]
    nights = re.findall(r": \w+ (\S+ \S+) UTC", ran(*calendar, *at, env={**os.environ, "TZ": "UTC"}).stdout)
    assert nights == ["2026-11-30 02:30:00", "2026-12-01 02:30:00"]


def test_a_new_start_of_an_engine_leaves_gangs_alone() -> None:
    assert "KillMode=process" in (DEPLOY / "systemd" / "bourse-engine@.service").read_text().splitlines()


@pytest.mark.wide
def test_settings_of_the_example_are_those_of_a_real_installation(tmp_path: Path) -> None:
    """Django's own checks for production, with the example as it stands and a key in a file."""
    lines = (DEPLOY / "systemd" / "environment.example").read_text().splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    page = (Path(settings.BASE_DIR) / "docs" / "operations.md").read_text()
    assert [name for name in example if f"`{name}`" not in page] == []
    key = tmp_path / "secret-key"
    key.write_text(secrets.token_urlsafe(50))
    environment = {"PATH": os.environ["PATH"], "SECRET_KEY_FILE": str(key), "BOURSE_VAR": str(tmp_path), **example}
    environment["DATABASE_URL"] = "none://"
    words = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    result = ran(*words, env=environment, cwd=settings.BASE_DIR)
    assert result.returncode == 0, result.stderr


def test_a_bad_start_of_links_in_mails_stops_the_start(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "BOURSE_VAR": str(tmp_path), "SECRET_KEY": secrets.token_urlsafe(50)}
    environment |= {"DATABASE_URL": "none://", "REDIS_URL": "redis://127.0.0.1:1/0", "PUBLIC_URL": "bourse.example"}
    result = ran(sys.executable, "manage.py", "check", env=environment, cwd=settings.BASE_DIR)
    assert result.returncode == 1
    assert result.stderr.startswith("PUBLIC_URL: expected an address that begins with https:// or http://.\n")


@pytest.mark.parametrize(
    "words",
    [
        ["manage.py", "check"],
        ["-m", "marketplace.web", "127.0.0.1", "1"],
        ["-m", "celery", "--app", "marketplace.celery", "beat"],
    ],
    ids=["command", "web", "beat"],
)
def test_a_bad_setting_ends_each_kind_of_process_with_a_sentence(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff")
    environment = {"PATH": os.environ["PATH"], "BOURSE_VAR": str(tmp_path), "SECRET_KEY_FILE": str(tmp_path / "key")}
    environment |= {"DATABASE_URL": "none://", "REDIS_URL": "redis://127.0.0.1:1/0"}
    result = ran(sys.executable, *words, env=environment, cwd=settings.BASE_DIR)
    assert result.returncode == 1
    assert result.stderr.splitlines()[0] == f"SECRET_KEY_FILE: the file '{tmp_path / 'key'}' is not text in UTF-8."
    assert "Traceback" not in result.stderr


@needs("nginx")
def test_nginx_takes_its_example(tmp_path: Path) -> None:
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=bourse.example -keyout privkey.pem -out fullchain.pem"
    assert ran("openssl", *words.split(), cwd=tmp_path).returncode == 0
    site = (DEPLOY / "proxy" / "nginx.conf").read_text().replace("/etc/ssl/bourse", str(tmp_path))
    (tmp_path / "site.conf").write_text(
        re.sub(r"listen (\d+)", lambda port: f"listen 127.0.0.1:{20_000 + int(port[1])}", site)
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")  # Debian's own folders are there as a service only
    folders = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    served = f"access_log off; {folders} include {tmp_path}/site.conf;"
    main = f"events {{}} pid {tmp_path}/pid; error_log stderr; http {{ {served} }}"
    (tmp_path / "main.conf").write_text(main)
    result = ran("nginx", "-t", "-c", tmp_path / "main.conf")
    assert result.returncode == 0, result.stderr


@needs("caddy")
def test_proxies_let_through_the_longest_body_that_the_product_takes() -> None:
    nginx = re.search(r"client_max_body_size (\d+)m;", (DEPLOY / "proxy" / "nginx.conf").read_text())
    words = ["caddy", "adapt", "--adapter", "caddyfile", "--config", DEPLOY / "proxy" / "Caddyfile"]
    caddy = re.search(r'"max_size":(\d+)', ran(*words).stdout)
    assert nginx
    assert caddy
    assert min(int(nginx[1]) << 20, int(caddy[1])) >= MOST_SENT


@needs("caddy")
def test_caddy_takes_its_example(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    words = ["caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "proxy" / "Caddyfile"]
    result = ran(*words, env=environment)
    assert result.returncode == 0, result.stderr
