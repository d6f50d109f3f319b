"""Why a draft is elsewhere than before: only what follows from the rules, and only of jobs of the same tenant."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from scheduling.core.policies.astraea.home.moves import Move, MoveCause, why_moved
from scheduling.core.types import Job
from scheduling.core.value import Deadline, Linear
from tests.core.builders import make_job
from tests.core.reference_renewal import AloneWorld
from tests.core.reference_search import worth
from tests.core.renewal_markets import renewal_market
from tests.core.test_renewal_cases import Watched, refund_jobs, scenario, watched


def moves(policy: Watched) -> dict[tuple[int, int], Move]:
    """By slot and job."""
    moves_by_job = {
        (view.slot, floor.job): why_moved(policy.policy, view, plan, floor.job)
        for view, plan in policy.decisions
        for floor in plan.floors
    }
    return {key: move for key, move in moves_by_job.items() if move is not None}


def moves_of(jobs: list[Job], **fields: Any) -> dict[tuple[int, int], tuple[MoveCause, tuple[int, ...]]]:
    _, policy = watched(scenario(jobs, **fields))
    return {key: (move.why, move.jobs) for key, move in moves(policy).items()}


def test_a_denser_job_takes_the_place_and_another_one_moves_up() -> None:
    """At 4 comes N, which is worth much more: it and J behind it are where K was, and K ends by 17 nowhere any more."""
    assert moves_of(refund_jobs())[4, 1] == (MoveCause.WORTH, (3, 2))
    assert moves_of(refund_jobs())[4, 2] == (MoveCause.BETTER, ())


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"priority": 1, "value": Linear(-1, 60)}, MoveCause.PRIORITY),
        ({"value": Linear(-30, 900)}, MoveCause.WORTH),
    ],
)
def test_what_the_other_job_has_more_of_is_said(second: dict[str, Any], why: MoveCause) -> None:
    """The first job runs until 8; the second waits behind it, and a third one comes that goes before the second."""
    first = make_job(0, epochs=6, priority=2, value=Linear(-1, 300), rent="never")
    waits = make_job(1, epochs=3, value=Linear(-3, 90), rent="never")
    comes = replace(make_job(2, epochs=3, arrival=3, value=Linear(-1, 60), rent="never"), **second)
    if (
        why is MoveCause.PRIORITY
    ):  # priority alone does not make it worth to plan anew: a fourth one is worth much as well
        comes = replace(comes, value=Linear(-30, 900))
    assert moves_of([first, waits, comes]) == {(4, 1): (why, (2,))}


def test_nothing_is_said_of_a_draft_that_stays_that_starts_or_that_is_dropped() -> None:
    jobs = [make_job(0, epochs=4, value=Linear(-1, 90)), make_job(1, epochs=2, value=Deadline(50, 9))]
    assert moves_of([replace(job, rent="never") for job in jobs]) == {}


@pytest.mark.wide
def test_what_is_said_is_so_on_random_markets() -> None:
    causes: Counter[MoveCause] = Counter()
    for seed in range(3, 160, 4):  # those with a long backlog
        market = renewal_market(seed)
        _, policy = watched(market)
        decisions = {view.slot: (view, plan) for view, plan in policy.decisions}
        for (slot, number), move in moves(policy).items():
            view, plan = decisions[slot]
            job, floors = view.jobs[number], {**view.floors, **{floor.job: floor for floor in plan.floors}}
            causes[move.why] += 1
            assert (move.before, move.after) == (view.floors[number], floors[number])
            for taker in move.jobs:
                assert view.jobs[taker].tenant == job.tenant
                meets = floors[taker].start < move.before.end and move.before.start < floors[taker].end
                assert meets, f"seed {seed}: {taker} is nowhere near where {number} was"
                assert before_in_order(market.cluster, plan.windows[0].start, view.jobs[taker], job), f"seed {seed}"
            if move.jobs:
                first = view.jobs[move.jobs[0]]
                assert (move.why is MoveCause.PRIORITY) == (first.priority > job.priority)
    assert min(causes[why] for why in (MoveCause.WORTH, MoveCause.BETTER)) >= 20, causes
    assert causes[MoveCause.UNKNOWN] <= sum(causes.values()) / 4, causes


def before_in_order(cluster: Any, start: int, one: Job, other: Job) -> bool:
    """K2's order, in plain words of the reference."""

    def rank(job: Job) -> tuple[float, ...]:
        slots, workers = AloneWorld(cluster, job.tenant).shortest_run(job)
        density = worth(job.value, start + slots - job.arrival) / (slots * workers)
        return -job.priority, -float(f"{density:.8e}"), job.arrival, job.number

    return rank(one) < rank(other)


def test_where_no_boundary_was_decided_for_long_the_time_of_drafts_has_passed() -> None:
    """J was to start at 16, and the next boundary is that before 18."""
    _, policy = watched(scenario(refund_jobs()))
    [view] = [view for view, _ in policy.decisions if view.slot == 4]
    late = replace(view, slot=18, memory={**view.memory, "boundary": 18})
    plan = policy.policy.decide(late)
    move = why_moved(policy.policy, late, plan, 2)
    assert move is not None
    assert move.why is MoveCause.PASSED


def test_cells_that_have_no_room_for_what_was_planned_are_the_reason() -> None:
    """A home of two servers, on which two jobs wait behind two that run; one of the servers is lost."""
    cells = (((1, 1, 0), (0, 0, 1)), ((1, 1, 0), (0, 0, 1)))
    jobs = [make_job(n, epochs=6, priority=1, value=Linear(-1, 200)) for n in (0, 1)]
    jobs += [make_job(n, epochs=3, value=Linear(-1, 60)) for n in (2, 3)]
    _, policy = watched(scenario([replace(job, rent="never") for job in jobs], cells=cells))
    [view] = [view for view, _ in policy.decisions if view.slot == 4]
    assert view.cluster.cells is not None
    lost = view.cluster.cells.copy()
    lost[:, 0, 1] = 0
    capacity = view.cluster.capacity.copy()
    capacity[:, 1] = 0
    without = replace(view.cluster, cells=lost, capacity=capacity, quota=lost.sum(axis=2))
    floors = {n: floor for n, floor in view.floors.items() if n != 1}  # what ran there is void
    after = replace(view, cluster=without, floors=floors)
    plan = policy.policy.decide(after)
    answers = [move for n in (2, 3) if (move := why_moved(policy.policy, after, plan, n)) is not None]
    assert [move.why for move in answers] == [MoveCause.CELLS]
