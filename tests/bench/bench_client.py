"""The time that the command line takes to start: to show its help, and to request and show a list."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.client.stub import good, stub_server

CLIENT = Path(__file__).parents[2] / "client"
RUNS, TARGET_MS = 15, 150
COMMANDS = {"client.help": ("--help",), "client.version": ("--version",), "client.tenants": ("tenants",)}
ME = {"email": "ada@lumen.example", "name": "Ada", "tenants": [], "staff_roles": [], "token": None}


def measure() -> Iterator[dict[str, Any]]:
    with stub_server(good(ME)) as stub:
        environment = {**os.environ, "PYTHONPATH": str(CLIENT), "BOURSE_URL": stub.address, "BOURSE_TOKEN": "t"}
        for name, words in COMMANDS.items():
            times = sorted(_once(words, environment) for _ in range(RUNS))
            yield {
                "name": name,
                "value": round(statistics.median(times)),
                "unit": "ms",
                "target": f"under {TARGET_MS}",
                "detail": {"runs": RUNS, "fastest_ms": round(times[0]), "python_alone_ms": round(_python_alone())},
            }


def _once(words: Sequence[str], environment: dict[str, str]) -> float:
    """Return the milliseconds that a whole process takes."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "bourse_client", *words]
    subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60
    )
    return 1000 * (time.perf_counter() - began)


def _python_alone() -> float:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True, timeout=60)
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)
