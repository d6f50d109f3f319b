"""Few jobs on co-located servers, and what PD-ORS gains on them as they arrive: beside the offline optimum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.occupancy import Occupancy
from scheduling.core.types import Job, View
from scheduling.core.value import Sigmoid
from tests.core.pdors_worlds import World, make_policy, make_sample_job


def online(world: World, jobs: Sequence[Job]) -> float:
    """What PD-ORS gains in value on the same jobs as they arrive."""
    occupancy, total = Occupancy(world.cluster), 0.0
    for job in sorted(jobs, key=lambda job: (job.arrival, job.number)):
        view = View(
            slot=job.first_slot,
            horizon=world.slots,
            cluster=world.cluster,
            waiting=(job,),
            remaining=np.array([job.work]),
            occupied=occupancy.window(job.first_slot),
        )
        for booking in world.policy.decide(view).bookings:
            occupancy.place(job, booking)
            total += booking.value
    return total


def small_sequence(seed: int, *, jobs: int = 6, slots: int = 5) -> tuple[World, list[Job]]:
    """Six jobs in five slots on two servers with two resources; bounds from typical values."""
    dice = np.random.default_rng([43, seed])
    sequence = [
        make_sample_job(
            number,
            arrival=float(dice.integers(0, slots - 1)),
            epochs=int(dice.integers(1, 3)),
            samples=int(dice.integers(1, 6)),
            batch=int(dice.integers(1, 5)),
            sample_slots=float(dice.choice([0.5, 1.0])),
            exchange=float(dice.choice([0.0, 0.25, 1.0])),
            rates=(4.0, 1.0),
            ratio=float(dice.choice([1.0, 2.0, 3.0])),
            worker=[int(dice.integers(1, 3)), int(dice.integers(1, 3))],
            ps=[0, int(dice.integers(1, 3))],
            value=Sigmoid(float(dice.uniform(5, 100)), float(dice.choice([0, 0.5, 4.5])), float(dice.integers(1, 4))),
        )
        for number in range(jobs)
    ]
    policy = make_policy(floor=0.5, ceiling={"r0": 40.0, "r1": 40.0})
    return World([[6.0, 9.0], [6.0, 9.0]], slots, policy), sequence
