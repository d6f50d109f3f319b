"""Counting tries: a few are free, waits grow, and a thousand at once are no more than one after the other."""

from __future__ import annotations

import threading

import pytest

from tenants.common.tries import (
    FORGET,
    KEEP,
    CannotCount,
    Pace,
    TryCounter,
    is_remembered,
    remember,
    tries_count,
    tries_forget,
    tries_succeed,
)
from tests.patience import PATIENCE

pytestmark = pytest.mark.django_db

PACE = Pace(free=3, first=30, most=300, memory=3_600)
ONE = [TryCounter("test:one", PACE)]
NOW = 1_800_000_000.0


def waits(counters: list[TryCounter], tries: int, at: float = NOW) -> list[int]:
    return [tries_count(counters, at=at) for _ in range(tries)]


def test_free_tries_are_free_and_the_next_one_waits() -> None:
    assert waits(ONE, 5) == [0, 0, 0, 30, 30]
    assert tries_count(ONE, at=NOW + 12.5) == 18  # a wait is never said shorter than it is


def test_waits_double_up_to_the_most_and_refused_tries_do_not_count() -> None:
    waits(ONE, 3)
    at, waits_in_turn = NOW, []
    for _ in range(7):
        waits_in_turn.append(tries_count(ONE, at=at))
        waits(ONE, 20, at)  # whoever knocks on a closed door makes it no more closed
        at += waits_in_turn[-1]
        assert tries_count(ONE, at=at) == 0
    assert waits_in_turn == [30, 60, 120, 240, 300, 300, 300]


def test_the_longest_wait_of_several_counts_and_a_closed_one_keeps_the_others_from_counting() -> None:
    other = TryCounter("test:other", Pace(free=1, first=100, most=100, memory=600))
    assert tries_count([other], at=NOW) == 0
    assert waits([*ONE, other], 3) == [100] * 3
    assert waits(ONE, 4) == [0, 0, 0, 30]


def test_success_takes_its_try_back_and_opens_what_it_had_closed() -> None:
    for _ in range(10):
        assert tries_count(ONE, at=NOW) == 0
        tries_succeed(ONE)
    waits(ONE, 2)
    assert tries_count(ONE, at=NOW) == 0  # the third closes it
    tries_succeed(ONE)
    assert waits(ONE, 2) == [0, 30]


def test_success_of_others_does_not_wipe_what_was_wrong_before() -> None:
    waits(ONE, 2)
    tries_count(ONE, at=NOW)
    tries_succeed(ONE)
    assert waits(ONE, 2) == [0, 30]


def test_success_forgets_ones_own_counter_and_leaves_a_kept_one() -> None:
    own, lasting = TryCounter("test:own", PACE, FORGET), TryCounter("test:kept", PACE, KEEP)
    waits([own, lasting], 2)
    tries_succeed([own, lasting])
    assert waits([own], 4) == [0, 0, 0, 30]
    assert waits([lasting], 2) == [0, 30]


def test_counter_can_be_forgotten_by_name() -> None:
    waits(ONE, 4)
    tries_forget(["test:one", "test:never counted"])
    assert waits(ONE, 3) == [0, 0, 0]


def test_counters_end_by_themselves() -> None:
    from tenants.common.tries import _redis

    waits([*ONE, TryCounter("test:window", Pace(free=9, first=1, most=1, memory=60, window=True))], 2)
    assert 3_000 < _redis().ttl("bourse:tries:test:one") <= 3_600
    assert 0 < _redis().ttl("bourse:tries:test:window") <= 60


def test_window_does_not_move_with_its_tries() -> None:
    from tenants.common.tries import _redis

    window = [TryCounter("test:window", Pace(free=9, first=1, most=1, memory=60, window=True))]
    tries_count(window, at=NOW)
    _redis().expire("bourse:tries:test:window", 10)
    tries_count(window, at=NOW)
    assert _redis().ttl("bourse:tries:test:window") <= 10


def test_many_at_once_get_no_more_than_the_free_tries() -> None:
    together, waits_of_all = threading.Barrier(20, timeout=PATIENCE), []

    def knock() -> None:
        together.wait()
        waits_of_all.append(tries_count(ONE, at=NOW))

    threads = [threading.Thread(target=knock) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert (waits_of_all.count(0), len(waits_of_all)) == (3, 20)


def test_what_is_remembered_is_known_for_a_while() -> None:
    assert not is_remembered("test:place")
    remember("test:place", seconds=60)
    assert is_remembered("test:place")


def test_nothing_is_tried_where_nothing_can_be_counted(monkeypatch: pytest.MonkeyPatch, settings) -> None:
    from tenants.common import tries

    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    tries._redis.cache_clear()
    try:
        with pytest.raises(CannotCount):
            tries_count(ONE, at=NOW)
    finally:
        tries._redis.cache_clear()
