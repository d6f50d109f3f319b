"""The interface with 1,000,000 jobs and 10,000,000 entries of the book in the database, by `tests.bench.million`.

The database is built once, in minutes, and kept in `var/`; CLEAN=1 builds it anew. While it is built, its progress is
written to standard error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings


def measure() -> Iterator[dict[str, Any]]:
    """Measure in a process of its own, as settings are read once, and these name another database than usual."""
    folder = Path(settings.BASE_DIR) / "var" / "bench-million"
    command = [sys.executable, "-m", "tests.bench.million", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=settings.BASE_DIR) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
