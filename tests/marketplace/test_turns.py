"""Tenants take turns at the threads of a web process; what waits has no thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any
from unittest.mock import Mock, patch

import pytest

from marketplace.web.turns import (
    ALONE_SECONDS,
    LEAST_PAUSE,
    LEAST_REST,
    LONGEST_PAUSE,
    MANY_WAITING,
    MOST_PAUSE,
    MOST_REST,
    Credential,
    InTurn,
    Parties,
    Piece,
    Turns,
    credential_in,
)
from tenants.common.patience import give_way


class Stage:
    """Work that has begun, in its order; it ends when the test says so."""

    def __init__(self, at_once: int, of_one: int) -> None:
        self.now = 0.0
        self.turns = Turns(at_once, of_one, self._later, clock=lambda: self.now)
        self.begun: list[str] = []
        self.alarms: list[tuple[float, Callable[[], object]]] = []

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        self.alarms.append((self.now + seconds, call))

    def wait(self, seconds: float) -> list[str]:
        """What begins meanwhile."""
        before, until = len(self.begun), self.now + seconds
        while due := [alarm for alarm in self.alarms if alarm[0] <= until + 1e-9]:
            alarm = min(due, key=lambda alarm: alarm[0])
            self.alarms.remove(alarm)
            self.now = alarm[0]
            alarm[1]()
        self.now = until
        return self.begun[before:]

    def ask(self, *names: str) -> None:
        """A name begins with its party."""
        for name in names:
            self.turns.begin(name[0], lambda name=name: self.begun.append(name))

    def end(self, name: str) -> list[str]:
        """What begins because this ends."""
        before = len(self.begun)
        self.turns.end(name[0])
        return self.begun[before:]


def test_one_party_has_few_threads_and_another_begins_at_once() -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask("a1", "a2", "a3", "a4", "b1")
    assert stage.begun == ["a1", "a2", "b1"]
    assert (stage.turns.waiting("a"), stage.turns.waiting("b")) == (2, 0)


def test_whoever_is_not_alone_has_one_thread() -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask("a1", "a2", "a3", "a4", "a5", "b1")
    assert stage.end("a1") == []  # b is here
    assert stage.end("a2") == ["a3"]
    assert stage.end("b1") == []  # and was so just now
    stage.now += 0.9 * ALONE_SECONDS
    assert stage.end("a3") == ["a4"]
    stage.ask("b2", "b3")
    assert stage.begun[-1] == "b2"
    stage.now += 1.1 * ALONE_SECONDS
    assert stage.end("a4") == ["a5"]
    assert stage.end("a5") == ["b3"]  # a is gone, and has been silent for long


def test_work_that_goes_on_for_long_is_somebody_present() -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask("b1")
    stage.now += 10 * ALONE_SECONDS
    stage.ask("a1", "a2")
    assert stage.begun == ["b1", "a1"]
    assert stage.end("b1") == ["a2"]


def test_where_all_threads_are_taken_parties_come_in_turn() -> None:
    stage = Stage(at_once=2, of_one=2)
    stage.ask("a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1")
    begun = list(stage.begun)
    assert begun == ["a1", "a2"]
    for name in ("a1", "a2", "b1", "c1", "a3"):
        begun += stage.end(name)
    assert begun == ["a1", "a2", "b1", "a3", "c1", "b2", "a4"]


def test_nothing_is_kept_of_a_party_that_has_nothing_left() -> None:
    stage = Stage(at_once=1, of_one=1)
    stage.ask("a1", "b1")
    stage.end("a1")
    stage.end("b1")
    assert (stage.turns._at_work, stage.turns._waiting) == ({}, {})


def many(party: str) -> list[str]:
    return [f"{party}{number}" for number in range(1, MANY_WAITING + 8)]


def test_whoever_has_many_waiting_rests_after_each_piece_while_others_are_present() -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask("b1")
    stage.end("b1")
    stage.ask(*many("a"))
    assert stage.begun == ["b1", "a1"]
    stage.wait(0.05)
    assert stage.end("a1") == []
    assert stage.wait(0.04 * LEAST_REST) == []
    assert stage.wait(0.01 * LEAST_REST) == ["a2"]


def test_whoever_has_many_waiting_begins_nothing_beside_somebody_else_until_it_has_waited_long() -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask("b1")
    stage.end("b1")
    stage.ask(*many("a"))
    stage.wait(0.05)
    stage.ask("b2")
    assert stage.end("a1") == []
    assert stage.wait(0.06 * LEAST_REST) == []
    assert stage.end("b2") == ["a2"]  # nobody is at work, and it has rested
    stage.wait(0.05)
    stage.ask("b3")
    assert stage.end("a2") == []
    assert stage.wait(0.05 * MOST_REST - 0.001) == []
    assert stage.wait(0.001) == ["a3"]  # b is still at work


def test_whoever_has_many_waiting_does_not_rest_when_it_is_alone_or_has_few() -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask(*many("a"))
    assert stage.begun == ["a1", "a2"]
    stage.wait(0.5)
    assert stage.end("a1") == ["a3"]
    few = Stage(at_once=8, of_one=2)
    few.ask("b1", *many("a")[:MANY_WAITING])
    few.wait(0.5)
    assert few.end("a1") == ["a2"]


def test_nothing_is_kept_of_a_party_that_rested_and_left() -> None:
    stage = Stage(at_once=8, of_one=1)
    starts = [lambda: None for _ in range(MANY_WAITING + 1)]
    stage.ask("b1", "a1")
    for start in starts:
        stage.turns.begin("a", start)
    stage.wait(0.1)
    assert stage.end("a1") == []
    for start in starts:
        stage.turns.forget("a", start)
    stage.end("b1")
    assert (stage.turns._waiting, stage.turns._last) == ({}, {})
    assert stage.wait(1) == []


class Middle:
    """A party's piece in its middle, in a thread of its own; the clock of its stage stands still."""

    def __init__(self, stage: Stage, party: str) -> None:
        self.piece = Piece(stage.turns, party)
        self.stops, self.goes_on = threading.Event(), threading.Event()
        changed = stage.turns._changed
        wait = changed.wait

        def stop(seconds: float | None = None) -> bool:
            self.stops.set()  # whoever holds the lock next comes when this waits
            return wait(seconds)

        with patch.object(changed, "wait", stop):
            threading.Thread(target=self._work, daemon=True).start()
            assert self.stops.wait(10)

    def _work(self) -> None:
        self.piece.give_way()
        self.goes_on.set()


