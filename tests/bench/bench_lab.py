"""The lab: a million lines of a log, and the Philly log under four rules with intervals.

The Philly log is looked for where `bench_simulation` looks for it. Without it a line says so in place of the figures.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

from scheduling.lab.histories.history import zone_of
from scheduling.lab.histories.sacct import sacct
from scheduling.lab.histories.swf import swf
from tests.bench.bench_simulation import TRACE, Figure, figure, peak_gib
from tests.lab.simulated import held
from tests.lab.test_sacct import HEADING, ROWS, line

ROOT = Path(__file__).parents[2]
LINES, HISTORIES = 1_000_000, 200
STUDY = f"""title: Philly, days 20 to 99
history:
  format: jobs
  file: {TRACE / "jobs.csv.gz"}
  first_day: 1970-01-21
  days: 80
  slot_minutes: 60
  machines: {{servers: 100, units: 8}}
rules: [alone, backfill, fair_share, market]
"""


def measure() -> Iterator[Figure]:
    """Measure each reader in a fresh process, so that its peak of memory is its own; then intervals, then Philly."""
    for read in (read_sacct, read_swf):
        with get_context("spawn").Pool(1) as process:
            yield from process.apply(read)
    yield from coverage()
    yield from philly()


def coverage() -> Iterator[Figure]:
    """Measure how often intervals hold the truth of simulated logs. They claim to do so in nine of ten."""
    with tempfile.TemporaryDirectory() as folder:
        for measure, part in held(Path(folder), HISTORIES).items():
            detail = f"of {HISTORIES} simulated logs, whose truth {HISTORIES} others tell"
            yield figure(f"lab_interval_holds_{measure}", part, "part", "0.85 to 0.95", detail)


def read_sacct() -> list[Figure]:
    begin = time.perf_counter()
    log = sacct(_sacct_lines(), zone=zone_of("Europe/Berlin"), place="log")
    return _reading("sacct", len(log.jobs), time.perf_counter() - begin)


def _sacct_lines() -> Iterator[str]:
    """Yield the lines of fifty days of jobs, each job with a name of its own."""
    yield f"{HEADING}\n"
    _, rest = line(ROWS[0]).split("|", 1)
    for number in range(LINES):
        minute = number % 60
        day, hour = divmod(number // 60 % 1200, 24)
        stamp = f"2026-{8 + day // 28:02}-{1 + day % 28:02}T{hour:02}:{minute:02}"
        end = f"{stamp[:14]}59"
        row = (
            rest.replace("2026-10-01T08:00", stamp).replace("2026-10-01T08:10", stamp).replace("2026-10-01T09:10", end)
        )
        yield f"{number}|{row.replace('|3600|', f'|{60 * (59 - minute)}|')}"


def read_swf() -> list[Figure]:
    begin = time.perf_counter()
    lines = (f"{k} {k} 60 3600 4 -1 -1 4 7200 -1 1 7 {k % 40} -1 1 2 -1 -1\n" for k in range(1, LINES + 1))
    log = swf(lines, place="log")
    return _reading("swf", len(log.jobs), time.perf_counter() - begin)


def _reading(form: str, jobs: int, seconds: float) -> list[Figure]:
    detail = f"{jobs:,} jobs of {LINES:,} lines; {time.process_time():.0f} s of one processor"
    return [
        figure(f"lab_read_{form}", round(seconds, 1), "s", "under 120", detail),
        figure(f"lab_read_{form}_memory", round(peak_gib(), 2), "GiB", "under 1", "peak of the process"),
    ]


def philly() -> Iterator[Figure]:
    """Measure Philly under four rules, the market with three assumptions of worth: six replays, on every core."""
    if not (TRACE / "jobs.csv.gz").exists():
        yield figure("lab_philly", None, "", None, "skipped: no Philly log here; PHILLY_TRACE may name its folder")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "STUDY.yaml").write_text(STUDY, encoding="utf-8")
        begin = time.perf_counter()
        command = [sys.executable, str(ROOT / "manage.py"), "lab", str(folder / "STUDY.yaml"), "--output", str(folder)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - begin
        lines = done.stdout.splitlines()
        sizes = {path.name: path.stat().st_size for path in (folder / "report.html", folder / "figures.csv")}
        detail = f"{lines[0]}; {os.cpu_count()} cores; {json.dumps(sizes)}"
        yield figure("lab_philly", round(seconds / 60, 2), "minutes", "at most 10", detail)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        yield figure("lab_philly_memory", round(peak, 2), "GiB", "at most 2", "largest peak of one of its processes")
