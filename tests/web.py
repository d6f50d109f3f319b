"""A real web server on the test database, as a child of the test run."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from marketplace.processes import children
from tests.conftest import FOLDER
from tests.database import serving_addresses
from tests.patience import PATIENCE
from tests.ports import free_port

# A machine that stands still for a while is no fault of a page.
PATIENT = {"REQUEST_SECONDS": "300", "WEB_STATEMENT_SECONDS": "300", "WEB_LOCK_SECONDS": "300"}


@contextmanager
def web_server() -> Iterator[str]:
    """Start a web server and yield its address. The server ends with the block."""
    port = free_port()
    command = ["-m", "tests.web_process", "127.0.0.1", str(port)]
    log = FOLDER / f"web-{port}.log"
    child = children.start("web", [sys.executable, *command], log=log, environment=environment() | PATIENT)
    address = f"http://127.0.0.1:{port}"
    try:
        children.wait_until(lambda: _answers(address) or child.ended, child, patience=PATIENCE)
        assert not child.ended, log.read_text(errors="replace")[-4_000:]
        yield address
    finally:
        children.stop(child)
        sys.stdout.write(log.read_text(errors="replace")[-4_000:])  # pytest shows it if a test failed


def environment() -> dict[str, str]:
    return {
        **os.environ,
        **serving_addresses(),
        "PYTHONPATH": str(settings.BASE_DIR),
        "DJANGO_SETTINGS_MODULE": "marketplace.settings",
        "DATABASE_POOL": "false",  # no connection outlives its request, so that the database can be emptied
        "OPENBLAS_NUM_THREADS": "1",
        "WEB_PATIENCE_SECONDS": "1",
    }


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
