"""The calendar of a cluster: a plan's bookings entered at once, as one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from scheduling.core.occupancy import CapacityExceeded, Occupancy
from scheduling.core.types import Allocation, Booking, Job
from tests.core.builders import make_cluster, make_job, make_unit_type

SERVERS = 4


def some_bookings(dice: np.random.Generator) -> tuple[list[Job], list[Booking]]:
    """Gangs of odd amounts, most of them for the same slot, several on one server."""
    jobs, bookings = [], []
    for number in range(int(dice.integers(1, 8))):
        kinds = [[make_unit_type(dice.choice([0.1, 0.2, 0.3, 0.7], 2))] for _ in range(2)]
        end = int(dice.choice([3, 3, 3, 5]))
        hosts = sorted(dice.choice(SERVERS, dice.integers(1, SERVERS), replace=False).tolist())
        rows = tuple(Allocation(host, 2, end, *dice.integers(0, 4, 2).tolist()) for host in hosts)
        jobs.append(make_job(number, worker_types=kinds[0], ps_types=kinds[1]))
        bookings.append(Booking(job=number, start=2, end=end, allocation=rows, work=1.0, workers=1, ps=1))
    return jobs, bookings


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_entered_at_once_is_one_entered_booking_by_booking_to_the_last_bit(seed):
    jobs, bookings = some_bookings(np.random.default_rng(seed))
    cluster = make_cluster(np.full((2, SERVERS), 99.0))
    at_once, one_by_one = Occupancy(cluster), Occupancy(cluster)
    at_once.place_all(jobs, bookings)
    for job, booking in zip(jobs, bookings, strict=True):
        one_by_one.place(job, booking)
    assert (at_once.window(0) == one_by_one.window(0)).all()
    assert at_once.window(0).any()


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_that_is_too_much_is_told_of_as_booking_by_booking(seed):
    jobs, bookings = some_bookings(np.random.default_rng(seed))
    cluster = make_cluster(np.full((2, SERVERS), 2.0))
    sentences = []
    for places in (Occupancy(cluster), Occupancy(cluster)):
        try:
            if sentences:
                places.place_all(jobs, bookings)
            else:
                for job, booking in zip(jobs, bookings, strict=True):
                    places.place(job, booking)
            sentences.append("")
        except CapacityExceeded as error:
            sentences.append(str(error))
    assert sentences[0] == sentences[1]
