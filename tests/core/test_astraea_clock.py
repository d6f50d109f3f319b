"""Astraea's clock: which slots are boundaries, which windows they open, and when waiting jobs are told of the next."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.core import policies
from scheduling.core.policies.astraea.rules.clock import Turn, turn
from scheduling.core.simulation import simulate
from scheduling.core.types import Job, Plan, View
from tests.core.builders import make_cluster, make_job, make_scenario, make_view

OFTEN = {"first": 1, "cap": 4, "restart": True}


def astraea(**fields: Any) -> Any:
    return policies.build({"name": "astraea", **fields}, make_cluster(), [])


def turn_at(slot: int, waiting: tuple[Job, ...] = (), memory: dict[str, int] | None = None, **fields: Any) -> Turn:
    return turn(astraea(**fields), make_view(waiting, slot=slot, horizon=10**6, memory=memory or {}))


def boundaries(jobs: list[Job], slots: int = 64, **fields: Any) -> list[tuple[int, int]]:
    """(start, end) of all windows of a run."""
    scenario = make_scenario(jobs, slots=slots, policy={"name": "astraea", "theta": {"worker": 2, "ps": 2}, **fields})
    policy = policies.build(scenario.policy, scenario.cluster, scenario.jobs)
    return [(window.start, window.end) for window in simulate(scenario, {"batch": policy}).windows]


def patient(number: int, arrival: float) -> Job:
    """A job that waits through every window: it has no use for what is there."""
    return make_job(number, arrival=arrival, chunks=9, min_workers=9)


def test_geometric_batches_decide_all_rounds_at_powers_of_two() -> None:
    assert turn_at(4, rounds=2).windows == ((8, 12), (12, 16))
    assert turn_at(8, rounds=1).windows == ((8, 16),)
    assert turn_at(2, rounds=3).windows == ((6, 8), (8, 10), (10, 12))


@pytest.mark.parametrize(("slot", "closes_at"), [(0, 2), (1, 2), (3, 4), (5, 8), (9, 16)])
def test_geometric_slots_between_boundaries_name_the_next(slot: int, closes_at: int) -> None:
    now = turn_at(slot)
    assert (now.windows, now.closes_at) == ((), closes_at)


def test_geometric_windows_of_successive_batches_are_adjacent() -> None:
    for rounds in (1, 2, 5):
        spans = [span for batch in range(1, 6) for span in turn_at(2**batch, rounds=rounds).windows]
        assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]]


def test_nothing_is_decided_after_the_last_interval() -> None:
    assert turn_at(4, intervals=2).windows
    assert turn_at(4, intervals=2).closes_at is None
    assert turn_at(8, intervals=2) == Turn()
    assert turn_at(5, intervals=2) == Turn()
    assert turn_at(2, intervals=0) == Turn()


def test_steady_windows_double_up_to_the_cap_whatever_waits() -> None:
    clock = {"first": 2, "cap": 8, "restart": False}
    windows_by_slot = {slot: turn_at(slot, clock=clock).windows for slot in range(40)}
    assert {slot: windows for slot, windows in windows_by_slot.items() if windows} == {
        2: ((2, 4),),
        4: ((4, 8),),
        8: ((8, 16),),
        16: ((16, 24),),
        24: ((24, 32),),
        32: ((32, 40),),
    }
    assert turn_at(25, clock=clock).closes_at == 32


def test_steady_clock_counts_its_intervals_from_the_start() -> None:
    clock = {"first": 4, "cap": 4, "restart": False}
    assert turn_at(8, clock=clock, intervals=2).windows == ((8, 12),)
    assert turn_at(12, clock=clock, intervals=2).windows == ()


def test_restarting_clock_doubles_while_jobs_wait() -> None:
    assert boundaries([patient(0, 2.5)], slots=30, clock=OFTEN) == [
        *((4, 5), (5, 7), (7, 11), (11, 15)),
        *((15, 19), (19, 23), (23, 27), (27, 31)),
    ]


def test_restarting_clock_begins_anew_after_the_backlog_is_empty() -> None:
    jobs = [make_job(0, arrival=0.5), make_job(1, arrival=9.0), make_job(2, arrival=9.5)]
    assert boundaries(jobs, clock=OFTEN) == [(2, 3), (10, 11)]


def test_an_arrival_at_the_boundary_itself_opens_the_next_epoch() -> None:
    jobs = [make_job(0, arrival=0.0), make_job(1, arrival=2.0)]  # collected at 1; at 2 nothing from before waits
    assert boundaries(jobs, clock=OFTEN) == [(1, 2), (3, 4)]


def test_an_arrival_at_a_boundary_with_a_backlog_waits_for_the_one_after() -> None:
    blocked, late = patient(0, 0.0), make_job(1, arrival=1.0)
    policy = astraea(clock=OFTEN)
    memory = {"boundary": 1, "length": 1, "decided": 0}
    plan = policy.decide(make_view([blocked, late], slot=1, memory=memory))
    reasons = {refusal.job: refusal.reason for refusal in plan.refusals}
    assert reasons[1].code == "waiting_for_interval"
    assert reasons[1].numbers == {"closes_at": 2}
    assert reasons[0].code != "waiting_for_interval"


def test_restarting_clock_stops_after_its_intervals() -> None:
    assert boundaries([patient(0, 0.0)], clock=OFTEN, intervals=3) == [(1, 2), (2, 4), (4, 8)]


def test_only_jobs_that_came_since_the_last_slot_are_told_of_the_boundary() -> None:
    jobs = [make_job(0, arrival=4.0), make_job(1, arrival=4.5), make_job(2, arrival=5.0)]
    plan = astraea().decide(make_view(jobs, slot=5))
    assert [(refusal.job, refusal.reason.numbers) for refusal in plan.refusals] == [
        (1, {"closes_at": 8}),
        (2, {"closes_at": 8}),
    ]


@pytest.mark.parametrize("clock", ["geometric", OFTEN, {"first": 3, "cap": 12, "restart": False}])
def test_no_later_window_touches_a_slot_before_the_frontier(clock: Any) -> None:
    policy, memory, promised = astraea(clock=clock), {}, 0
    for slot in range(60):
        waiting = [patient(0, 20.0)] if slot >= 20 else [make_job(1, arrival=0.0)][: slot < 3]
        plan: Plan = policy.decide(make_view(waiting, slot=slot, memory=memory))
        memory = memory if plan.memory is None else dict(plan.memory)
        assert all(window.start >= promised for window in plan.windows)
        promised = max(promised, plan.frontier or 0)
    assert promised >= 60


def test_the_clock_needs_no_memory_but_the_view_s() -> None:
    view: View = make_view([patient(0, 2.5)], slot=3)
    policy = astraea(clock=OFTEN)
    assert policy.decide(view).memory == policy.decide(view).memory == {"boundary": 4, "length": 1, "decided": 0}


@pytest.mark.parametrize("first", [1, 2, 3])
def test_job_that_comes_later_than_its_arrival_is_decided_behind_what_was_promised(first: int) -> None:
    """It was away for a while, so slots were promised to others as if it would not come."""
    clock = {"first": first, "cap": 8, "restart": True}
    silent = turn_at(5, clock=clock)
    assert silent.frontier is not None
    late = make_view(
        (make_job(0, arrival=2.5),), slot=6, horizon=10**6, memory=dict(silent.memory or {}), frontier=silent.frontier
    )
    now = turn(astraea(clock=clock), late)
    opens = now.windows[0][0] if now.windows else now.closes_at
    assert opens == silent.frontier
