"""The database and the broker killed in the middle of the market's work, and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import psycopg
import pytest

from marketplace.embedded import FORGETFUL, Servers, State
from tests.concurrency.beside import ROOT, beside
from tests.concurrency.test_crashes import INTERVAL_STEPS, PLACES, SETTLE_STEPS
from tests.filled import tables_filled_in
from tests.patience import PATIENCE


def folder() -> Path:
    """For servers of our own: those of the other tests must live on. Its path is short, for sockets lie in it."""
    place = Path(tempfile.mkdtemp(prefix="bourse-"))
    place.chmod(0o711)
    return place


@pytest.fixture(scope="module")
def prepared(migrated: None) -> Iterator[State]:
    """Servers that are shut down, and in their database a contested market."""
    state = State(folder())
    tables_filled_in(state)
    with Servers(state, settings=FORGETFUL, with_redis=False), beside(environment(state)) as other:
        other.done("prepare")
    yield state
    rmtree(state.folder, ignore_errors=True)


@pytest.fixture
def state(prepared: State) -> Iterator[State]:
    """The same servers once more, which may be killed."""
    own = folder()
    subprocess.run(["cp", "--archive", f"{prepared.folder}/.", own], check=True)  # the files keep their owner
    yield State(own)
    rmtree(own, ignore_errors=True)


def environment(state: State) -> dict[str, str]:
    own = {
        "DATABASE_URL": state.database_url,
        "DATABASE_OWNER_URL": state.owner_url,
        "REDIS_URL": state.redis_url,
        "BOURSE_VAR": str(state.folder / "var"),
    }
    return os.environ | own


def pid_of(servers: Servers, name: str) -> int:
    return next(child.pid for child in servers.running if child.name == name)


@contextlib.contextmanager
def product(state: State, *names: str) -> Iterator[None]:
    """Celery's worker and beat as `up` starts them."""
    celery = [sys.executable, "-m", "celery", "--app", "marketplace.celery", "--quiet"]
    commands = {
        "worker": [*celery, "worker", "--concurrency", "1", "--without-mingle", "--without-gossip"],
        "beat": [*celery, "beat", "--scheduler", "celery.beat:Scheduler", "--pidfile="],
    }
    with contextlib.ExitStack() as stack:
        for name in names:
            log = stack.enter_context((state.folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                commands[name], cwd=ROOT, env=environment(state), stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(process.wait, PATIENCE)
            stack.callback(process.send_signal, signal.SIGTERM)
        yield


def wait_until(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def decided(state: State) -> int:
    with psycopg.connect(state.database_url) as connection:
        row = connection.execute("SELECT decided_slot FROM scheduling_laneclock WHERE lane = 'batch'").fetchone()
    return row[0] if row else -1


@pytest.mark.wide
@pytest.mark.parametrize("step", [INTERVAL_STEPS[6], INTERVAL_STEPS[12], SETTLE_STEPS[5]], ids="-".join)
def test_market_goes_on_after_the_database_was_killed_at(step: tuple[str, str, str], state: State) -> None:
    module, function, when = step
    servers = Servers(state, with_redis=False)
    servers.start()
    try:
        with beside(environment(state)) as other:
            other.done("advance main 1")
            before = decided(state)
            victim = pid_of(servers, "PostgreSQL")
            struck = other.work("advance main 25", PLACES[module], function, when, victim=victim)
            assert struck.status == 1, struck.errors
            assert "OperationalError" in struck.errors
            servers.stop()
            servers.start()
            assert decided(state) >= before
            other.done("advance main 25")
            other.done("verify")
            assert "('finished'," in other.done("show")
    finally:
        servers.stop()


@pytest.mark.wide
def test_clock_goes_on_after_the_broker_was_killed(state: State) -> None:
    servers = Servers(state)
    servers.start()
    try:
        with psycopg.connect(state.owner_url) as connection:
            clock = connection.execute("SELECT slot_seconds, epoch_at FROM scheduling_pool").fetchone()
            connection.execute("UPDATE scheduling_pool SET slot_seconds = 1, epoch_at = now()")
        with product(state, "worker", "beat"):
            wait_until(lambda: decided(state) >= 2, "the clock never started")
            os.kill(pid_of(servers, "Valkey"), signal.SIGKILL)
            servers.stop()
            servers.start()
            reached = decided(state)
            wait_until(lambda: decided(state) >= reached + 5, "the clock stood still")
        with psycopg.connect(state.owner_url) as connection:  # as its jobs and the history know it
            connection.execute("UPDATE scheduling_pool SET slot_seconds = %s, epoch_at = %s", clock)
        with beside(environment(state)) as other:
            other.done("verify")
    finally:
        servers.stop()
