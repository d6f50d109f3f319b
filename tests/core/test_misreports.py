"""What a job would have got had it said something else: the paper's own lies with their numbers, and random ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from scheduling.core.metrics.certificates import alone_plans
from scheduling.core.metrics.fairness import interval_fairness
from scheduling.core.metrics.misreports import ABSENT, plan_outcome, supposed, worth
from scheduling.core.policies import build
from scheduling.core.simulation import simulate
from scheduling.core.types import SHARED, Job, Plan, Policy, View, read_only
from scheduling.core.value import Linear
from tests.cases import cases
from tests.core.test_astraea_cases import paper_scenario
from tests.core.test_fairness import intervals
from tests.core.test_floor_promise import Recorded


def paper_interval(name: str) -> tuple[Policy, View, Plan, dict[str, int]]:
    """The deciding interval of a shared case, and its jobs' numbers by name."""
    scenario = paper_scenario(next(case for case in cases("astraea") if case["name"] == name))
    policy = Recorded(build(scenario.policy, scenario.cluster, scenario.jobs))
    simulate(scenario, {"batch": policy})
    view = max(policy.views.values(), key=lambda view: len(policy.policy.decide(view).bookings))
    return policy.policy, view, policy.policy.decide(view), {job.name: job.number for job in scenario.jobs}


def test_a_steeper_value_pays_in_the_papers_example() -> None:
    """S1: j21 says -3 instead of -2 a slot, runs at (8,10] instead of (10,12], pays nothing, and its owner is paid 4
    more by j12, which pays 24 instead of 16: by the arrival at 3, 90 becomes 98."""
    policy, view, plan, numbers = paper_interval("worked example, table reading")
    before = plan_outcome(view, plan)
    lie = replace(view.jobs[numbers["j21"]], value=Linear(-3.0, 100.0))
    after = plan_outcome(view, policy.decide(supposed(view, lie)), lie)
    outcome = after.outcomes[numbers["j21"]]
    assert (outcome.start, outcome.end, outcome.paid) == (8, 10, 0.0)
    assert outcome.value == 100 - 2 * (10 - 3)  # by what it is really worth
    assert after.outcomes[numbers["j12"]].paid == 24
    assert after.gains - before.gains == pytest.approx([0 - 4, 4 + 4, 0])
    assert before.gains == pytest.approx([160, 90, 0])


def test_more_chunks_pay_in_the_papers_example_and_the_run_is_as_long_as_it_really_is() -> None:
    """S2: saying 4 chunks moves the job forward; it has really two, so two workers do the work."""
    policy, view, plan, numbers = paper_interval("only j11 and j21 (sharing incentive fails: j21 alone has 96)")
    real = view.jobs[numbers["j21"]]
    lie = replace(real, chunks=4, max_workers=4)
    after = plan_outcome(view, policy.decide(supposed(view, lie)), lie)
    outcome, before = after.outcomes[numbers["j21"]], plan_outcome(view, plan).outcomes[numbers["j21"]]
    assert outcome.state == "awarded"
    assert outcome.start is not None
    assert before.start is not None
    assert outcome.start < before.start
    assert outcome.value > before.value


def lies(view: View, job: Job) -> Iterator[Job]:
    """About what the run is worth and what it may cost: these leave its length alone."""
    worth_now = float(job.value(1.0))
    yield replace(job, value=Linear(-abs(worth_now) / 5 - 0.1, 3 * abs(worth_now)))
    yield replace(job, value=Linear(0.0, abs(worth_now) / 10))
    yield replace(job, max_price=0.01)
    yield replace(job, rent="never")


@pytest.mark.one_case
@pytest.mark.parametrize(("mode", "most"), [("guarantee", 60), ("paper", 12)])
def test_the_difference_is_exactly_the_one_of_the_cores_gains(mode: str, most: int) -> None:
    """The same figures by another road: the fairness of the interval under the other plan, with real values."""
    changed = lie_count = 0
    for policy, view, plan in intervals(mode)[:most]:
        for job in view.waiting[:3]:
            if job.arrival >= view.slot or job.number in view.floors:
                continue
            for lie in lies(view, job):
                other = policy.decide(supposed(view, lie))
                difference = plan_outcome(view, other, lie).gains - plan_outcome(view, plan).gains
                alone = alone_plans(policy, view)
                one, two = (interval_fairness(view, each, alone, with_floors=False) for each in (plan, other))
                wanted = [b.gain - a.gain for a, b in zip(one.tenants, two.tenants, strict=True)]
                assert difference[:-1] == pytest.approx(wanted, abs=1e-9)
                lie_count += 1
                changed += bool(np.any(np.abs(difference) > 1e-9))
    print(f"{lie_count} lies, {changed} change somebody's gain")
    assert changed > 4


def test_saying_the_truth_changes_nothing() -> None:
    for policy, view, plan in intervals("guarantee")[:40]:
        for job in view.waiting[:3]:
            again = plan_outcome(view, policy.decide(supposed(view, replace(job))), replace(job))
            before = plan_outcome(view, plan)
            assert dict(again.outcomes) == dict(before.outcomes)
            assert again.gains == pytest.approx(before.gains)
            assert again.promised == pytest.approx(before.promised)


def rented() -> tuple[View, Job, Plan]:
    for _, view, plan in intervals("guarantee"):
        for booking in plan.bookings:
            if booking.phase == SHARED and booking.workers > 1:
                return view, view.jobs[booking.job], replace(plan, bookings=[booking])
    raise AssertionError("nobody rents")


def test_a_run_too_short_for_the_real_work_is_worth_nothing() -> None:
    view, job, plan = rented()
    [booking] = plan.bookings
    seconds = view.cluster.slot_seconds
    assert worth(replace(job, epochs=50 * job.epochs), job, booking, seconds) == 0.0
    assert worth(replace(job, max_workers=99, min_workers=99), job, booking, seconds) == 0.0
    heavy = replace(job.worker_types[0], demand=read_only(job.worker_types[0].demand * 2))
    assert worth(replace(job, worker_types=(heavy,)), job, booking, seconds) == 0.0
    assert worth(replace(job), job, booking, seconds) == pytest.approx(float(job.value(booking.end - job.arrival)))


def test_a_run_longer_than_the_real_work_ends_when_the_work_is_done() -> None:
    view, job, plan = rented()
    long = replace(plan.bookings[0], end=plan.bookings[0].end + 5)
    real = worth(replace(job), job, long, view.cluster.slot_seconds)
    assert real == pytest.approx(float(job.value(long.end - 5 - job.arrival)))


def test_a_job_that_says_it_comes_later_is_not_there_yet() -> None:
    policy, view, _ = intervals("guarantee")[0]
    job = next(job for job in view.waiting if job.arrival < view.slot)
    lie = replace(job, arrival=view.slot + 3.5)
    as_reported = supposed(view, lie)
    assert job.number not in {other.number for other in as_reported.waiting}
    assert len(as_reported.remaining) == len(view.remaining) - 1
    assert plan_outcome(view, policy.decide(as_reported), lie).outcomes[job.number].state == ABSENT
