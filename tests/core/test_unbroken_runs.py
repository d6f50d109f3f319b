"""Unbroken runs of OASiS: equal to plain loops over gangs, starts and servers, and never moved (O13)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.core.policies.oasis import runs
from scheduling.core.posted.menu import MARKET, MODES
from scheduling.core.types import INSTANT, OWN, SHARED, Booking, FloatArray, Job, View
from tests.core import reference_oasis
from tests.core.reference_oasis import Net, whole_price
from tests.core.test_instant_net import PRICE, gained, random_markets
from tests.core.test_oasis_exact import random_world


@dataclass(frozen=True)
class Run:
    end: int
    paid: float
    value: float
    workers: int


def cheapest(
    view: View, hosts: FloatArray, demand: FloatArray, price: dict, slots: range, units: int, net: Net = whole_price
) -> float:
    """What so many units cost in all of these slots, each on one server from the first slot to the last."""
    offers = []
    for server in np.flatnonzero(hosts).tolist():
        capacity, cost, room = view.cluster.capacity[:, server], 0.0, units
        for slot in slots:
            used = view.occupied[:, slot - view.slot, server]
            room = min(room, reference_oasis.whole_units(capacity - used, demand))
            if room <= 0:
                break
            for r, name in enumerate(view.cluster.resources):
                if demand[r] > 0:
                    ceiling = price["ceiling"].get(name, price["floor"])
                    posted = reference_oasis.posted(price["floor"], ceiling, used[r], capacity[r])
                    cost += demand[r] * posted * net(slot, server, r)
        offers += [cost] * max(room, 0)
    return sum(sorted(offers)[:units]) if len(offers) >= units else math.inf


def best_run(job: Job, view: View, mode: str, worker_price: dict, ps_price: dict, net: Net = whole_price) -> Run | None:
    worker, ps = job.worker_types[0], job.ps_types[0]
    per_chunk = job.minibatches * Fraction(repr(worker.seconds)) / Fraction(repr(view.cluster.slot_seconds))
    work = max(1, math.ceil(job.epochs * job.chunks * per_chunk))
    best = None
    for end in range(view.slot + 1, view.horizon + 1):
        costs = []
        for workers in range(job.min_workers, job.max_workers + 1):
            slots = range(end - math.ceil(work / workers), end)
            if slots.start < view.slot:
                continue
            servers = math.ceil(workers * Fraction(repr(worker.mbps)) / Fraction(repr(ps.mbps)))
            hosts, hosts_ps = view.cluster.hosts_workers, view.cluster.hosts_ps
            cost = cheapest(view, hosts, worker.demand, worker_price, slots, workers, net)
            cost += cheapest(view, hosts_ps, ps.demand, ps_price, slots, servers, net)
            costs.append((cost, workers))
        cost, workers = min(costs, default=(math.inf, 0))
        if math.isfinite(cost):
            paid, value = math.floor(cost * 1e6 + 0.5) / 1e6, reference_oasis.value_of(job, end - 1, mode)
            if value - paid > (best.value - best.paid if best else 0.0):
                best = Run(end, paid, value, workers)
    return best


def assert_unbroken(booking: Booking) -> None:
    """Each server has the same members in all slots from the start to the end."""
    assert {(row.start, row.end) for row in booking.allocation} == {(booking.start, booking.end)}
    assert len({row.server for row in booking.allocation}) == len(booking.allocation)
    assert sum(row.workers for row in booking.allocation) == booking.workers
    assert sum(row.ps for row in booking.allocation) == booking.ps


@pytest.mark.parametrize("block", range(6))
def test_decides_like_plain_loops_and_stays_where_it_is(block: int) -> None:
    dice, admitted, moved = np.random.default_rng([1713, block]), 0, 0
    for _ in range(60):
        world, job, occupied = random_world(dice, slots=6)
        least = int(dice.integers(1, job.max_workers + 1))
        job = replace(job, unbroken=True, min_workers=least)
        view, policy = world.view(job, occupied), replace(world.policy, mode=MODES[block % 2])
        prices = dict(policy.worker_price), dict(policy.ps_price)
        plan, expected = policy.decide(view), best_run(job, view, MODES[block % 2], *prices)
        assert bool(plan.bookings) == (expected is not None)
        if expected is None:
            continue
        (booking,) = plan.bookings
        admitted += 1
        assert_unbroken(booking)
        assert (booking.end, booking.paid) == (expected.end, pytest.approx(expected.paid, abs=1.1e-6))
        assert (booking.value, booking.workers) == (expected.value, expected.workers)
        assert booking.slot_payouts is not None
        assert float(booking.slot_payouts.sum()) == pytest.approx(booking.paid, abs=1e-9)
        (broken,) = policy.decide(replace(view, waiting=(replace(job, unbroken=False),))).bookings
        assert broken.value - broken.paid >= booking.value - booking.paid - 1.1e-6
        moved += len({(row.start, row.end) for row in broken.allocation}) > 1
    assert admitted > 8
    assert moved > 0


def soonest_at_home(job: Job, own_idle: FloatArray) -> float:
    """The value of the job on its tenant's own idle cells alone, each member on one server from start to end."""
    ratio = Fraction(repr(job.worker_types[0].mbps)) / Fraction(repr(job.ps_types[0].mbps))
    for end in range(1, own_idle.shape[1] + 1):
        for workers in range(1, job.max_workers + 1):
            start = end - math.ceil(job.work / workers)
            if start >= 0:
                room, room_ps = np.floor(own_idle[:, start:end].min(axis=1) + 1e-9).sum(axis=1)
                if workers <= room and math.ceil(workers * ratio) <= room_ps:
                    return max(float(job.value(end - job.arrival)), 0.0)
    return 0.0


