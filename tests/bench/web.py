"""The web server as a process of its own on the benchmark's database, and people who are logged in to it."""

from __future__ import annotations

import os
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from django.conf import settings
from django.test import Client

from marketplace.processes import children
from tenants.models import User
from tests.ports import free_port


@dataclass(frozen=True)
class Web:
    port: int
    processes: tuple[psutil.Process, ...]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def web_server(processes: int) -> Iterator[Web]:
    """Run the web server until the block ends."""
    with tempfile.TemporaryDirectory(prefix="bourse-bench-web-") as folder, ExitStack() as stack:
        port = free_port()
        started = []
        for number in range(processes):
            log = Path(folder) / f"web-{number}.log"
            child = children.start(f"web-{number}", _command(port), log=log, environment=_environment())
            stack.callback(children.stop, child)
            started.append(psutil.Process(child.pid))
            children.wait_until(partial(_listens, started[-1]), child, patience=60.0)
        children.wait_until(lambda: _answers(port), child, patience=60.0)
        yield Web(port, tuple(started))


def session_of(user: User) -> str:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def _command(port: int) -> list[str]:
    return [sys.executable, "-m", "marketplace.web", "127.0.0.1", str(port)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(settings.BASE_DIR), "OPENBLAS_NUM_THREADS": "1"}


def _listens(process: psutil.Process) -> bool:
    return any(each.status == psutil.CONN_LISTEN for each in process.net_connections(kind="inet"))


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
