"""One window while it is being decided: what is taken in it, by whom, and what was awarded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

import numpy as np

from scheduling.core.occupancy import units_in_use
from scheduling.core.policies.astraea.candidates import Candidates, candidates
from scheduling.core.policies.astraea.pieces import Rest
from scheduling.core.policies.astraea.room import Room, within
from scheduling.core.policies.astraea.schedule import Shortfall
from scheduling.core.policies.astraea.settings import Settings
from scheduling.core.types import OWN, Allocation, Booking, Cluster, FloatArray, Job, View


class Round:
    """The state of one round. Everything starts from what the view holds occupied in the window; nothing else lasts."""

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
        self.use = occupied_between(view, start, end)  # (resources, slots, servers), of everybody
        self.allocated: FloatArray = self.use.sum(axis=2)  # (resources, slots)
        self.own_use: FloatArray = np.zeros((resources, tenants, self.slots))  # by phase one, and jobs at home
        self.room = self._room(self.use)
        self.awards: dict[int, Booking] = {}  # by job, those that finish it
        self.pieces: dict[int, Booking] = {}  # by job, those that leave something
        self.rests: dict[int, Rest] = dict(rests or {})  # of divisible jobs, after what was bought so far
        self.shortfalls: dict[int, Shortfall] = {}
        self.spent: FloatArray = view.spent.copy()  # (tenants,) with what this decision sells
        for booking in earlier:
            self.spent[view.jobs[booking.job].tenant] += booking.paid
        self.at_home: list[Booking] = []
        if settings.floor:
            self._cross(view.active, earlier)

    def copy(self) -> Round:
        """The same state, in which something else may be sold."""
        other = copy(self)
        for name in ("use", "allocated", "own_use", "room", "awards", "shortfalls", "spent", "at_home"):
            setattr(other, name, getattr(self, name).copy())
        other.pieces, other.rests = dict(self.pieces), dict(self.rests)
        return other

    def ways(self, job: Job) -> Candidates:
        """How the job may be finished."""
        exact = self.settings.workers == "exact"
        if job.number in self.rests:
            return self.rests[job.number].ways(self.cluster, exact=exact)
        return candidates(job, self.cluster, exact=exact)

    def values(self, job: Job) -> FloatArray:
        """(slots,) what the job is worth if it ends with the window's 1st, 2nd, ... slot (R16, G8)."""
        since = self.start if self.settings.value_from == "round_start" else job.arrival
        return np.asarray(job.value(np.arange(self.start + 1, self.end + 1) - since), dtype=np.float64)

    def funds_left(self, tenant: int) -> float:
        """Credits the tenant can still pay, whatever it allows; infinite where the view sets no limit."""
        if self.view.funds is None:
            return np.inf
        return float(self.view.funds[tenant] - (self.spent[tenant] - self.view.spent[tenant]))

    def least_used(self) -> FloatArray | None:
        """(servers,) units in use in the window, where that breaks ties between servers."""
        return self.use.sum(axis=(0, 1)) if self.settings.server_choice == "least_used" else None

    def take(self, rows: Iterable[Allocation], worker: FloatArray, ps: FloatArray, sign: int = 1) -> FloatArray:
        """Use (or give back) rows counted from the window's beginning; (resources, slots) amounts."""
        rows = list(rows)
        for row in rows:
            self.use[:, row.start : row.end, row.server] += sign * (row.workers * worker + row.ps * ps)[:, None]
        self.room.take(rows, worker, ps, sign)
        used = sign * units_in_use(rows, worker, ps, 0, self.slots)
        self.allocated += used
        return used

    def take_home(self, job: Job, booking: Booking, sign: int = 1) -> None:
        """The part of a phase-one booking that lies in the window is used (or given back) by its owner."""
        rows = within(booking.allocation, self.start, self.end)
        self.own_use[:, job.tenant] += self.take(rows, *demands(job, booking), sign)
        if sign > 0:
            self.at_home.append(booking)

    def _cross(self, active: Iterable[Booking], earlier: Iterable[Booking]) -> None:
        """Jobs at home that began before the window count as their owner's use (G4); the earlier rounds of this
        batch are not yet in the view's occupied amounts."""
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
        """Leave (resources, slots, servers) amounts out of the room that renters find."""
        self.room = self._room(self.use + amounts)

    def _room(self, use: FloatArray) -> Room:
        free = self.cluster.capacity[:, None, :] - use
        return Room(free, self.cluster.hosts_workers, self.cluster.hosts_ps)


def cells_of(cluster: Cluster, tenant: int) -> FloatArray:
    """(resources, servers) a tenant's home cells; the floor needs them."""
    if cluster.cells is None:
        raise ValueError("the guarantee needs home cells: a mere count of units does not say which servers are whose")
    return cluster.cells[:, tenant]


def demands(job: Job, booking: Booking) -> tuple[FloatArray, FloatArray]:
    """What one worker and one parameter server of a booking take, (resources,) each."""
    return job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand


def occupied_between(view: View, start: int, end: int) -> FloatArray:
    """(resources, slots, servers) what the view holds occupied in the slots [start, end)."""
    resources, servers = view.cluster.capacity.shape
    occupied = np.zeros((resources, end - start, servers))
    if view.tail is not None:
        occupied += view.tail[:, None, :]
    part = view.occupied[:, start - view.slot : end - view.slot]
    occupied[:, : part.shape[1]] = part
    return occupied
