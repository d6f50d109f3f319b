"""How large one pool can be: each row at its full size and at a tenth of it, in a process and a database of its own.

A row is a module of `tests/bench/scale` that is named in ROWS. It has `SIZES`, a tenth first and then the full size,
and `measure(size)`, which yields figures with name, value, unit, target and detail like a bench's own. Each figure gets
the size and the peak memory of its process. Figures in seconds that have one name at both sizes give another figure,
their growth. `BENCH_ROWS=interval,settle` measures these rows alone, `BENCH_SIZES=10000` these sizes alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from django.conf import settings

ROWS = (
    "interval",
    "store",
    "settle",
    "pools",
    "pools_of_two_machines",
    "many_pools",
    "simulation",
    "year",
    "pages",
    "instant",
    "sockets",
)
MOST_GROWTH = 12.0  # times the time for ten times the work

Figure = dict[str, Any]


def measure() -> Iterator[Figure]:
    only = os.environ.get("BENCH_ROWS", "")
    rows = [row for row in ROWS if not only or row in only.split(",")]
    for row in rows:
        yield from _row(row)


def _row(row: str) -> Iterator[Figure]:
    """Yield the figures of every size, then the growth of those that were measured at two sizes."""
    only = os.environ.get("BENCH_SIZES", "")
    sizes = import_module(f"tests.bench.scale.{row}").SIZES
    values: dict[tuple[str, str], dict[int, float]] = {}
    for size in [size for size in sizes if not only or str(size) in only.split(",")]:
        for figure in _measured(row, size):
            yield figure
            values.setdefault((figure["name"], figure["unit"]), {})[size] = figure["value"]
    for (name, unit), by_size in values.items():
        if unit == "s" and len(by_size) > 1:
            small, large = min(by_size), max(by_size)
            growth = by_size[large] / by_size[small] / (large / small / 10)
            detail = {"from": small, "to": large, "seconds": [by_size[small], by_size[large]]}
            about = {"unit": "times", "target": f"<= {MOST_GROWTH:g}", "detail": detail}
            yield {"name": f"growth by ten: {name}", "value": round(growth, 2), **about}


def _measured(row: str, size: int) -> Iterator[Figure]:
    """Measure a row in a process of its own, so that its peak memory is the row's, and with a database of its own."""
    command = [sys.executable, "-m", "tests.bench.scale", row, str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=settings.BASE_DIR) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
