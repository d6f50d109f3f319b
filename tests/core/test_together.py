"""Jobs that are bought together: in one interval all that wait of a group are served, or none of them is.

On random markets in which some jobs are groups of up to four. The promise to each owner, and the rule itself, are
checked from outside: the rule by a slow reading of it, which asks a policy that knows of no groups.
TOGETHER_MARKETS sets how many markets are tried.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

import pytest

from scheduling.core import records
from scheduling.core.metrics.certificates import alone_floors, certificates
from scheduling.core.policies import build
from scheduling.core.policies.astraea.together import TRIES, tries_among
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, RENEW, SHARED, WAITING, Cluster, Floor, Job, Plan, Policy, View
from tests.core.builders import make_cluster, make_job, make_scenario, make_tenant, make_view
from tests.core.policy_examination import Examined
from tests.core.random_markets import random_market
from tests.core.test_floor_promise import Recorded, alone, broken, floors, recorded_run

MARKETS = int(os.environ.get("TOGETHER_MARKETS", "160"))
BLOCK = 8
REASON = "bought_together"


def market(seed: int, mode: str = "guarantee") -> Scenario:
    """A random market in which about half of the jobs are several that go together."""
    scenario = random_market(seed, mode, backlog=seed % 2 == 1)
    chance, jobs = random.Random(f"together {seed}"), list[Job]()
    for job in scenario.jobs:
        count = chance.choice((1, 1, 2, 2, 3, 4))
        group = len(jobs) if count > 1 else None
        jobs += [replace(job, number=len(jobs) + place, together=group) for place in range(count)]
    jobs = [replace(job, number=number, name=f"j{number}") for number, job in enumerate(jobs)]
    return replace(scenario, jobs=tuple(jobs), slots=48 if mode == "guarantee" else scenario.slots)


def groups(jobs: Iterable[Job]) -> dict[int, set[int]]:
    members_by_group: defaultdict[int, set[int]] = defaultdict(set)
    for job in jobs:
        if job.together is not None:
            members_by_group[job.together].add(job.number)
    return {group: members for group, members in members_by_group.items() if len(members) > 1}


def policy_of(scenario: Scenario) -> Policy:
    return build(scenario.policy, scenario.cluster, scenario.jobs)


@pytest.mark.parametrize("mode", ["guarantee", "paper"])
@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_a_group_is_served_in_one_interval_or_not_at_all(mode: str, first: int) -> None:
    for seed in range(first, min(first + BLOCK, MARKETS)):
        scenario = market(seed, mode)
        policy = Recorded(Examined(policy_of(scenario)))
        outcome = simulate(scenario, {"batch": policy})
        served = {booking.job: slot for slot, plan in policy.plans.items() for booking in plan.bookings}
        for members in groups(scenario.jobs).values():
            assert len({served.get(number) for number in members}) == 1, f"seed {seed}, {members}"
            assert len({outcome.tracks[number].state for number in members}) == 1, f"seed {seed}, {members}"


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_nobody_is_below_the_world_in_which_its_owner_is_alone(first: int) -> None:
    """That world keeps groups together, too, and nobody else's jobs have a part in it."""
    for seed in range(first, min(first + BLOCK, MARKETS)):
        scenario = market(seed)
        outcome, run = recorded_run(scenario)
        assert not [line for track in outcome.tracks if (line := broken(track, run.window_end))], f"seed {seed}"
        for tenant in range(len(scenario.cluster.tenants)):
            assert alone(scenario, tenant, run) == floors(outcome, tenant), f"seed {seed}, tenant {tenant}"
        for slot, view in run.views.items():
            promises = alone_floors(run.policy, view)  # type: ignore[arg-type]
            rows, _ = certificates(view, run.plans[slot], promises, with_floors=True)
            assert not [each for each in rows if each.broken], f"seed {seed}, slot {slot}"


