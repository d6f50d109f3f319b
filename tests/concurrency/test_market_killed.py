"""`manage.py up` and each of its children killed, and stopped, while a gang trains: it goes on, or when all are back,
nobody outlives the product, and nobody is refunded."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from marketplace.embedded import Servers, State
from tests.engines.local import kill_people_of, people_of, until
from tests.filled import tables_filled_in
from tests.marketplace.conftest import short_folder  # noqa: F401
from tests.marketplace.test_up import ROOT, WORDS, Up
from tests.patience import PATIENCE
from tests.ports import free_port

SECRET = secrets.token_urlsafe(50)
ALONE = 30.0  # seconds in which all must be gone, when nobody is left who could ask them


@pytest.fixture
def var(short_folder: Path, migrated: None) -> Iterator[Path]:  # noqa: F811
    """The product's data folder. Whoever lives for it is killed by its id in the end."""
    tables_filled_in(State(short_folder / "var"))
    yield short_folder / "var"
    kill_people_of(str(short_folder))
    until(lambda: not people_of(str(short_folder)))


def production(var: Path) -> dict[str, str]:
    """Settings of a product that serves others, with no demonstration. Its files are collected, as it does not start
    without them; no page is asked for."""
    collected = var.parent / "collected"
    collected.mkdir(exist_ok=True)
    (collected / "staticfiles.json").touch()
    return {"DEBUG": "false", "SECRET_KEY": SECRET, "STATIC_ROOT": str(collected)}


def work(var: Path, what: str) -> None:
    """Something that is done to the market by a process beside it."""
    state = State(var)
    own = {
        "DATABASE_URL": state.database_url,
        "DATABASE_OWNER_URL": state.owner_url,
        "REDIS_URL": state.redis_url,
        "BOURSE_VAR": str(var),
    }
    command = [sys.executable, "-m", "tests.concurrency.faulty", what]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | own, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def rows_of(var: Path, question: str) -> list[tuple]:
    with psycopg.connect(State(var).database_url) as connection:
        return connection.execute(question).fetchall()


def trains(var: Path, run: int) -> int:
    """Wait until this run of the award has finished an epoch, and one more; the epoch."""
    question = f"SELECT (progress->>'epoch')::int FROM scheduling_run WHERE number = {run} AND state = 'running'"  # noqa: S608

    def epoch() -> int:
        return max((row[0] or 0 for row in rows_of(var, question)), default=0)

    until(lambda: epoch() > 0, patience=PATIENCE)
    first = epoch()
    until(lambda: epoch() > first)
    return epoch()


@pytest.mark.wide
def test_market_that_is_killed_or_stopped_leaves_nobody_and_goes_on_with_what_it_sold(var: Path) -> None:
    with Up(var, free_port(), **production(var)) as up:
        up.wait_for_address()
        work(var, "sell 240")
        trains(var, run=0)
        gang = rows_of(var, "SELECT reference FROM scheduling_run")
        for name in WORDS:
            up.lose(name)
        first = trains(var, run=0)
        assert rows_of(var, "SELECT reference FROM scheduling_run") == gang
        assert rows_of(var, "SELECT state, returned FROM scheduling_award") == [("running", 0)]
        up.process.kill()
        until(lambda: people_of(str(var)) == [], lambda: str(people_of(str(var))), patience=ALONE)

    with Up(var, free_port(), **production(var)) as up:
        up.wait_for_address()
        assert trains(var, run=1) > first
        work(var, "verify")
        up.process.send_signal(signal.SIGINT)
        assert up.end()[0] == 0
        assert people_of(str(var)) == []

    with Servers(State(var), with_redis=False):
        work(var, "verify")
        assert rows_of(var, "SELECT state, returned, cut_at FROM scheduling_award") == [("running", 0, None)]
        assert rows_of(var, "SELECT state FROM scheduling_trainingjob ORDER BY id") == [("running",), ("queued",)]
        assert rows_of(var, "SELECT state FROM scheduling_run ORDER BY number") == [("paused",)] * 2
