"""Ten thousand intervals of a hundred tenants: the time that their audit takes, and a month in which every promise is
kept.

The intervals are built once, in an hour, and kept in `var/` (`tests.bench.audit`). A build that is interrupted
continues where it ended. AUDIT_INTERVALS=500 is for a quick look: at least that many are built, and all that exist are
measured. CLEAN=1 deletes them first. The progress of building is written to standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings

from tests.bench.million.figures import plain
from tests.journeys import month

NEEDS_DATABASE = True

INTERVALS = int(os.environ.get("AUDIT_INTERVALS", "10000"))


def measure() -> Iterator[dict[str, Any]]:
    yield _month()
    folder = Path(settings.BASE_DIR) / "var" / "bench-audit"
    command = [sys.executable, "-m", "tests.bench.audit", str(folder), str(INTERVALS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=settings.BASE_DIR) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"


def _month() -> dict[str, Any]:
    """Measure a month with finer slots and more work than the test's."""
    pool, tenants = month.make_month(slot_seconds=2 * 3600)
    lost = month.live(pool, tenants, month.DAYS * 12, jobs=2.0)
    promises = month.promises(pool, servers_lost=lost)
    assert not promises.broken, promises.broken[:5]
    detail = {"intervals": promises.intervals, "awards": promises.awards, "servers_lost": lost, "broken": 0}
    return plain("certificates kept in a month of ten tenants", promises.certificates, "certificates", "all", detail)
