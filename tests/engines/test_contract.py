"""What every engine is asked and may answer: many at once, `unknown`, a lease that is kept no longer than it may."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from errno import EACCES
from itertools import count
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, ProgrammingError, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from django.utils import timezone

from marketplace import addresses
from scheduling.engines.base import (
    RUNNING,
    UNKNOWN,
    ClusterFinding,
    Fault,
    Gang,
    Generation,
    Handle,
    Report,
    ServerHealth,
    Status,
    Timings,
    merged,
)  # fmt: skip
from scheduling.management.commands.engine import Command, Hindrance, Lease, _listener, _mine, connection_words
from scheduling.models import Award, AwardState, Run, RunState
from scheduling.runs.runs import runs_tick
from scheduling.runs.watch import runs_watch
from tenants.scoping import scope_disabled
from tests.engines.local import until
from tests.engines.market import award_on, jobs_of, place, run_of, world
from tests.scheduling.live import again, book_is_sound, money

TIMINGS = Timings(lead=2.5, least_slot=1.0, patience=20.0, lease=15.0, stop=2.0)


class Silent:
    """An engine that takes gangs and can then not be asked about them. It counts how often it was."""

    name = "local"
    timings = TIMINGS

    def __init__(self) -> None:
        self.submitted: list[list[str]] = []
        self.observed: list[int] = []
        self.touched = 0
        self.refused: set[int] = set()

    def touch(self) -> None:
        self.touched += 1

    def submit(self, gangs: Sequence[Gang]) -> dict[str, Handle | Fault]:
        self.submitted.append([gang.key for gang in gangs])
        return {
            gang.key: Fault("It is full") if number in self.refused else Handle(gang.key, gang.home, {"here": True})
            for number, gang in enumerate(gangs)
        }

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        self.observed.append(len(handles))
        return {handle.key: Status(UNKNOWN, detail="nobody answers") for handle in handles}

    def stop(self, handle: Handle, *, pause: bool = False, why: str = "") -> None: ...

    def reconcile(self, handles: Sequence[Handle]) -> None: ...

    def servers(self) -> dict[str, ServerHealth]:
        return {}

    def report(self) -> Report:
        return Report()


@pytest.mark.django_db
def test_gang_of_which_nothing_is_known_keeps_its_row_and_is_refunded_after_the_engines_patience() -> None:
    pool, tenant, award = world(seconds=60)
    engine: Any = Silent()
    runs_tick(engine=engine, at=timezone.now())
    last_look = run_of(award).seen_at
    later = timezone.now() + timedelta(seconds=19)
    assert runs_tick(engine=engine, at=later).ended == 0
    run = run_of(award)
    assert (run.state, run.seen_at, run.detail) == (RunState.STARTING, last_look, "")
    assert runs_watch(pool=pool, at=later) == 0
    assert runs_watch(pool=pool, at=later + timedelta(seconds=3)) == 1
    assert (again(award).state, again(award).returned) == (AwardState.VOID, 30)
    assert jobs_of(award).reason_code == "engine_error"
    assert money(tenant) == (1_000_000_000, 0, 0)
    assert book_is_sound()


@pytest.mark.django_db
def test_all_that_begin_are_one_submission_and_all_that_run_are_one_question() -> None:
    pool, tenant = place(seconds=60)
    awards = [award_on(pool, tenant, f"s{number}") for number in range(3)]
    engine: Any = Silent()
    engine.refused = {1}
    ticked = runs_tick(engine=engine, at=timezone.now())
    assert (ticked.started, [len(keys) for keys in engine.submitted]) == (2, [3])
    runs_tick(engine=engine, at=timezone.now())
    assert engine.observed[-1] == 2
    with scope_disabled("the test looks at runs"):
        states = dict(Run.objects.values_list("award", "state"))
    assert [states[award.pk] for award in awards] == [RunState.STARTING, RunState.LOST, RunState.STARTING]
    assert [again(award).returned for award in awards] == [0, 30, 0]


class Full(Silent):
    """An engine whose gangs run, and whose disk takes no orders for them."""

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        return {handle.key: Status(RUNNING, started_at=1.0) for handle in handles}

    def stop(self, handle: Handle, *, pause: bool = False, why: str = "") -> None:
        raise OSError(28, "No space left on device")


@pytest.mark.django_db
def test_gang_whose_order_cannot_be_written_does_not_keep_the_others_from_being_seen() -> None:
    pool, tenant = place(seconds=60)
    taken_back, well = (award_on(pool, tenant, f"s{number}") for number in range(2))
    engine: Any = Full()
    runs_tick(engine=engine, at=timezone.now())
    with scope_disabled("the test takes an award back"):
        Award.objects.filter(pk=taken_back.pk).update(state=AwardState.VOID, cut_at=0)
    later = timezone.now() + timedelta(seconds=15)
    runs_tick(engine=engine, at=later)
    assert (run_of(well).state, run_of(well).seen_at) == (RunState.RUNNING, later)
    assert runs_watch(pool=pool, at=later + timedelta(seconds=19)) == 0


def test_equal_neighbours_are_one_generation() -> None:
    small, large = {"s1": {"worker": 1}}, {"s1": {"worker": 2}}
    parts = [Generation(1, 0.0, 1.0, small), Generation(2, 1.0, 2.0, small), Generation(3, 2.0, 3.0, large)]
    assert merged(parts) == (Generation(1, 0.0, 2.0, small), Generation(3, 2.0, 3.0, large))
    assert len(merged([parts[0], Generation(4, 5.0, 6.0, small)])) == 2  # a pause lies between


def test_lease_is_renewed_while_the_loop_is_slow_but_not_where_it_stands_still() -> None:
    engine: Any = Silent()
    lease = Lease(engine)
    assert TIMINGS.spare == 3.0
    lease.keep()
    lease.renew(time.monotonic() + 2.9)
    assert engine.touched == 1
    lease.renew(time.monotonic() + 3.1)  # the loop has not come round for so long
    assert engine.touched == 1
    lease.start()
    until(lambda: engine.touched >= 2)
    lease.end()
    assert not lease._thread.is_alive()


@pytest.mark.django_db(transaction=True)
def test_folder_that_may_not_be_written_is_in_the_log_once_and_once_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine: Any = Silent()
    command, tries = Command(), count(1)
    command.has_signal = False

    def touch() -> None:
        number = next(tries)
        command.has_signal = number == 12
        if number <= 8 and number != 5:
            raise PermissionError(EACCES, "Permission denied", "/runs/alive")

    place = "scheduling.management.commands.engine"
    monkeypatch.setattr(engine, "touch", touch)
    monkeypatch.setattr(engine, "check", lambda _: [ClusterFinding("A warning.", breaks=False)], raising=False)
    monkeypatch.setattr(f"{place}.time.sleep", lambda _: None)
    monkeypatch.setattr(f"{place}.Lease.start", lambda _: None)  # the lease has a log of its own
    monkeypatch.setattr(f"{place}.LOOK_SECONDS", 0.05)
    with caplog.at_level(logging.WARNING, logger=place):
        command._run(engine)
    reason = "[Errno 13] Permission denied: '/runs/alive'"
    assert [record.getMessage() for record in caplog.records] == [
        "A warning.",
        f"the engine cannot work; what runs goes on: {reason}",
        "the engine works again",
    ]
    assert not any(record.exc_info for record in caplog.records)


def test_lease_that_cannot_be_renewed_is_in_the_log_once_and_once_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine: Any = Silent()
    lease, answers = Lease(engine), iter([OSError("full"), OSError("full"), None, None, OSError("gone")])

    def touch() -> None:
        if (error := next(answers)) is not None:
            raise error

    monkeypatch.setattr(engine, "touch", touch)
    for _ in range(5):
        lease.renew(time.monotonic())
    failed = "the lease could not be renewed"
    assert [record.getMessage() for record in caplog.records] == [
        f"{failed}: full",
        "the lease is renewed again",
        f"{failed}: gone",
    ]
    assert not any(record.exc_info for record in caplog.records)


def test_fault_of_our_own_keeps_its_traceback_and_another_outage_is_another_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hindrance, outage = (
        Hindrance("it cannot work", "it works again"),
        psycopg.OperationalError("no connection\nIs it there?"),
    )
    for error in (ProgrammingError("no such column"), outage, outage, OSError("gone"), OSError("gone")):
        hindrance.log(error)
    assert [record.getMessage() for record in caplog.records] == [
        "it cannot work: no such column",
        "it cannot work: no connection",
        "it cannot work: gone",
    ]
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]


@pytest.mark.django_db(transaction=True)
def test_second_engine_of_one_name_touches_nothing_until_the_first_one_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = Silent()
    engine.name = "cluster"
    command, tries = Command(), []
    command.has_signal = False

    def counted(listener: psycopg.Connection[Any], name: str) -> bool:
        tries.append(name)
        return _mine(listener, name)

    def work() -> None:
        try:
            command._run(engine)
        finally:
            connections.close_all()

    monkeypatch.setattr("scheduling.management.commands.engine._mine", counted)
    thread = threading.Thread(target=work)
    with _listener() as first:
        assert _mine(first, engine.name)
        thread.start()
        try:
            until(lambda: len(tries) >= 3)
            assert (engine.touched, engine.observed) == (0, [])
            first.close()
            until(lambda: engine.observed)
            assert engine.touched > 0
        finally:
            command.has_signal = True
            thread.join(300)
    assert not thread.is_alive()


@pytest.mark.django_db
def test_engine_whose_place_another_one_took_begins_anew_when_it_is_its_turn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database began again, and the one that waited was faster. Since then the gangs have other ends, ports and
    accounts than this one remembers."""
    engines: list[Any] = [Silent(), Silent()]
    command, turns, working = Command(), iter([True, False, False, True]), list[Any]()
    command.has_signal = False

    def work(engine: Any, lease: Lease, _: object) -> None:
        working.append((engine, lease.engine))
        command.has_signal = len(working) == 2
        raise DatabaseError("it begins again")

    place = "scheduling.management.commands.engine"
    monkeypatch.setattr(f"{place}._listener", nullcontext)
    monkeypatch.setattr(f"{place}._mine", lambda *_: next(turns))
    monkeypatch.setattr(f"{place}.engine_named", lambda _: engines[1])
    monkeypatch.setattr(f"{place}.connections.close_all", lambda: None)
    monkeypatch.setattr(f"{place}.time.sleep", lambda _: None)
    monkeypatch.setattr(command, "_work", work)
    for engine in engines:
        monkeypatch.setattr(engine, "check", lambda _: [], raising=False)
    taken_over: list[Any] = []
    monkeypatch.setattr(f"{place}.runs_reconcile", lambda *, engine, at: taken_over.append(engine))
    command._run(engines[0])
    assert working == [(engines[0], engines[0]), (engines[1], engines[1])]
    assert taken_over == engines


def test_engine_listens_to_the_database_that_the_address_says_and_proves() -> None:
    address = "postgresql://bourse:word@db.lab:5433/bourse?sslmode=verify-full&sslrootcert=/ca.pem&connect_timeout=5"
    wrapper = DatabaseWrapper({"CONN_MAX_AGE": 0, "TIME_ZONE": None, **addresses.database(address)})
    words = connection_words(wrapper.get_connection_params())
    wanted = {"host": "db.lab", "port": "5433", "user": "bourse", "password": "word", "dbname": "bourse",
              "sslmode": "verify-full", "sslrootcert": "/ca.pem", "connect_timeout": "5"}  # fmt: skip
    assert wanted.items() <= words.items()
    assert psycopg.conninfo.make_conninfo(**words)  # nothing that only Django knows
