"""An unbroken job of an elastic pool keeps its gang where it began, whatever the policy would do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import POLICIES, SINGLE_SLOTS, build
from scheduling.core.policies.elastic import UNBROKEN
from scheduling.core.simulation import simulate
from scheduling.core.types import Booking, Job, Plan, Policy, View
from tests.core.builders import make_cluster, make_job, make_tenant, make_view
from tests.core.policy_examination import Examined, snapshot
from tests.core.random_markets import random_market

NAMES = sorted(SINGLE_SLOTS & POLICIES.keys())
PRICES = {"worker": 0.5, "ps": 0.25}
MEANS = ("low_balance", "over_budget", "over_max_price", "rent_never")
Gang = tuple[int, int, tuple[tuple[int, int, int], ...]]


def elastic(policy: str | dict[str, Any], view: View, prices: dict[str, float] = PRICES) -> Policy:
    inner = {"name": policy} if isinstance(policy, str) else policy
    return build({"name": "elastic", "policy": inner, "prices": prices}, view.cluster, view.waiting)


def gang_of(booking: Booking) -> Gang:
    rows = tuple((row.server, row.workers, row.ps) for row in booking.allocation)
    return booking.worker_type, booking.ps_type, rows


def long(number: int = 0, **fields: Any) -> Job:
    """Two workers and two parameter servers, with work for 20 slots."""
    return make_job(number, **{"chunks": 2, "minibatches": 20, "min_workers": 2, "unbroken": True} | fields)


def short(number: int, **fields: Any) -> Job:
    """Like `long`, but done in a slot: srtf lets it go first."""
    return long(number, **{"minibatches": 1, "unbroken": False} | fields)


def servers(capacities: list[list[float]], *jobs: Job, **fields: Any) -> View:
    quota = [[0.0] * 2 for _ in capacities]
    cluster = make_cluster(capacities, quota=quota, tenants=[make_tenant("u0"), make_tenant("u1")])
    return make_view(cluster=cluster, waiting=jobs, **fields)


def next_slot(view: View, plan: Plan, *jobs: Job, **fields: Any) -> View:
    """The coming slot: what ran has that much less to do, and these jobs have come."""
    done = {booking.job: booking.work for booking in plan.bookings}
    rest = [work - done.get(job.number, 0.0) for job, work in zip(view.waiting, view.remaining.tolist(), strict=True)]
    waiting = (*view.waiting, *jobs)
    remaining = np.array([*rest, *(float(job.work) for job in jobs)])
    memory = view.memory if plan.memory is None else plan.memory
    now = {"slot": view.slot + 1, "waiting": waiting, "remaining": remaining, "memory": memory}
    return replace(view, **now | {"jobs": {job.number: job for job in waiting}} | fields)


def jobs_of(plan: Plan) -> list[int]:
    return [booking.job for booking in plan.bookings]


@pytest.mark.parametrize("unbroken", [True, False])
def test_a_job_that_came_later_does_not_put_it_out(unbroken: bool) -> None:
    view = servers([[2.0], [2.0]], long(0, unbroken=unbroken))
    policy = elastic("srtf", view)
    first = policy.decide(view)
    second = policy.decide(next_slot(view, first, short(1)))
    assert jobs_of(first) == [0]
    assert jobs_of(second) == ([0] if unbroken else [1])
    assert (UNBROKEN in (second.memory or {})) is unbroken


def test_it_stays_on_its_server_with_its_size_and_others_get_what_is_left() -> None:
    """By itself dominant resource fairness gives two jobs as much each, from the first server on."""
    one = long(0, chunks=8, max_workers=8, min_workers=1)
    other = long(1, chunks=8, max_workers=8, min_workers=1, unbroken=False, tenant=1)
    view = servers([[4.0, 4.0], [4.0, 4.0]], one)
    policy = elastic("dominant_resource_fairness", view)
    first = policy.decide(view)
    smaller = next_slot(view, first, other)
    [alone] = first.bookings
    assert (alone.workers, jobs_of(policy.decide(smaller))) == (8, [0])
    apart = policy.decide(replace(smaller, memory={}))
    assert [booking.workers for booking in apart.bookings] == [4, 4]
    third = policy.decide(next_slot(replace(smaller, memory={}), apart))
    assert [(each.job, gang_of(each)) for each in third.bookings] == [
        (each.job, gang_of(each)) for each in apart.bookings
    ]


def test_its_price_is_that_of_its_units_in_each_slot() -> None:
    view = servers([[2.0], [2.0]], long(0))
    policy = elastic("srtf", view)
    first = policy.decide(view)
    second = policy.decide(next_slot(view, first))
    assert [booking.paid for booking in (*first.bookings, *second.bookings)] == [1.5, 1.5]
    assert second.bookings[0].payouts.tolist() == first.bookings[0].payouts.tolist()


def test_a_tenants_money_keeps_it_before_an_earlier_job_begins() -> None:
    """The earlier job could not begin for want of room. Now there is room for both, and money for one."""
    early, late = long(0, arrival=0.0, chunks=4, min_workers=4, minibatches=1), long(1, arrival=1.0)
    blocked = np.zeros((2, 1, 1))
    blocked[0, 0, 0] = 3.0
    view = servers([[6.0], [6.0]], early, late, slot=1, occupied=blocked)
    policy = elastic("srtf", view)
    first = policy.decide(view)
    poor = {"funds": np.array([3.2, 9.0]), "occupied": np.zeros((2, 1, 1))}
    assert jobs_of(first) == [1]
    assert jobs_of(policy.decide(next_slot(view, first, **poor))) == [1]


def test_who_cannot_pay_its_slot_ends_and_its_room_is_given_to_others() -> None:
    """A smaller gang would begin again, so none is tried."""
    view = servers([[2.0], [2.0]], long(0, min_workers=1))
    policy = elastic("srtf", view)
    first = policy.decide(view)
    poor = policy.decide(next_slot(view, first, short(1, tenant=1), funds=np.array([1.0, 9.0])))
    assert jobs_of(poor) == [1]
    assert [(each.job, each.reason.code, each.reason.numbers) for each in poor.refusals] == [
        (0, "low_balance", {"price": 1.5, "left": 1.0})
    ]
    assert poor.smaller == {}
    assert UNBROKEN not in (poor.memory or {})


@pytest.mark.parametrize("change", ["closed", "away", "smaller", "taken", "silence"])
def test_it_begins_elsewhere_where_it_cannot_stay(change: str) -> None:
    """Its server hosts nothing new, is no part of the pool any more, has fewer units, or is taken; or a slot passed
    that was not decided."""
    view = servers([[2.0, 2.0], [2.0, 2.0]], long(0))
    policy = elastic("srtf", view)
    first = policy.decide(view)
    after, cluster = next_slot(view, first), view.cluster
    there = gang_of(first.bookings[0])[2][0][0]
    if change == "closed":
        closed = np.array([server != there for server in range(2)])
        after = replace(after, cluster=replace(cluster, hosts_workers=closed, hosts_ps=closed))
    elif change == "away":
        after = replace(after, cluster=replace(cluster, servers=("elsewhere", cluster.servers[1 - there])))
    elif change == "smaller":
        capacity = cluster.capacity.copy()
        capacity[:, there] = 0.0
        after = replace(after, cluster=replace(cluster, capacity=capacity))
    elif change == "taken":
        used = np.zeros((2, 1, 2))
        used[:, 0, there] = 2.0
        after = replace(after, occupied=used)
    else:
        after = replace(after, slot=after.slot + 1)
    blind = replace(after, memory={})
    moved, anew = policy.decide(after), policy.decide(blind)
    assert [gang_of(each) for each in moved.bookings] == [gang_of(each) for each in anew.bookings]


def test_what_the_pools_own_policy_remembers_is_its_own() -> None:
    """DL2 reads nothing that it did not write, and what it remembers is there when the gang has ended."""
    view = servers([[4.0], [4.0]], long(0), short(1, unbroken=False, minibatches=9))
    policy = elastic("dl2", view)
    first = policy.decide(view)
    assert first.memory is not None
    second = policy.decide(next_slot(view, first))
    assert second.memory is not None
    assert {*second.memory} - {UNBROKEN} == {*first.memory} - {UNBROKEN} != set()
    ended = next_slot(view, second, funds=np.array([0.0, 0.0]), slot=2)
    assert UNBROKEN not in (policy.decide(ended).memory or {})


def test_a_pool_without_such_jobs_remembers_what_it_remembered() -> None:
    view = servers([[2.0], [2.0]], long(0, unbroken=False))
    assert elastic("srtf", view).decide(view).memory is None


@dataclass
class Recorder(Examined):
    """Keeps each view and its plan."""

    policy: Policy
    slots: list[tuple[View, Plan]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.policy)

    def decide(self, view: View) -> Plan:
        plan = super().decide(view)
        self.slots.append((snapshot(view), plan))
        return plan


@pytest.mark.parametrize("policy", NAMES)
def test_whatever_the_policy_nobody_moves_it_and_nothing_but_money_ends_it(policy: str) -> None:
    stayed = resized = 0
    for seed in range(1 if policy == "dorm" else 3):  # its programs take seconds
        market = random_market(seed, "guarantee", backlog=True)
        jobs = [replace(job, unbroken=job.number % 2 == 0) for job in market.jobs]
        scenario = replace(market, jobs=tuple(jobs), preload=())  # nobody else takes anything
        prices = dict.fromkeys(scenario.cluster.resources, 0.3)
        settings = {"name": "elastic", "policy": {"name": policy}, "prices": prices}
        recorder = Recorder(build(settings, scenario.cluster, scenario.jobs))
        simulate(scenario, {"batch": recorder})
        for (_, last), (view, plan) in pairwise(recorder.slots):
            before = {booking.job: booking for booking in last.bookings}
            after = {booking.job: booking for booking in plan.bookings}
            reasons = {refusal.job: refusal.reason.code for refusal in plan.refusals}
            for job in view.waiting:
                if job.number not in before:
                    continue
                if job.unbroken and job.number in after:
                    assert gang_of(after[job.number]) == gang_of(before[job.number])
                    stayed += 1
                elif job.unbroken:
                    assert reasons[job.number] in MEANS
                else:
                    resized += job.number not in after or gang_of(after[job.number]) != gang_of(before[job.number])
    assert stayed > 5
    assert resized > 0
