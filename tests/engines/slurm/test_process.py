"""`manage.py engine --name slurm` as a process of its own: killed and stopped, its gangs go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from scheduling.models import Award, JobState, Run, RunState
from scheduling.runs.runs import handle_of
from tenants.scoping import scope_disabled
from tests.database import serving_addresses
from tests.engines.local import ROOT, kill_people_of, until
from tests.engines.market import jobs_of, run_of
from tests.engines.slurm.cluster import Cluster
from tests.engines.slurm.gangs import launchers
from tests.engines.slurm.test_market import award_on_two, on_slurm
from tests.scheduling.live import again, make_live_pool


@contextmanager
def engine_of(var: Path) -> Iterator[subprocess.Popen[bytes]]:
    surroundings = os.environ | serving_addresses()
    surroundings |= {"BOURSE_VAR": str(var), "ENGINES_FILE": str(var / "engines.json")}
    with (var / "engine.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "engine", "--name", "slurm"],
            cwd=ROOT,
            env=surroundings,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(90)


def reaches(var: Path, award: Award, epoch: int) -> Run:
    """Its run trains, and has come so far."""

    def there() -> bool:
        with scope_disabled("the test waits"):
            run = Run.objects.filter(award=award).first()
        return run is not None and run.state == RunState.RUNNING and run.progress.get("epoch", 0) >= epoch

    until(there, lambda: f"{vars(run_of(award))}\n{(var / 'engine.log').read_text()[-3000:]}")
    return run_of(award)


@pytest.mark.wide
@pytest.mark.django_db(transaction=True)
def test_engine_that_is_killed_or_stopped_leaves_its_gangs_to_the_next_one(slurm: Cluster, tmp_path: Path) -> None:
    described: dict[str, Any] = {
        "kind": "slurm", "partition": "main", "reservation": "bourse", "shared": str(slurm.shared),
        "python": sys.executable, "conf": str(slurm.conf), "resources": {"worker": "cpus", "ps": "cpus"},
    }  # fmt: skip
    (tmp_path / "engines.json").write_text(json.dumps({"slurm": described}))
    pool = on_slurm(make_live_pool(slot_seconds=120, epoch_at=timezone.now() - timedelta(seconds=1)))
    award = award_on_two(pool)
    try:
        with engine_of(tmp_path):
            first = reaches(tmp_path, award, 2)
        with engine_of(tmp_path) as second:  # the first one was killed
            run = reaches(tmp_path, award, first.progress["epoch"] + 3)
            assert (run.number, run.reference) == (0, first.reference)
            assert len(launchers(handle_of(run), "n1")) == len(launchers(handle_of(run), "n2")) == 2
            second.send_signal(signal.SIGTERM)
            assert second.wait(90) == 0
        assert len(launchers(handle_of(run), "n1")) == 2
        with engine_of(tmp_path):
            reaches(tmp_path, award, run.progress["epoch"] + 3)
        assert (again(award).returned, jobs_of(award).state) == (0, JobState.AWARDED)
    finally:
        slurm.call("scancel", "-n", f"bourse-{run_of(award).key}-0")
        kill_people_of(str(slurm.shared / "job-"))
