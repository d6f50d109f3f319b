"""OASiS is exact: equal to plain loops, equal to an integer program, and honest reports never lose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from scheduling.core.posted.menu import MODES
from scheduling.core.types import FloatArray, Job, View
from scheduling.core.value import Sigmoid
from tests.core import reference_oasis
from tests.core.oasis_worlds import World, make_instant_job, make_policy

BLOCKS = range(6)


def random_world(dice: np.random.Generator, *, slots: int = 5, most_workers: int = 4) -> tuple[World, Job, FloatArray]:
    """A tiny world with several resources, partly occupied, and one job."""
    resources = int(dice.integers(1, 4))
    names = [f"r{index}" for index in range(resources)]

    def servers(number: int) -> list[list[float]]:
        rows = dice.integers(0, 7, size=(number, resources)).astype(float)
        rows[:, 0] = np.maximum(rows[:, 0], 1)
        return rows.tolist()

    world = World(
        servers(int(dice.integers(1, 4))),
        servers(int(dice.integers(1, 3))),
        slots,
        make_policy(
            floors=(float(dice.choice([0.5, 1.0])), float(dice.choice([0.25, 1.0]))),
            ceilings=({name: float(dice.choice([1.0, 8.0, 16.0])) for name in names}, dict.fromkeys(names, 4.0)),
        ),
    )
    worker, ps = dice.integers(0, 3, size=resources), dice.integers(0, 2, size=resources)
    worker[0], ps[0] = max(worker[0], 1), max(ps[0], 1)
    bandwidth = float(dice.choice([1.0, 2.0, 3.0, 4.0]))
    job = make_instant_job(
        0,
        arrival=float(dice.choice([0, 0.5, 1])),
        epochs=int(dice.integers(1, 4)),
        chunks=int(dice.integers(1, most_workers + 1)),
        minibatch_slots=float(dice.choice([0.3, 0.5, 0.7, 1.0, 1.5])),
        bandwidths=(1.0, bandwidth),
        worker=worker.tolist(),
        ps=ps.tolist(),
        value=Sigmoid(float(dice.uniform(5, 120)), float(dice.choice([0, 0.5, 2.0])), float(dice.integers(0, 4))),
    )
    capacity = world.cluster.capacity
    occupied = np.floor(dice.uniform(0, 1, (len(names), slots, capacity.shape[1])) * (capacity[:, None, :] + 1) * 0.7)
    return world, job, np.minimum(occupied, capacity[:, None, :])


def random_worlds(block: int, number: int) -> Iterator[tuple[World, Job, FloatArray]]:
    dice = np.random.default_rng([1501, block])
    for _ in range(number):
        yield random_world(dice)


@pytest.mark.parametrize("block", BLOCKS)
def test_decides_like_the_plain_program(block: int) -> None:
    admitted, mode = 0, MODES[block % 2]
    for world, job, occupied in random_worlds(block, 100):
        view, policy = world.view(job, occupied), replace(world.policy, mode=mode)
        plan = policy.decide(view)
        expected = reference_oasis.answer(job, view, dict(policy.worker_price), dict(policy.ps_price), mode)
        assert bool(plan.bookings) == (expected is not None)
        if expected is None:
            continue
        booking = plan.bookings[0]
        admitted += 1
        assert (booking.end, booking.paid) == (expected.end, pytest.approx(expected.paid, abs=1.1e-6))
        assert booking.value == expected.value
        used = [0] * len(expected.workers)
        for row in booking.allocation:
            for slot in range(row.start, row.end):
                used[slot - view.slot] += row.workers
        assert tuple(used) == expected.workers
    assert admitted > 20


def cheapest_by(world: World, job: Job, view: View, end: int, work: int) -> float:
    """The least cost of `work` worker-slots before `end`, as an integer program over servers and slots."""
    cluster, slots = world.cluster, range(view.slot, end)
    worker, ps = job.worker_types[0], job.ps_types[0]
    columns: list[tuple[int, int, str]] = []
    costs, rooms = [], []
    for slot in slots:
        for kind, unit, hosts, price in (
            ("worker", worker, cluster.hosts_workers, world.policy.worker_price),
            ("ps", ps, cluster.hosts_ps, world.policy.ps_price),
        ):
            for server in range(len(cluster.servers)):
                used = view.occupied[:, slot - view.slot, server]
                capacity = cluster.capacity[:, server]
                fits = reference_oasis.whole_units(capacity - used, unit.demand) if hosts[server] else 0
                columns.append((slot, server, kind))
                rooms.append(max(fits, 0))
                costs.append(
                    sum(
                        unit.demand[r]
                        * reference_oasis.posted(price["floor"], price["ceiling"][name], used[r], capacity[r])
                        for r, name in enumerate(cluster.resources)
                        if unit.demand[r] > 0 and fits > 0
                    )
                )
    rows, low, high = [[1.0 if kind == "worker" else 0.0 for _, _, kind in columns]], [work], [work]
    for slot in slots:
        here = [(s == slot, kind) for s, _, kind in columns]
        rows.append([float(now and kind == "worker") for now, kind in here])
        low.append(0)
        high.append(job.max_workers)
        per_ps = ps.mbps / worker.mbps
        rows.append([float(now) * (per_ps if kind == "ps" else -1.0) for now, kind in here])
        low.append(0)
        high.append(math.inf)
    result = milp(
        np.array(costs),
        constraints=LinearConstraint(np.array(rows), np.array(low), np.array(high)),
        bounds=Bounds(np.zeros(len(costs)), np.array(rooms)),
        integrality=np.ones(len(costs)),
    )
    return float(result.fun) if result.success else math.inf


@pytest.mark.parametrize("block", BLOCKS)
def test_equals_the_integer_program(block: int) -> None:
    for world, job, occupied in random_worlds(block + 100, 55):
        view = world.view(job, occupied)
        q = job.minibatches * job.worker_types[0].seconds / 3600.0
        work = max(1, math.ceil(job.epochs * job.chunks * q - 1e-9))
        gains = [0.0]
        for end in range(view.slot + 1, view.horizon + 1):
            cost = cheapest_by(world, job, view, end, work)
            gains.append(float(job.value(end - 1 - job.first_slot)) - cost)
        plan = world.policy.decide(view)
        gain = sum(booking.value - booking.cost for booking in plan.bookings)
        assert gain == pytest.approx(max(gains), abs=2e-6)


@pytest.mark.parametrize("block", BLOCKS)
def test_an_honest_value_report_never_loses(block: int) -> None:
    dice = np.random.default_rng([88, block])
    lies = 0
    for world, job, occupied in random_worlds(block + 200, 40):
        view = world.view(job, occupied)

        def true_gain(reported: Job, world: World = world, job: Job = job, view: View = view) -> float:
            plan = world.policy.decide(replace(view, waiting=(reported,), jobs={0: reported}))
            return sum(float(job.value(b.end - 1 - job.first_slot)) - b.paid for b in plan.bookings)

        honest = true_gain(job)
        assert isinstance(job.value, Sigmoid)
        for _ in range(3):
            lie = Sigmoid(
                job.value.priority * float(dice.choice([0.3, 0.8, 1.3, 4.0])),
                float(dice.choice([0, 0.2, 1.0, 5.0])),
                float(dice.integers(0, 6)),
            )
            lies += 1
            assert true_gain(replace(job, value=lie)) <= honest + 1e-9
    assert lies == 120
