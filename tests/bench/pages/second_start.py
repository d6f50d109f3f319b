"""Measures how soon the second start of the demonstration answers with its first page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings

from tests.browser.screenshots import OF_TESTS
from tests.ports import free_port

FIRST_SECONDS, SECOND_SECONDS = 300.0, 60.0


def second_start() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bourse-bench-start-", ignore_cleanup_errors=True) as folder:
        with started(folder) as (address, product):
            first = until_page(address, product, FIRST_SECONDS, path="/readyz")
        with started(folder) as (address, product):
            second = until_page(address, product, SECOND_SECONDS)
    return {
        "name": "pages.second_start",
        "value": round(second, 1),
        "unit": "s until the first page",
        "target": "<= 5",
        "detail": {"first_start_until_ready_s": round(first, 1), "load": round(os.getloadavg()[0], 1)},
    }


@contextmanager
def started(folder: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start the product as `make run` does, which lets Python keep what it has compiled, with its data in `folder`.
    Yield its address and its process. It ends with the block."""
    port = free_port()
    variables = {
        name: value for name, value in os.environ.items() if name not in (*OF_TESTS, "PYTHONDONTWRITEBYTECODE")
    }
    environment = {**variables, "BOURSE_VAR": folder, "PORT": str(port)}
    command = [sys.executable, "manage.py", "up"]
    product = subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}", product
    finally:
        product.send_signal(signal.SIGINT)
        product.wait(timeout=90)


def until_page(address: str, product: subprocess.Popen[bytes], patience: float, path: str = "/") -> float:
    """Return the seconds until the page answers. Fail if it does not within `patience`."""
    began = time.monotonic()
    while time.monotonic() - began < patience:
        assert product.poll() is None, f"the product ended with {product.returncode}"
        try:
            with urllib.request.urlopen(address + path, timeout=5):
                return time.monotonic() - began
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"no page within {patience} seconds")