def test_whoever_has_many_waiting_stops_in_the_middle_until_somebody_else_is_done() -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask("b1", *many("a"))
    stage.wait(10)
    middle = Middle(stage, "a")
    stage.ask("c1")
    stage.end("b1")
    assert stage.turns._left_to_pause(middle.piece) > 0  # c is at work
    assert not middle.goes_on.is_set()
    stage.end("c1")
    assert middle.goes_on.wait(10)


def test_a_pause_is_no_work_after_which_to_rest() -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask("b1", *many("a"))
    stage.wait(0.1)
    middle = Middle(stage, "a")
    stage.wait(0.3)
    stage.end("b1")
    assert middle.goes_on.wait(10)
    assert middle.piece.paused == pytest.approx(0.3)
    assert stage.end("a1") == []
    assert stage.wait(0.1 * LEAST_REST - 0.001) == []
    assert stage.wait(0.001) == ["a2"]


@pytest.mark.parametrize(("worked", "longest"), [(0.1, LEAST_PAUSE + 0.1 * MOST_PAUSE), (100.0, LONGEST_PAUSE)])
def test_a_piece_goes_on_beside_somebody_else_when_it_has_stopped_for_long(worked: float, longest: float) -> None:
    stage = Stage(at_once=8, of_one=2)
    stage.ask("b1", *many("a"))
    stage.wait(worked)
    piece = Piece(stage.turns, "a")
    piece.of_many = True
    assert stage.turns._left_to_pause(piece) == pytest.approx(longest)
    piece.paused = longest
    piece.give_way()  # at once


