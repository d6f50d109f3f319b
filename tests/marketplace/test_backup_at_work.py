"""Backups beside a gang that trains, one in the middle of a settlement and one in the middle of an interval."""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from marketplace.embedded import state_for
from scheduling.app.clock import pool_advance
from scheduling.engines.local.engine import TIMINGS
from scheduling.market.decide import interval
from scheduling.market.settle import slots
from scheduling.models import Pool, RunState
from scheduling.runs.runs import home
from tests.engines.local import engine_in
from tests.engines.market import drive, sold
from tests.marketplace.test_backup import ELSEWHERE, TABLES, another_database, installation, manage, rows_of, runs_of
from tests.patience import PATIENCE
from tests.scheduling.clocks import moment

pytestmark = [pytest.mark.wide, pytest.mark.django_db(transaction=True)]

SECONDS = 600  # of a slot: longer than the test
ALL = (*TABLES, "ledger_balance", "scheduling_run", "scheduling_laneclock", "scheduling_event")


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    yield
    for var in ("here", "settlement-there", "interval-there"):
        shutil.rmtree(state_for(tmp_path / var).folder, ignore_errors=True)


@dataclass
class Held:
    """A step of a transaction that is held right after its work, nothing of which is committed yet."""

    step: Callable[..., Any]
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self, *args: Any, **options: Any) -> Any:
        outcome = self.step(*args, **options)
        self.reached.set()
        assert self.go_on.wait(PATIENCE)
        return outcome


def advance(pool: Pool) -> None:
    pool_advance(pool_id=pool.pk, at=moment(pool, 3.01))
    connection.close()


def test_backups_in_the_middle_of_a_settlement_and_of_an_interval_beside_a_gang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, _, (award,) = sold(SECONDS, servers=1)
    held = {"settlement": Held(slots._tell), "interval": Held(interval.post_many)}
    monkeypatch.setattr(slots, "_tell", held["settlement"])
    monkeypatch.setattr(interval, "post_many", held["interval"])
    key, database = secrets.token_urlsafe(50), connection.settings_dict["NAME"]
    here = installation(tmp_path / "here", database, key)
    committed = {}
    root = state_for(tmp_path / "here").folder
    root.mkdir(parents=True, exist_ok=True)
    with engine_in(
        root, timings=replace(TIMINGS, lease=PATIENCE, patience=2 * PATIENCE)
    ) as engine:  # nobody ticks during a backup
        run = drive(engine, award, RunState.RUNNING, epoch=1)
        boundary = threading.Thread(target=advance, args=(pool,))
        boundary.start()
        for name, step in held.items():
            assert step.reached.wait(PATIENCE), name
            committed[name] = rows_of(database, ALL)
            process = manage(here, "backup", tmp_path / name)
            assert process.returncode == 0, process.stderr
            step.go_on.set()
        boundary.join(PATIENCE)
        after = rows_of(database, ALL)
        document = json.loads((runs_of(tmp_path / "here") / home(run) / run.key / "plan.json").read_text())
        # The gang was left alone: it trains on.
        later = drive(engine, award, RunState.RUNNING, epoch=run.progress["epoch"] + 1)
        assert (later.key, later.restarts) == (run.key, 0)
    assert after != committed["interval"] != committed["settlement"]
    for name, rows in committed.items():
        there = installation(tmp_path / f"{name}-there", ELSEWHERE, key)
        with another_database():
            restored = manage(there, "restore", tmp_path / name)
            assert restored.returncode == 0, restored.stderr
            for verified in ("the book is in order", "the intervals are in order", "unbroken"):
                assert verified in restored.stdout
            assert rows_of(ELSEWHERE, ALL) == rows
        files = runs_of(tmp_path / f"{name}-there") / home(run) / run.key
        assert json.loads((files / "plan.json").read_text()) == document
