"""The web server as a process of its own on the benchmark's database, and people who are logged in to it."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from django.conf import settings
from django.test import Client

from marketplace import children
from tenants.models import User


@dataclass(frozen=True)
class Web:
    port: int
    process: psutil.Process

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def web_server() -> Iterator[Web]:
    """It ends with the block."""
    with tempfile.TemporaryDirectory(prefix="bourse-bench-web-") as folder:
        port = _free_port()
        child = children.start("web", _command(port), log=Path(folder) / "web.log", environment=_environment())
        try:
            children.wait_until(lambda: _answers(port), child, patience=60.0)
            yield Web(port, psutil.Process(child.pid))
        finally:
            children.stop(child)


def session_of(user: User) -> str:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def _command(port: int) -> list[str]:
    command = [sys.executable, "-m", "uvicorn", "marketplace.asgi:application", "--host", "127.0.0.1"]
    return [*command, "--port", str(port), "--no-access-log", "--log-level", "warning"]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(settings.BASE_DIR), "OPENBLAS_NUM_THREADS": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
