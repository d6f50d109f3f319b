"""Few instant jobs, and what OASiS gains on them as they arrive: beside the offline optimum, which knows the future."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.occupancy import Occupancy
from scheduling.core.types import Job, View
from scheduling.core.value import Sigmoid
from tests.core.oasis_worlds import World, make_instant_job, make_policy


def online(world: World, jobs: Sequence[Job]) -> float:
    """What OASiS gains in value on the same jobs as they arrive."""
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


def small_sequence(seed: int, *, jobs: int = 10, slots: int = 10) -> tuple[World, list[Job]]:
    """Ten jobs in ten slots on two worker servers and one for parameter servers; bounds from typical values."""
    dice = np.random.default_rng([41, seed])
    sequence = [
        make_instant_job(
            number,
            arrival=float(dice.integers(0, slots - 2)),
            epochs=int(dice.integers(1, 4)),
            chunks=int(dice.integers(1, 4)),
            minibatch_slots=float(dice.choice([0.5, 1.0, 1.5])),
            bandwidths=(1.0, float(dice.choice([2.0, 4.0]))),
            worker=[int(dice.integers(1, 4))],
            ps=[1],
            value=Sigmoid(float(dice.uniform(5, 100)), float(dice.choice([0, 0.5, 4.5])), float(dice.integers(1, 6))),
        )
        for number in range(jobs)
    ]
    policy = make_policy(floors=(1.0, 0.2), ceilings=({"r0": 40.0}, {"r0": 20.0}))
    return World([[6.0], [6.0]], [[5.0]], slots, policy), sequence
