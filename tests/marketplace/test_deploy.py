"""What `deploy/` holds for an installation that stays: units of systemd, their settings, proxies.

Nothing here is started by systemd: no machine that tests has one of its own to spare. The units are read by systemd's
own checker, which also counts what each may do to the machine; their commands are those that the operations page names.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from tests.patience import PATIENCE

DEPLOY = Path(settings.BASE_DIR) / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MOST_EXPOSED = {"bourse-engine@.service": 25}  # of 100, by systemd's own count; it starts the programs of tenants
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
    told = ran("systemd-analyze", "verify", "--man=no", units / unit.name)
    assert unit.stem not in told.stderr, told.stderr
    most = MOST_EXPOSED.get(unit.name, EXPOSED)
    judged = ran(
        "systemd-analyze", "security", "--offline=true", f"--threshold={most}", "--no-pager", units / unit.name
    )
    assert judged.returncode == 0, judged.stdout[-2_000:]


def test_units_run_what_the_operations_page_runs() -> None:
    page = (Path(settings.BASE_DIR) / "docs" / "operations.md").read_text()
    commands = {
        match[1].split(" --loglevel")[0].split(" --schedule")[0].split(" --name")[0]
        for unit in UNITS
        if (match := re.search(r"^ExecStart=/opt/bourse/(.*)$", unit.read_text(), re.M))
    }
    assert len(commands) == len(UNITS)
    assert [command for command in commands if command not in page] == []


def test_a_new_start_of_an_engine_leaves_gangs_alone() -> None:
    assert "KillMode=process" in (DEPLOY / "systemd" / "bourse-engine@.service").read_text().splitlines()


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
    told = ran(*words, env=environment, cwd=settings.BASE_DIR)
    assert told.returncode == 0, told.stderr


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
    told = ran("nginx", "-t", "-c", tmp_path / "main.conf")
    assert told.returncode == 0, told.stderr


@needs("caddy")
def test_caddy_takes_its_example(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    words = ["caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "proxy" / "Caddyfile"]
    told = ran(*words, env=environment)
    assert told.returncode == 0, told.stderr
