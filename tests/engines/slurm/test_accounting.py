"""Slurm's own accounting, by a real slurmdbd: what it knows of a gang stands beside what was charged and what ran, and
its log is read by the lab as the guide's command prints it."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
import time
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from scheduling.engines.base import Accounted
from scheduling.lab.histories.sacct import sacct
from scheduling.models import Pool, RunState
from scheduling.runs.engines import accounted_of
from scheduling.runs.read_ran import charged_against_ran
from scheduling.runs.runs import handle_of
from tenants.scoping import scope_disabled
from tests.engines.local import ALL, ROOT
from tests.engines.slurm.accounting import MISSING, WHY_NOT, AccountedCluster
from tests.engines.slurm.cluster import cluster, until
from tests.engines.slurm.gangs import engine_on, nobody_is_left
from tests.engines.slurm.test_market import award_on_two, drive, on_slurm
from tests.scheduling.live import make_live_pool

SLOT, LEFT = 300, 6.0  # seconds of a slot, and how much of the first one is left when the gang begins
ROUNDED = 1.5  # Slurm's accounting counts whole seconds
RESOURCES = {"worker": "gres:gpu", "ps": "cpus"}
GUIDE = re.search(r"^(sacct .*) > log\.txt$", (ROOT / "docs" / "guide" / "lab.md").read_text(), re.MULTILINE)


@pytest.mark.wide
@pytest.mark.skipif(bool(MISSING), reason=WHY_NOT)
@pytest.mark.django_db
def test_cluster_with_accounting_says_how_long_each_part_ran_and_its_log_is_a_history(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduling.market.decide.programs.PROGRAMS", ALL)
    began = time.time()
    with cluster(("n1", "n2"), AccountedCluster, gpus=2) as slurm:
        slurm.reserve()
        described: dict[str, Any] = {
            "kind": "slurm", "partition": "main", "reservation": "bourse", "shared": str(slurm.shared),
            "python": sys.executable, "conf": str(slurm.conf), "resources": RESOURCES,
        }  # fmt: skip
        (tmp_path / "engines.json").write_text(json.dumps({"slurm": described}))
        settings.ENGINES_FILE = str(tmp_path / "engines.json")
        pool = on_slurm(make_live_pool(slot_seconds=SLOT, epoch_at=timezone.now() - timedelta(seconds=SLOT - LEFT)))
        award = award_on_two(pool)
        with engine_on(slurm, prefix="bourse", resources=RESOURCES) as engine:
            run = drive(engine, award, RunState.RUNNING, epoch=2)
            until(lambda: [part.end for part in parts_of(pool)] == [None, None], slurm.story)
            engine.stop(handle_of(run))  # of what is cancelled, Slurm notes that it ended before its launchers do
            run = drive(engine, award, RunState.STOPPED)
            nobody_is_left(handle_of(run))
        until(lambda: all(part.end for part in parts_of(pool)), slurm.story)
        ended = time.time()

        # Part by part, as the launchers say.
        parts = {part.server: part for part in parts_of(pool)}
        assert {(part.key, part.generation, part.server) for part in parts.values()} == {
            (run.key, 0, "n1"), (run.key, 0, "n2"),
        }  # fmt: skip
        for server, since, until_then in run.delivered:
            part = parts[server]
            assert began - ROUNDED <= part.begin <= since + ROUNDED
            assert part.end is not None
            assert until_then - ROUNDED <= part.end <= ended + ROUNDED
        with scope_disabled("the test compares"):
            rows = list(charged_against_ran(pool, 0, pool.slot_at(timezone.now()), accounted_of(pool, 0, 1)))
        assert {row.server for row in rows if row.ran_seconds} == {"n1", "n2"}
        assert all((row.accounted_seconds or 0.0) >= row.ran_seconds - ROUNDED for row in rows), rows

        # By the operator's command, which has nothing to say against it, once the first slot is over.
        until(lambda: pool.slot_at(timezone.now()) > 0)
        out, errors = io.StringIO(), io.StringIO()
        call_command("engine", "ran", "--pool", pool.slug, "--from-slot", "0", stdout=out, stderr=errors)
        assert errors.getvalue() == ""
        first = [row for row in csv.DictReader(io.StringIO(out.getvalue())) if row["slot"] == "0"]
        assert [row["server"] for row in first] == ["n1", "n2"]
        seconds = {row.server: row.accounted_seconds for row in rows if row.slot == 0}
        assert {row["server"]: float(row["accounted_seconds"]) for row in first} == seconds

        # The same log, as the guide's command prints it, is one of two jobs that ran.
        assert GUIDE is not None
        words = re.sub(r"--starttime=\S+ --endtime=\S+", "--starttime=now-1hours --endtime=now", GUIDE[1])
        printed = slurm.call("env", "TZ=UTC", *shlex.split(words))
        assert printed.returncode == 0, printed.stderr
    log = sacct(printed.stdout.splitlines(), zone=UTC, owner="user", unit="cpu", place="log.txt")
    assert (len(log.jobs), log.bad) == (2, ())


def parts_of(pool: Pool) -> list[Accounted]:
    parts = accounted_of(pool, 0, 1)
    assert not isinstance(parts, str), parts
    return list(parts)
