"""OASiS and PD-ORS answer as a reference does that was written from the rules alone: who is admitted, until when, at
what price, and who is paid.

Each job of a drawn scenario is answered by the reference with what the policy booked for the jobs before it. Prices are
floats: they may differ by the smallest amount, and of completions that leave the same but for that, any may be chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, Booking, Cluster, Job, Samples, UnitType, Value
from scheduling.core.value import Deadline, Linear, Sigmoid
from tests.core.builders import make_cluster, make_job, make_scenario, make_unit_type
from tests.core.reference_admission import MICRO, Desk, oasis, pdors, sample_slots, worker_slots

SMALLEST = 1.0 / MICRO
CLOSE = 1e-7
SLOT = 3600.0
BLOCKS, WORLDS = range(150), 2  # all but the first block are wide


@dataclass(frozen=True)
class World:
    scenario: Scenario
    desk: Desk


def drawn_cluster(dice: np.random.Generator, *, apart: bool) -> Cluster:
    """Servers with one or two resources; if `apart`, each hosts one kind. Tenants have cells, or counts alone."""
    servers, resources = int(dice.integers(2, 4)), int(dice.integers(1, 3))
    capacity = dice.integers(1, 7, size=(resources, servers)).astype(float)
    workers = dice.random(servers) < 0.6
    workers[0], workers[-1] = True, False
    cells = np.stack([np.floor(capacity * dice.choice([0, 0.25, 0.5], size=servers)) for _ in range(2)], axis=1)
    return make_cluster(
        capacity.tolist(),
        resources=tuple(f"r{r}" for r in range(resources)),
        quota=cells.sum(axis=2).tolist(),
        cells=cells.tolist() if dice.random() < 0.5 else None,
        slot_seconds=SLOT,
        hosts_workers=workers if apart else [True] * servers,
        hosts_ps=~workers if apart else [True] * servers,
    )


def drawn_unit(dice: np.random.Generator, resources: int, seconds: float, mbps: float) -> UnitType:
    demand = dice.choice([0, 0.5, 1, 1, 2], size=resources)
    demand[int(dice.integers(resources))] = 1
    return make_unit_type(demand, seconds=seconds, mbps=mbps)


def drawn_value(dice: np.random.Generator) -> Value:
    most = float(dice.choice([3, 10, 30, 100]))
    kind = int(dice.integers(3))
    if kind == 0:
        return Linear(-float(dice.choice([0, 1, 4])), most)
    if kind == 1:
        return Deadline(most, float(dice.integers(2, 6)))
    return Sigmoid(most, float(dice.choice([0, 0.5, 5])), float(dice.integers(1, 5)))


def drawn_bounds(dice: np.random.Generator, resources: tuple[str, ...]) -> tuple[float, dict[str, float]]:
    return float(dice.choice([0.1, 0.5, 1])), {name: float(dice.choice([1, 4, 20])) for name in resources}


def settings_of(bounds: tuple[float, dict[str, float]]) -> dict[str, Any]:
    return {"floor": bounds[0], "ceiling": bounds[1]}


def oasis_world(dice: np.random.Generator, mode: str) -> World:
    cluster, slots = drawn_cluster(dice, apart=True), int(dice.integers(3, 7))
    count = len(cluster.resources)
    jobs = []
    for number, arrival in enumerate(sorted(dice.choice([0, 0.4, 1, 1.5, 2], size=int(dice.integers(2, 5))).tolist())):
        chunks = int(dice.integers(1, 4))
        gradient = float(dice.choice([0, 0, 22.5, 45]))  # with a bandwidth of 1: nothing, a tenth, a fifth of a slot
        seconds = float(dice.choice([0.07, 0.3, 0.5, 1, 1.5])) * SLOT
        jobs.append(
            make_job(
                number,
                tenant=int(dice.integers(2)),
                arrival=float(arrival),
                epochs=int(dice.integers(1, 4)),
                chunks=chunks,
                minibatches=int(dice.integers(1, 3)),
                min_workers=int(dice.integers(1, chunks + 1)) if dice.random() < 0.2 else 1,
                gradient_mb=gradient,
                worker_types=[drawn_unit(dice, count, seconds, 1.0) for _ in range(int(dice.integers(1, 3)))],
                ps_types=[drawn_unit(dice, count, 0.0, float(dice.choice([1, 2, 3]))) for _ in range(1)],
                value=drawn_value(dice),
                max_price=float(dice.choice([2, 6])) if mode == "paper" and dice.random() < 0.3 else None,
            )
        )
    bounds = drawn_bounds(dice, cluster.resources), drawn_bounds(dice, cluster.resources)
    policy = {"name": "oasis", "mode": mode}
    policy |= {"worker_price": settings_of(bounds[0]), "ps_price": settings_of(bounds[1])}
    scenario = make_scenario(jobs, cluster=cluster, slots=slots, policy=policy)
    return World(scenario, Desk(scenario, bounds, mode == "market"))


def pdors_world(dice: np.random.Generator, mode: str) -> World:
    """A worker is once, 4/3 or 3/2 times as fast on one machine as between machines, so that quanta are exact."""
    cluster, slots = drawn_cluster(dice, apart=False), int(dice.integers(3, 6))
    jobs = []
    for number, arrival in enumerate(sorted(dice.choice([0, 0.4, 1, 2], size=int(dice.integers(2, 5))).tolist())):
        batch, seconds = int(dice.integers(1, 5)), float(dice.choice([0.25, 0.5, 1])) * SLOT
        exchange = seconds * float(dice.choice([0, 1, 2]))  # between machines; half of it inside
        ratio = float(dice.choice([1, 2] if exchange else [1, 1.5, 2, 3]))
        gradient = exchange * batch / ratio / 16
        jobs.append(
            make_job(
                number,
                tenant=int(dice.integers(2)),
                arrival=float(arrival),
                epochs=int(dice.integers(1, 3)),
                chunks=batch,
                gradient_mb=gradient,
                worker_types=[drawn_unit(dice, len(cluster.resources), seconds, 1.0)],
                ps_types=[drawn_unit(dice, len(cluster.resources), 0.0, 1.0)],
                value=drawn_value(dice),
                max_price=float(dice.choice([2, 6])) if mode == "paper" and dice.random() < 0.3 else None,
                samples=Samples(
                    total=float(dice.integers(1, 8)),
                    batch_size=batch,
                    seconds=seconds,
                    internal_mbps=2.0,
                    ps_ratio=ratio,
                ),
            )
        )
    bounds = drawn_bounds(dice, cluster.resources)
    policy = {
        "name": "pdors",
        "mode": mode,
        "price": settings_of(bounds),
        "external": str(dice.choice(["greedy", "milp"])),
    }
    scenario = make_scenario(jobs, cluster=cluster, slots=slots, policy=policy)
    return World(scenario, Desk(scenario, (bounds, bounds), mode == "market"))


def check_bill(desk: Desk, job: Job, booking: Booking) -> None:
    """The payment is the cost of the booked units at the prices before, and owners share it by what they have."""
    whole, _, owners = desk.bill(job, booking)
    assert booking.paid == pytest.approx(whole, abs=SMALLEST)
    assert booking.cost == pytest.approx(whole, abs=CLOSE)
    if booking.payouts is not None and desk.market:
        assert booking.payouts.tolist() == pytest.approx(owners, abs=2 * SMALLEST)


def check_work(desk: Desk, job: Job, booking: Booking) -> None:
    """In every slot there are the parameter servers for the workers, and all slots together do the work."""
    worker, ps = job.worker_types[booking.worker_type], job.ps_types[booking.ps_type]
    slots = range(booking.start, booking.end)
    rows = [[row for row in booking.allocation if row.start <= slot < row.end] for slot in slots]
    gangs = [
        (sum(row.workers for row in here), sum(row.ps for row in here), len({row.server for row in here}))
        for here in rows
    ]
    if desk.scenario.policy["name"] == "oasis":
        assert sum(n for n, _, _ in gangs) >= worker_slots(desk.scenario, job, worker, ps)
        assert all(s == math.ceil(n * worker.mbps / ps.mbps) for n, s, _ in gangs)
        return
    inside, between = sample_slots(desk.scenario, job)
    done = sum(n / (inside if servers == 1 else between) for n, _, servers in gangs)
    assert done >= job.epochs * (job.samples.total or 0) - CLOSE
    assert all(s == (max(1, math.ceil(n / (job.samples.ps_ratio or 1))) if n else 0) for n, s, _ in gangs)


def check(world: World) -> tuple[int, int]:
    """Compare all answers, and return how many jobs were admitted and refused."""
    desk, admitted, refused = world.desk, 0, 0
    policy = build(world.scenario.policy, world.scenario.cluster, world.scenario.jobs)
    reference = oasis if world.scenario.policy["name"] == "oasis" else pdors
    tracks = simulate(world.scenario, {"batch": policy}).tracks
    for track in sorted(tracks, key=lambda track: (track.job.arrival, track.job.number)):
        job, offer = track.job, reference(desk, track.job)
        if not track.bookings:
            assert offer is None or offer.gain <= 2 * SMALLEST
            refused += 1
            continue
        (booking,) = track.bookings
        assert track.state == AWARDED
        assert offer is not None
        _, net, _ = desk.bill(job, booking)
        assert net == pytest.approx(offer.price, abs=2 * SMALLEST) or booking.end != offer.end
        assert desk.value(job, booking.end) - net == pytest.approx(offer.gain, abs=2 * SMALLEST)
        assert booking.value == pytest.approx(desk.value(job, booking.end), abs=CLOSE)
        check_bill(desk, job, booking)
        check_work(desk, job, booking)
        desk.take(job, booking)
        admitted += 1
    return admitted, refused


@pytest.mark.parametrize("block", BLOCKS)
def test_oasis_answers_as_the_rules_say(block: int) -> None:
    dice = np.random.default_rng([31, block])
    for _ in range(WORLDS):
        check(oasis_world(dice, "paper"))
        check(oasis_world(dice, "market"))


@pytest.mark.parametrize("block", BLOCKS)
def test_pdors_answers_as_the_rules_say(block: int) -> None:
    dice = np.random.default_rng([32, block])
    for _ in range(WORLDS):
        check(pdors_world(dice, "paper"))
        check(pdors_world(dice, "market"))


def test_drawn_jobs_are_admitted_and_refused() -> None:
    """Else the comparison says little."""
    dice = np.random.default_rng(33)
    answers = [check(oasis_world(dice, mode)) for mode in ("paper", "market") * 3]
    assert min(sum(counts) for counts in zip(*answers, strict=True)) > 2
