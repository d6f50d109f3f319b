"""Every page of a market with `size` servers and an interval of twice as many jobs, against the budget of a page.

A tenth is a tenth of both. More than a quarter of the jobs get an award: `pages.making` says how many are alive. The
past of this market is a few days; the pages bench has thirty, on 500 servers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from django.conf import settings

SIZES = (500, 5_000)  # servers
WAIT, JOBS, DAYS = 2, 10_000, 2  # jobs of the last interval for each server; jobs that ended, in so many days


def measure(size: int) -> Iterator[dict[str, Any]]:
    """Measure in a process of its own, with servers that lose data in a crash, because pages only read."""
    with tempfile.TemporaryDirectory(prefix="bourse-scale-pages-", dir="/var/tmp") as folder:
        market = [str(number) for number in (size, WAIT * size, JOBS, DAYS)]
        command = [sys.executable, "-m", "tests.bench.pages", folder, *market]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=settings.BASE_DIR) as process:
            assert process.stdout is not None
            for line in process.stdout:
                figure = json.loads(line)
                yield figure
                if figure["name"] in ("pages.milliseconds", "pages.processor_ms"):  # once more, for how they grow
                    name, seconds = figure["name"].removesuffix("_ms"), figure["value"] / 1_000
                    yield {"name": f"{name}, slowest", "value": seconds, "unit": "s", "target": "<= 0.3", "detail": {}}
        assert process.returncode == 0, f"{command} ended with {process.returncode}"