def test_nobody_stops_in_the_middle_who_has_few_waiting_or_is_alone_or_beside_somebody_who_has_many() -> None:
    few = Stage(at_once=8, of_one=2)
    few.ask("b1", *many("a")[:MANY_WAITING])
    few.wait(10)
    Piece(few.turns, "a").give_way()
    alone = Stage(at_once=8, of_one=2)
    alone.ask(*many("a"))
    alone.wait(10)
    Piece(alone.turns, "a").give_way()
    both = Stage(at_once=8, of_one=1)
    both.ask(*many("a"), *many("b"))
    both.wait(10)
    Piece(both.turns, "a").give_way()
    Piece(both.turns, "b").give_way()


def test_what_works_in_turn_gives_way_at_each_place_where_it_can() -> None:
    turns, thread, middle = Turns(8, 1, never), ByHand(), Mock()
    with patch.object(turns, "pause", middle):
        InTurn(turns, "a", thread).submit(lambda: [give_way(), give_way()])
        thread.work.pop()()
        give_way()  # afterwards the thread is nobody's
    assert [call.args[0].party for call in middle.call_args_list] == ["a", "a"]


def never(_: float, __: Callable[[], object]) -> None:
    """Nobody has many waiting."""


class ByHand(Executor):
    """A thread that works when the test says so; shut down, it takes nothing more."""

    def __init__(self) -> None:
        self.work: list[Callable[[], Any]] = []
        self.open = True

    def submit(self, work: Callable[..., Any], /, *_: Any, **__: Any) -> Future[Any]:
        if not self.open:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self.work.append(work)
        return Future()


def test_work_that_was_called_off_before_its_turn_never_begins() -> None:
    turns, threads = Turns(8, 1, never), [ByHand() for _ in range(3)]
    first, second, third = (InTurn(turns, "a", thread).submit(int, number) for number, thread in enumerate(threads))
    assert [len(thread.work) for thread in threads] == [1, 0, 0]
    assert second.cancel()
    assert turns.waiting("a") == 1
    threads[0].work.pop()()
    assert first.result() == 0
    assert [len(thread.work) for thread in threads] == [0, 0, 1]
    threads[2].work.pop()()
    assert third.result() == 2


def test_thread_that_was_shut_down_meanwhile_gives_its_turn_on() -> None:
    turns, former, there = Turns(8, 1, never), ByHand(), ByHand()
    InTurn(turns, "a", busy := ByHand()).submit(int)
    InTurn(turns, "a", former).submit(int)
    InTurn(turns, "a", there).submit(int)
    former.open = False
    busy.work.pop()()
    assert (len(former.work), len(there.work)) == (0, 1)


def test_error_of_the_work_is_its_callers_and_the_turn_goes_on() -> None:
    turns, thread = Turns(8, 1, never), ByHand()
    future = InTurn(turns, "a", thread).submit(int, "no number")
    thread.work.pop()()
    with pytest.raises(ValueError, match="no number"):
        future.result()
    assert turns._at_work == {}


def test_a_caller_is_known_by_token_or_session_and_neither_is_kept() -> None:
    name = b"bourse_session"
    token = credential_in([(b"authorization", b"Bearer bourse_x"), (b"cookie", b"bourse_session=s")], name)
    assert token == credential_in([(b"authorization", b"Bearer bourse_x")], name) == Credential(token="Bearer bourse_x")
    session = credential_in([(b"cookie", b"a=b; bourse_session=s; c=d")], name)
    assert session == credential_in([(b"cookie", b"bourse_session=s")], name) == Credential(session="s")
    assert credential_in([(b"cookie", b"a=b")], name) is None
    assert Credential(session="s").digest != Credential(token="s").digest
    assert token is not None
    parties = Parties()
    assert parties.of(token.digest, "10.0.0.1") == parties.of(None, "10.0.0.1") == "address 10.0.0.1"
    parties.learn(token.digest, "tenant 7")
    assert parties.of(token.digest, "10.0.0.1") == "tenant 7"
    assert b"bourse_x" not in repr(parties._parties).encode()