@pytest.mark.parametrize("mode", ["guarantee", "paper"])
@pytest.mark.parametrize("first", range(0, MARKETS // 2, BLOCK))
def test_it_is_the_rule_and_comes_out_again_from_stored_bytes(mode: str, first: int) -> None:
    for seed in range(first, min(first + BLOCK, MARKETS // 2)):
        scenario = market(seed, mode)
        run = Recorded(policy_of(scenario))
        simulate(scenario, {"batch": run})
        for slot, view in run.views.items():
            plan, where = run.plans[slot], f"seed {seed}, slot {slot}"
            again = run.policy.decide(records.view_from(records.view_bytes(view)))
            assert records.plan_bytes(again) == records.plan_bytes(plan), where
            if len(groups(view.waiting)) > TRIES:  # then a draw says who is tried
                continue
            expected, left_out = by_the_rule(run.policy, view)
            refusals = {refusal.job for refusal in plan.refusals if refusal.reason.code == REASON}
            assert refusals == left_out, where
            assert _bytes_of(plan) == _bytes_of(expected), where


def by_the_rule(policy: Policy, view: View) -> tuple[Plan, set[int]]:
    """The same decision, slowly: which jobs ask is found by trying, and a policy that knows of no groups is asked.
    And who is left out of renting. No more groups than are tried one by one are in these markets."""
    plain = replace(
        view,
        waiting=tuple(replace(job, together=None) for job in view.waiting),
        jobs={number: replace(job, together=None) for number, job in view.jobs.items()},
    )
    collected = [job for job in view.waiting if job.arrival < view.slot]
    new_floors: dict[int, Floor] = {}
    if policy.floor:  # type: ignore[attr-defined]
        for tenant in {job.tenant for job in collected}:
            new_floors |= _floors_of(policy, plain, [job for job in collected if job.tenant == tenant])
    floors = {**view.floors, **new_floors}
    pending = groups(job for job in collected if floors.get(job.number, Floor(job.number)).value == 0)
    assert len(pending) <= TRIES, "more than are tried one by one"

    def decided(stay: Iterable[int]) -> Plan:
        dropouts = {number for group, members in pending.items() if group not in stay for number in members}
        return policy.decide(_without(replace(plain, floors=floors), dropouts))

    def whole(plan: Plan, stay: Iterable[int]) -> bool:
        booked = {booking.job for booking in plan.bookings}
        return all(pending[group] <= booked or not pending[group] & booked for group in stay)

    stay, plan = list(pending), decided(pending)
    if not whole(plan, stay):
        stay = []
        for group in sorted(pending):
            if whole(decided([*stay, group]), [*stay, group]):
                stay.append(group)
        plan = decided(stay)
    out = {number for group, members in pending.items() if group not in stay for number in members}
    final = {refusal.job for refusal in policy.decide(plain).refusals if refusal.state != WAITING}
    new = tuple(floor for floor in new_floors.values() if floor.job not in final)
    return replace(plan, floors=new), out - final


def _floors_of(policy: Policy, plain: View, mine: list[Job]) -> dict[int, Floor]:
    new = [job for job in mine if job.number not in plain.floors]
    pending = groups(new)

    def planned(stay: Iterable[int]) -> tuple[dict[int, Floor], int]:
        dropouts = {number for group, members in pending.items() if group not in stay for number in members}
        theirs = {job.number for job in plain.waiting} - {job.number for job in new}
        plan = policy.decide(_without(plain, dropouts | theirs))
        return {floor.job: floor for floor in plan.floors}, plan.windows[0].end if plan.windows else 0

    def whole(stay: Iterable[int]) -> bool:
        plans, end = planned(stay)
        for group in stay:
            due = [plans.get(number, Floor(number)) for number in pending[group]]
            if any(floor.value > 0 for floor in due) and not all(
                floor.value > 0 and floor.start < end for floor in due
            ):
                return False
        return True

    stay = list(pending)
    if not whole(stay):
        stay = []
        for group in sorted(pending):
            stay += [group] if whole([*stay, group]) else []
    plans, end = planned(stay)
    return {job.number: plans.get(job.number, Floor(job.number)) for job in new} if end else {}


def _without(view: View, numbers: set[int]) -> View:
    """The clock counts who waits, so they stay, each with a worker that no cluster has room for."""
    nowhere = {
        job.number: replace(job, worker_types=tuple(replace(t, demand=t.demand * 100.0) for t in job.worker_types))
        for job in view.waiting
        if job.number in numbers
    }
    waiting = tuple(nowhere.get(job.number, job) for job in view.waiting)
    return replace(view, waiting=waiting, jobs={**view.jobs, **nowhere})


def _bytes_of(plan: Plan) -> bytes:
    """What it decides; who is refused for good, and why others wait, is another matter."""
    floors = sorted(plan.floors, key=lambda floor: floor.job)
    bookings = sorted(plan.bookings, key=lambda booking: booking.job)
    return records.plan_bytes(Plan(bookings=bookings, floors=floors, windows=plan.windows))


@pytest.mark.wide
def test_the_markets_put_groups_to_the_test() -> None:
    """They are bought whole, planned at home whole, left out for others' sake, and wait for a later interval."""
    counts: Counter[str] = Counter(bought=0, rented=0, at_home=0, left_out=0, later=0)
    for seed in range(48):
        scenario = market(seed)
        outcome, run = recorded_run(scenario)
        refusals = {r.job for plan in run.plans.values() for r in plan.refusals if r.reason.code == REASON}
        for members in groups(scenario.jobs).values():
            tracks = [outcome.tracks[number] for number in members]
            bought = tracks[0].state == AWARDED
            counts["bought"] += bought
            counts["rented"] += bought and any(track.bookings[0].phase == SHARED for track in tracks)
            counts["at_home"] += tracks[0].floor is not None and tracks[0].floor.value > 0
            counts["left_out"] += members <= refusals
            counts["later"] += bought and members <= refusals
    assert min(counts.values()) >= 5, counts


POLICY = {
    "name": "astraea",
    "mode": "guarantee",
    "clock": {"first": 1, "cap": 1},
    "theta": {"worker": 2.0, "ps": 2.0},
    "price_floor": {"worker": 0.0, "ps": 0.0},
}


def one_server(units: int) -> Scenario:
    """All of it is the operator's; three jobs that take a worker for a slot go together."""
    cluster = make_cluster([[units], [units]], cells=[[[0]], [[0]]])
    jobs = [make_job(number, together=7) for number in range(3)]
    return make_scenario(jobs, cluster=cluster, slots=9, policy=POLICY)


def at_home(units: int, **tenant: str) -> Cluster:
    """One server, all of it a tenant's own."""
    return make_cluster([[units], [units]], cells=[[[units]], [[units]]], tenants=[make_tenant(**tenant)])


@pytest.mark.parametrize(("units", "served"), [(2, 0), (3, 3)])
def test_three_that_go_together_are_bought_where_three_fit_and_not_where_two_do(units: int, served: int) -> None:
    run = Recorded(policy_of(scenario := one_server(units)))
    outcome = simulate(scenario, {"batch": run})
    assert sum(track.state == AWARDED for track in outcome.tracks) == served
    reasons = [
        (r.reason.code, dict(r.reason.numbers)) for plan in run.plans.values() for r in plan.refusals if plan.windows
    ]
    assert reasons[:3] == ([] if served else [(REASON, {"members": 3, "served": 2})] * 3)


def test_what_is_left_of_a_group_is_a_job_as_any_other() -> None:
    scenario = one_server(1)
    outcome = simulate(replace(scenario, jobs=scenario.jobs[:1]), {"batch": policy_of(scenario)})
    assert outcome.tracks[0].state == AWARDED


def test_a_group_that_never_fits_keeps_nobody_else_waiting() -> None:
    """The oldest is tried first, and one that comes apart does not stand in another's way."""
    scenario = one_server(2)
    others = [make_job(number, together=8, arrival=0.5) for number in (3, 4)]
    outcome = simulate(replace(scenario, jobs=(*scenario.jobs, *others)), {"batch": policy_of(scenario)})
    assert [track.state for track in outcome.tracks] == [WAITING] * 3 + [AWARDED] * 2


@pytest.mark.parametrize(("units", "starts"), [(3, [1, 1, 1, 2]), (2, [None, None, None, 1])])
def test_at_home_they_have_plans_that_begin_in_one_window_or_none(units: int, starts: list[int | None]) -> None:
    """Windows are of one slot. With two workers of one's own the third would begin after the window, so none of them
    has a plan, and the job that is planned after them has the place."""
    jobs = [*(make_job(number, together=7) for number in range(3)), make_job(3)]
    scenario = make_scenario(jobs, cluster=at_home(units), policy=POLICY)
    tracks = simulate(scenario, {"batch": policy_of(scenario)}).tracks
    assert [track.floor.start if track.floor and track.floor.value else None for track in tracks] == starts


@pytest.mark.parametrize(("units", "start"), [(5, 1), (4, 0)])
def test_a_tenant_that_renews_its_plans_keeps_those_of_a_group(units: int, start: int) -> None:
    """A draft is no promise, and members with drafts would be bought one by one. What is kept is planned behind the
    drafts: where these leave two workers, there is no place for three."""
    jobs = [*(make_job(number, together=7) for number in range(3)), make_job(3), make_job(4)]
    cluster = at_home(units, plan=RENEW)
    plan = build(POLICY, cluster, jobs).decide(make_view(jobs, slot=1, cluster=cluster))
    assert {floor.job: (floor.draft, floor.start) for floor in plan.floors} == {
        **dict.fromkeys(range(3), (False, start)),
        **dict.fromkeys((3, 4), (False, 1)),
    }


def test_of_too_many_groups_some_are_tried_at_each_boundary_and_none_is_bought_in_part() -> None:
    """Twelve groups of which only one fits at once, and no more than eight are tried one by one."""
    jobs = tuple(make_job(number, together=number % 12) for number in range(24))
    scenario = replace(one_server(2), jobs=jobs, slots=30)
    run = Recorded(policy_of(scenario))
    simulate(scenario, {"batch": run})
    served = [{booking.job % 12 for booking in plan.bookings} for plan in run.plans.values() if plan.bookings]
    assert all(len(plan.bookings) in (0, 2) for plan in run.plans.values())
    assert sorted(group for each in served for group in each) == list(range(12))
    counts = {r.reason.numbers["served"] for p in run.plans.values() for r in p.refusals if r.reason.code == REASON}
    assert counts == {1, None}


@pytest.mark.parametrize(("jobs", "tries"), [(0, 8), (1, 8), (2_500, 8), (2_501, 7), (10_000, 2), (100_000, 1)])
def test_fewer_groups_are_tried_where_many_jobs_wait(jobs: int, tries: int) -> None:
    assert tries_among(jobs) == tries
