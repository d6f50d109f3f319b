"""Optimus with one of its parts taken from another policy: the numbers of units that jobs get, or their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from scheduling.core.gangs import GangUnits
from scheduling.core.occupancy import ROUNDING
from scheduling.core.placement import Placement, Vacancies
from scheduling.core.policies.optimus.jobs import ElasticJob, Pair
from scheduling.core.policies.optimus.placing import Row
from scheduling.core.types import Policy, View

OWN = "optimus"
# Optimus' own placements. EVEN spreads a gang as evenly as there is room, STRICT exactly evenly or not at all. OWN is
# from before there was a choice, and stored intervals name it: exactly evenly or else, with `scatter`, unit by unit
# from the first server on.
EVEN, STRICT = "even", "strict"
OWN_PLACES = (EVEN, STRICT, OWN)


class Placer(Policy, Protocol):
    """A policy that can also place gangs whose numbers another policy decided."""

    def place(self, view: View, gangs: Mapping[int, GangUnits]) -> Mapping[int, Placement]:
        """Return where the gang of each job is in the coming slot. Jobs without a place are left out."""


def numbers_of(policy: Policy, jobs: Sequence[ElasticJob], view: View) -> list[Pair]:
    """Return the (parameter servers, workers) that a policy gives each job in the coming slot, (0, 0) where it gives
    none. Also set the jobs' types to the policy's."""
    bookings = {booking.job: booking for booking in policy.decide(view).bookings}
    for each in jobs:
        if (booking := bookings.get(each.job.number)) is not None:
            each.choose((booking.worker_type, booking.ps_type))
    given_numbers = (bookings.get(each.job.number) for each in jobs)
    return [(0, 0) if booking is None else (booking.ps, booking.workers) for booking in given_numbers]


def rows_of(placer: Placer, vacancies: Vacancies, gangs: Mapping[int, GangUnits], view: View) -> dict[int, list[Row]]:
    """Return where a policy places the gang of each job among what is vacant. Nothing is taken yet."""
    use = view.cluster.capacity - (np.array(vacancies.free).T - ROUNDING)  # (resources, servers)
    places = [index for index, job in enumerate(view.waiting) if job.number in gangs]
    waiting = tuple(view.waiting[index] for index in places)
    rest = replace(view, occupied=use[:, None, :], waiting=waiting, remaining=view.remaining[places])
    return {number: _rows(placement) for number, placement in placer.place(rest, gangs).items()}


def _rows(placement: Placement) -> list[Row]:
    return [(row.server, row.workers, row.ps) for row in placement.allocation(0, 1)]
