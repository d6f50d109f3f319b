"""Every page of a market with 500 servers, 30 tenants and 100,000 jobs, as a member, an owner, an operator and an
auditor get it: kilobytes, nodes, screens and milliseconds; and how soon a second start has its first page.

`BENCH_ONLY=servers,ledger` measures these addresses alone, `BENCH_ROLES=owner` these people alone, and
`BENCH_BROWSER=0` no heights. The progress of building is written to standard error. With
`python -m tests.bench.pages FOLDER`, what was built is kept in that folder for the next time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from django.conf import settings

from tests.bench.pages.second_start import second_start


def measure() -> Iterator[dict[str, Any]]:
    """Measure in a process of its own, as settings are read once, and these name another database than usual."""
    with tempfile.TemporaryDirectory(prefix="bourse-bench-pages-", dir="/var/tmp") as folder:
        command = [sys.executable, "-m", "tests.bench.pages", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=settings.BASE_DIR) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
        assert process.returncode == 0, f"{command} ended with {process.returncode}"
    yield second_start()
