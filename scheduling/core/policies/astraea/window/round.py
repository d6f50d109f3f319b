"""The state of one window while it is decided: what is in use in it, by whom, and what was awarded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

import numpy as np

from scheduling.core.occupancy import units_in_use
from scheduling.core.policies.astraea.places.room import Room, within
from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.policies.astraea.schedules.schedule import Shortfall
from scheduling.core.policies.astraea.ways.candidates import Candidates, candidates
from scheduling.core.policies.astraea.ways.rests import Rest
from scheduling.core.types import OWN, Allocation, Booking, Cluster, FloatArray, Job, View


class Round:
    """The state of one round. It starts from what the view holds occupied in the window, and from the bookings of
    `earlier` rounds of the same boundary. It does not outlast the decision."""

    def __init__(
        self,
        settings: Settings,
        view: View,
        start: int,
        end: int,
        earlier: Sequence[Booking] = (),
        rests: Mapping[int, Rest] | None = None,
    ) -> None:
        self.settings, self.view, self.cluster = settings, view, view.cluster
        self.start, self.end, self.slots = start, end, end - start
        resources, tenants = self.cluster.quota.shape
        self.use = occupied_between(view, start, end)  # (resources, slots, servers), in use by any tenant
        self.allocated: FloatArray = self.use.sum(axis=2)  # (resources, slots)
        self.own_use: FloatArray = np.zeros((resources, tenants, self.slots))  # of phase one and jobs at home
        self.room = self._room(self.use)
        self.awards: dict[int, Booking] = {}  # by job, bookings that finish it
        self.pieces: dict[int, Booking] = {}  # by job, bookings that leave a part of it to do
        self.rests: dict[int, Rest] = dict(rests or {})  # by divisible job, what is not yet booked of it
        self.shortfalls: dict[int, Shortfall] = {}
        self.spent: FloatArray = view.spent.copy()  # (tenants,) credits, including what this decision sells
        for booking in earlier:
            self.spent[view.jobs[booking.job].tenant] += booking.paid
        self.at_home: list[Booking] = []
        if settings.floor:
            self._cross(view.active, earlier)

    def copy(self) -> Round:
        """Return a copy of the state, in which other things may be sold."""
        other = copy(self)
        for name in ("use", "allocated", "own_use", "room", "awards", "shortfalls", "spent", "at_home"):
            setattr(other, name, getattr(self, name).copy())
        other.pieces, other.rests = dict(self.pieces), dict(self.rests)
        return other

    def ways(self, job: Job) -> Candidates:
        """Return the ways in which the job, or what is left of it, may be finished."""
        exact = self.settings.workers == "exact"
        if job.number in self.rests:
            return self.rests[job.number].ways(self.cluster, exact=exact)
        return candidates(job, self.cluster, exact=exact)

    def values(self, job: Job) -> FloatArray:
        """Return (slots,) what the job is worth if it ends with the window's 1st, 2nd, ... slot (R16, G8)."""
        since = self.start if self.settings.value_from == "round_start" else job.arrival
        return np.asarray(job.value(np.arange(self.start + 1, self.end + 1) - since), dtype=np.float64)

    def paid_before(self, job: Job) -> float:
        """Return the credits that the job has paid so far: for pieces, and for runs that the platform lost."""
        pieces = self.rests[job.number].paid if job.number in self.rests else 0.0
        return pieces + self.view.paid_for_lost.get(job.number, 0.0)

    def funds_left(self, tenant: int) -> float:
        """Return the credits that the tenant has left, apart from its own limits; infinite where the view sets none."""
        if self.view.funds is None:
            return np.inf
        return float(self.view.funds[tenant] - (self.spent[tenant] - self.view.spent[tenant]))

    def least_used(self) -> FloatArray | None:
        """Return (servers,) the units in use in the window, if that breaks ties between servers, else None."""
        return self.use.sum(axis=(0, 1)) if self.settings.server_choice == "least_used" else None

    def take(self, rows: Iterable[Allocation], worker: FloatArray, ps: FloatArray, sign: int = 1) -> FloatArray:
        """Use the rows, or give them back with sign -1. Their slots count from the window's beginning. Return the
        amounts (resources, slots)."""
        rows = list(rows)
        for row in rows:
            self.use[:, row.start : row.end, row.server] += sign * (row.workers * worker + row.ps * ps)[:, None]
        self.room.take(rows, worker, ps, sign)
        used = sign * units_in_use(rows, worker, ps, 0, self.slots)
        self.allocated += used
        return used

    def take_home(self, job: Job, booking: Booking, sign: int = 1) -> None:
        """Count the part of a phase-one booking that lies in the window as used by its owner, or give it back."""
        rows = within(booking.allocation, self.start, self.end)
        self.own_use[:, job.tenant] += self.take(rows, *demands(job, booking), sign)
        if sign > 0:
            self.at_home.append(booking)

    def _cross(self, active: Iterable[Booking], earlier: Iterable[Booking]) -> None:
        """Count jobs at home that began before the window as their owner's use (G4). Those of this batch's earlier
        rounds also take room, as they are not yet in the view's occupied amounts."""
        for booking in active:
            if booking.phase == OWN and booking.end > self.start:
                self.at_home.append(booking)
                job = self.view.jobs[booking.job]
                used = units_in_use(booking.allocation, *demands(job, booking), self.start, self.end)
                self.own_use[:, job.tenant] += used
        for booking in earlier:
            if booking.phase == OWN and booking.end > self.start:
                self.take_home(self.view.jobs[booking.job], booking)

    def withhold(self, amounts: FloatArray) -> None:
        """Take amounts (resources, slots, servers) out of the room that renters find."""
        self.room = self._room(self.use + amounts)

    def _room(self, use: FloatArray) -> Room:
        free = self.cluster.capacity[:, None, :] - use
        return Room(free, self.cluster.hosts_workers, self.cluster.hosts_ps)


def cells_of(cluster: Cluster, tenant: int) -> FloatArray:
    """Return (resources, servers) a tenant's home cells, which the floor needs."""
    if cluster.cells is None:
        raise ValueError("the guarantee needs home cells: a mere count of units does not say which servers are whose")
    return cluster.cells[:, tenant]


def demands(job: Job, booking: Booking) -> tuple[FloatArray, FloatArray]:
    """Return what one worker and one parameter server of a booking take, (resources,) each."""
    return job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand


def occupied_between(view: View, start: int, end: int) -> FloatArray:
    """Return (resources, slots, servers) what the view holds occupied in the slots [start, end)."""
    resources, servers = view.cluster.capacity.shape
    occupied = np.zeros((resources, end - start, servers))
    if view.tail is not None:
        occupied += view.tail[:, None, :]
    part = view.occupied[:, start - view.slot : end - view.slot]
    occupied[:, : part.shape[1]] = part
    return occupied
