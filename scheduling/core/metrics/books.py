"""Gather a run into arrays: the completed jobs, what tenants paid and owners received, and the units in use.

A job is completed when all its work is booked, at the end of its last booking. Amounts are credits, times slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduling.core.scenario import Scenario
from scheduling.core.types import AWARDED, Booking, FloatArray, Floor, Job, Settlement, Window

TOLERANCE = 1e-9  # relative, on sums of credits


class JobTrack(Protocol):
    """The history of one job; see `simulation.Track`."""

    @property
    def job(self) -> Job: ...
    @property
    def state(self) -> str: ...
    @property
    def bookings(self) -> Sequence[Booking]: ...
    @property
    def floor(self) -> Floor | None: ...
    @property
    def settlement(self) -> Settlement | None: ...
    @property
    def worth(self) -> float: ...


class RunOutcome(Protocol):
    """A whole run; see `simulation.Outcome`."""

    @property
    def tracks(self) -> Sequence[JobTrack]: ...
    @property
    def windows(self) -> Sequence[Window]: ...


@dataclass(frozen=True, eq=False)
class Books:
    """A run in arrays: what each tenant completed and when, and what it paid and received."""

    tenant: FloatArray  # (completed,) index of the job's tenant
    end: FloatArray  # (completed,)
    elapsed: FloatArray  # (completed,) end - arrival
    value: FloatArray  # (completed,) f(end - arrival): the realised revenue
    begun: FloatArray  # (tenants,) worth to their owners of the done parts of jobs that were not finished
    paid: FloatArray  # (tenants,) payments less refunds
    received: FloatArray  # (owners,) payouts, a payer's own part included
    earned: FloatArray  # (owners,) payouts from others
    used: FloatArray  # (resources,) units x slots


def gathered(scenario: Scenario, outcome: RunOutcome) -> Books:
    """Return the books of a run."""
    completed = [track for track in outcome.tracks if track.state == AWARDED]
    owners = len(scenario.cluster.owners)
    paid, received, own_parts = np.zeros(owners - 1), np.zeros(owners), np.zeros(owners)
    for job, booking in bookings(outcome):
        paid[job.tenant] += booking.paid
        if booking.payouts is not None:
            received += booking.payouts
            own_parts[job.tenant] += booking.payouts[job.tenant]
    for track in outcome.tracks:
        if (settlement := track.settlement) is not None:  # what was refunded was neither paid nor received (K4)
            paid[track.job.tenant] -= settlement.refund
            received -= settlement.reversal
            own_parts[track.job.tenant] -= settlement.reversal[track.job.tenant]
    begun = np.zeros(owners - 1)
    for track in outcome.tracks:
        if track.state != AWARDED:
            begun[track.job.tenant] += track.worth
    end = np.array([_end(track) for track in completed], dtype=np.float64)
    return Books(
        tenant=np.array([track.job.tenant for track in completed], dtype=np.intp),
        end=end,
        elapsed=end - np.array([track.job.arrival for track in completed]),
        value=np.array([realised(track) for track in completed]),
        begun=begun,
        paid=paid,
        received=received,
        earned=received - own_parts,
        used=_used(scenario, outcome),
    )


def bookings(outcome: RunOutcome) -> Iterator[tuple[Job, Booking]]:
    """Return every booking of a run with its job."""
    return ((track.job, booking) for track in outcome.tracks for booking in track.bookings)


def _end(track: JobTrack) -> int:
    return max(booking.end for booking in track.bookings)


def realised(track: JobTrack) -> float:
    """Return f(end - arrival) of a finished job; for any other, the stored worth of what is done of it (D10)."""
    return float(track.job.value(_end(track) - track.job.arrival)) if track.state == AWARDED else track.worth


def net(track: JobTrack) -> float:
    """Return what a job brought its owner: its value, less what was paid for it and did not come back."""
    owner = track.job.tenant
    parts = (0.0 if booking.payouts is None else float(booking.payouts[owner]) for booking in track.bookings)
    paid = sum(booking.paid - part for booking, part in zip(track.bookings, parts, strict=True))
    if track.settlement is not None:
        paid -= track.settlement.refund - float(track.settlement.reversal[owner])
    return realised(track) - paid


def _used(scenario: Scenario, outcome: RunOutcome) -> FloatArray:
    """Return the units x slots of all bookings (resources,). There are few different demands, so units are counted for
    each demand first, and multiplied by it last."""
    units: Counter[int] = Counter()
    demands: dict[int, FloatArray] = {}
    for job, booking in bookings(outcome):
        worker = job.worker_types[booking.worker_type].demand
        ps = job.ps_types[booking.ps_type].demand
        demands[id(worker)], demands[id(ps)] = worker, ps
        for row in booking.allocation:
            units[id(worker)] += row.workers * (row.end - row.start)
            units[id(ps)] += row.ps * (row.end - row.start)
    used = np.zeros(len(scenario.cluster.resources))
    for key, amount in units.items():
        used += amount * demands[key]
    return used