@pytest.mark.parametrize("block", range(4))
def test_leaves_as_much_as_plain_loops_over_net_prices_and_own_cells(block: int) -> None:
    phases = {OWN: 0, SHARED: 0, None: 0}
    for question in random_markets(block + 40, 50, "oasis"):
        job = replace(question.job, unbroken=True)
        view, booking = replace(question.plain_view(), waiting=(job,), jobs={job.number: job}), question.answer(job)
        rented = best_run(job, view, MARKET, PRICE["worker"], PRICE["ps"], question.parts_kept())
        own_idle = question.view().own_idle
        at_home = 0.0 if own_idle is None else soonest_at_home(job, own_idle)
        best = max(at_home, rented.value - rented.paid if rented else 0.0)
        assert gained(booking, job) == pytest.approx(best, abs=3e-6)
        phases[booking.phase if booking else None] += 1
        if booking is not None:
            assert_unbroken(booking)
            question.calendar.place(INSTANT, job, booking)  # nothing is given out twice
    assert min(phases[OWN], phases[SHARED]) > 5


def test_pd_ors_refuses_it_as_it_gives_each_slot_its_own_servers() -> None:
    (question,) = random_markets(3, 1, "pdors")
    (refusal,) = question.policy.decide(question.view(replace(question.job, unbroken=True))).refusals
    assert refusal.reason.code == "changes_servers"


def test_refusal_says_for_how_long_there_is_no_room() -> None:
    dice = np.random.default_rng(5)
    while True:
        world, job, occupied = random_world(dice, slots=6)
        job = replace(job, unbroken=True, min_workers=job.max_workers)
        view, policy = world.view(job, occupied), replace(world.policy, mode=MARKET)
        plan = policy.decide(view)
        if plan.refusals and plan.refusals[0].reason.code == "no_room" and "slots" in plan.refusals[0].reason.numbers:
            break
    numbers = plan.refusals[0].reason.numbers
    assert numbers["free"] < numbers["asked"] == job.max_workers
    assert numbers["slots"] >= 1


@pytest.mark.parametrize("slots", range(1, 9))
def test_sums_and_minima_of_slots_on_end(slots: int) -> None:
    rows = np.random.default_rng(slots).uniform(0, 9, (2, 8, 3))
    for combine, plain in ((runs.sums, np.sum), (runs.minima, np.min)):
        expected = np.stack([plain(rows[:, a : a + slots], axis=1) for a in range(8 - slots + 1)], axis=1)
        assert combine(rows, slots) == pytest.approx(expected)
    longer = np.concatenate([rows, rows[:, -1:].repeat(8, axis=1)], axis=1)
    assert runs.over_run(rows, slots, 8, runs.minima) == pytest.approx(runs.minima(longer, slots)[:, :8])


def test_gangs_that_are_no_faster_than_a_smaller_one_are_left_out() -> None:
    assert runs.gangs_and_slots([0, 1, 2, 3, 4, 5], 6) == [(1, 6), (2, 3), (3, 2)]
    assert runs.gangs_and_slots([0, 3, 3, 3, 4], 7) == [(3, 3), (4, 2)]
