"""One reservation calendar for both lanes (rules C1 to C9 of the instant lane).

The cluster is cut in two, server by server. The *home pool* is every tenant's cells: the batch lane plans it, and
the instant lane may sell what the plan leaves, but only before the *frontier*, the first slot that a later batch plan
may still touch. The *operator pool* is the rest: the instant lane sells it in any slot. So a batch plan finds the same
home pool whether anybody uses the instant lane or not.

The instant lane sees each of n servers twice: the operator part of server i at index i, its home part at index i + n.
A tenant's job may have the tenant's own idle cells there before the frontier for nothing, as in the batch lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import Occupancy
from scheduling.core.parts import Parts
from scheduling.core.types import BATCH, INSTANT, OWN, Allocation, Booking, Cluster, FloatArray, Job, Plan, Window

Servers = slice | npt.NDArray[np.intp]  # a selection of servers
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Stage:
    """The part of the calendar that one lane may see at a slot; the fields are those of `View`."""

    cluster: Cluster
    occupied: FloatArray  # (resources, slots, servers)
    tail: FloatArray | None
    windows: tuple[Window, ...]


class Single:
    """The calendar of a cluster with one lane, in which every job may use all units."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.occupancy = Occupancy(cluster)
        self.windows: list[Window] = []

    def stage(self, lane: str, slot: int) -> Stage:
        """Return the whole calendar from `slot` on."""
        del lane
        windows = tuple(window for window in self.windows if window.end > slot)
        return Stage(self.cluster, self.occupancy.window(slot), None, windows)

    def place_all(self, lane: str, jobs: Sequence[Job], bookings: Sequence[Booking]) -> Sequence[Booking]:
        """Enter a plan's bookings; raise `CapacityExceeded` if they do not fit."""
        del lane
        self.occupancy.place_all(jobs, bookings)
        return bookings

    def take(self, resource: int, slot: int, server: int, amount: float) -> None:
        """Occupy an amount that belongs to no booking."""
        self.occupancy.add(resource, slot, server, amount)

    def publish(self, lane: str, slot: int, plan: Plan) -> None:
        """Store the windows of a plan."""
        del lane, slot
        self.windows.extend(plan.windows)

    def forget_before(self, slot: int) -> None:
        """Drop slots that have passed."""
        self.occupancy.forget_before(slot)
        self.windows = [window for window in self.windows if window.end > slot]


class Shared:
    """The calendar of a cluster with a batch and an instant lane."""

    def __init__(self, parts: Parts, origin: int = 0) -> None:
        self.cluster, self.cells = parts.whole, parts.cells
        self.home, self.counter = parts.home, parts.counter
        self.frontier = 0
        self.windows: list[Window] = []
        self.home_all = Occupancy(self.home, origin)  # both lanes
        self.home_batch = Occupancy(self.home, origin)
        self.operator_instant = Occupancy(parts.operator, origin)
        self._own_use: dict[tuple[str, int], Occupancy] = {}

    def own_use(self, tenant: int, lane: str = BATCH) -> Occupancy:
        """Return what a tenant's own jobs of one lane hold of its own cells, free of charge. Contributions follow from
        the own use of the batch lane alone (C12)."""
        if (lane, tenant) not in self._own_use:  # most tenants have none
            cells = replace(self.cluster, capacity=self.cells[:, tenant])
            self._own_use[lane, tenant] = Occupancy(cells, self.home_all.origin)
        return self._own_use[lane, tenant]

    def stage(self, lane: str, slot: int) -> Stage:
        """Return the home pool for the batch lane; for the instant lane only what may be sold."""
        if lane == BATCH:
            return Stage(self.home, self.home_batch.window(slot), None, tuple(self.windows))
        return self.for_sale(slot)

    def for_sale(self, slot: int, until: int | None = None) -> Stage:
        """Return what the instant lane may sell from `slot` on. `occupied` covers slots before `until` only."""
        windows = self._offered_windows(slot)
        return Stage(self.counter, *self._counter_occupied(slot, until, windows), windows)

    def own_idle(self, tenant: int, slot: int, given_up: FloatArray | None = None) -> FloatArray:
        """Return what a tenant may have of its own cells up to the frontier, (resources, slots, servers of the
        counter): what its own jobs leave of them and nobody has bought.

        On a server with several owners no unit belongs to one of them by name. The tenant may have what is free there,
        up to the number of its idle cells, except for what the others keep back, and for the units `given_up`
        (resources, slots, servers) by a tenant that has paid for them.
        """
        slots, servers = max(self.frontier - slot, 0), len(self.cluster.servers)
        places = np.zeros((len(self.cluster.resources), slots, 2 * servers))
        has_cells = np.flatnonzero(self.cells[:, tenant].any(axis=0))  # a few of thousands
        free = self.home.capacity[:, None, has_cells] - _first(self.home_all, slot, slots, has_cells)
        if given_up is not None:
            free -= given_up[..., has_cells]
        windows = [window for window in self.windows if window.end > slot]
        for other in range(len(self.cluster.tenants)):
            if other != tenant and (reserve := self._kept_back(other, slot, slots, windows)).any():
                free -= self._idle(other, slot, slots, has_cells) * reserve[None, :, None]
        own_idle = np.minimum(self._idle(tenant, slot, slots, has_cells), free).clip(min=0.0)
        places[..., servers + has_cells] = own_idle
        places.setflags(write=False)
        return places

    def free(self, start: int, end: int) -> FloatArray:
        """Return the amounts that neither lane holds in the slots [start, end), (resources, slots, servers)."""
        free = np.repeat(self.cluster.capacity[:, None, :], end - start, axis=1)
        for occupancy in (self.home_all, self.operator_instant):
            held = occupancy.window(start)[:, : end - start]
            free[:, : held.shape[1]] -= held
        return free

    def place_all(self, lane: str, jobs: Sequence[Job], bookings: Sequence[Booking]) -> Sequence[Booking]:
        """Enter a plan's bookings one after the other."""
        return [self.place(lane, job, booking) for job, booking in zip(jobs, bookings, strict=True)]

    def place(self, lane: str, job: Job, booking: Booking) -> Booking:
        """Enter a booking on its pool, checked against what both lanes hold, and return it with real servers."""
        if lane == BATCH:
            self.home_all.place(job, booking)
            self.home_batch.place(job, booking)
            if booking.phase == OWN:
                self.own_use(job.tenant).place(job, booking)
            return booking
        operator, home = counter_parts(booking, len(self.cluster.servers))
        if any(row.end > self.frontier for row in home):
            raise ValueError(f"job {job.number}: home cells are not for sale from slot {self.frontier} on")
        if operator and booking.phase == OWN:
            raise ValueError(f"job {job.number}: the operator's units are nobody's own")
        self.operator_instant.place(job, replace(booking, allocation=tuple(operator)))
        self.home_all.place(job, replace(booking, allocation=tuple(home)))
        if booking.phase == OWN:
            self.own_use(job.tenant, INSTANT).place(job, replace(booking, allocation=tuple(home)))
        return on_real_servers(booking, len(self.cluster.servers))

    def take(self, resource: int, slot: int, server: int, amount: float) -> None:
        """Occupy an amount of the operator's that belongs to no booking."""
        self.operator_instant.add(resource, slot, server, amount)

    def publish(self, lane: str, slot: int, plan: Plan) -> None:
        """Store the windows and the frontier of a batch plan; a frontier never moves back."""
        if lane == INSTANT:
            return
        self.windows.extend(plan.windows)
        self.frontier = max(self.frontier, slot + 1 if plan.frontier is None else plan.frontier)

    def forget_before(self, slot: int) -> None:
        """Drop slots that have passed."""
        for occupancy in (self.home_all, self.home_batch, self.operator_instant, *self._own_use.values()):
            occupancy.forget_before(slot)
        self.windows = [window for window in self.windows if window.end > slot]

    def _counter_occupied(
        self, slot: int, until: int | None, windows: Sequence[Window]
    ) -> tuple[FloatArray, FloatArray]:
        """Return (occupied from `slot`, tail) of the counter; home parts count as full from the frontier on."""
        servers = len(self.cluster.servers)
        operator = self.operator_instant.window(slot)
        sold_until = max(self.frontier - slot, 0)
        reach = max(operator.shape[1], sold_until)
        if until is not None:
            reach = min(reach, until - slot)
            operator, sold_until = operator[:, :reach], min(sold_until, reach)
        occupied = np.zeros((len(self.cluster.resources), reach, 2 * servers))
        occupied[:, : operator.shape[1], :servers] = operator
        occupied[:, sold_until:, servers:] = self.counter.capacity[:, None, servers:]
        self._home_taken(slot, windows, occupied[:, :sold_until, servers:])
        occupied.setflags(write=False)
        tail = np.zeros(self.counter.capacity.shape)
        tail[:, servers:] = self.counter.capacity[:, servers:]
        return occupied, tail

    def _home_taken(self, slot: int, windows: Sequence[Window], use: FloatArray) -> None:
        """Set `use` (resources, slots, servers), which is all zeros, to what is not for sale of the lenders' cells: it
        is in use, sold, or held back below a reserve price."""
        slots, held = use.shape[1], self.home_all.window(slot)
        use[:, : held.shape[1]] = held[:, :slots]
        for index, tenant in enumerate(self.cluster.tenants):
            if tenant.lend != "lend":
                use -= self._used_by(index, slot, slots)  # its cells are not part of the counter at all
            elif (reserve := self._kept_back(index, slot, slots, windows)).any():
                use += self._idle(index, slot, slots) * reserve[None, :, None]
        np.minimum(use, self.counter.capacity[:, None, len(self.cluster.servers) :], out=use)

    def _used_by(self, tenant: int, slot: int, slots: int, servers: Servers = ALL) -> FloatArray:
        """Return what a tenant's own jobs of both lanes hold of its own cells, (resources, slots, servers)."""
        used = np.zeros((len(self.cluster.resources), slots, self.cells[0, 0, servers].size))
        for lane in (BATCH, INSTANT):
            if (occupancy := self._own_use.get((lane, tenant))) is not None:
                used += _first(occupancy, slot, slots, servers)
        return used

    def _idle(self, tenant: int, slot: int, slots: int, servers: Servers = ALL) -> FloatArray:
        """Return what a tenant's own jobs of both lanes leave of its own cells, (resources, slots, servers)."""
        idle: FloatArray = self.cells[:, tenant, servers][:, None, :] - self._used_by(tenant, slot, slots, servers)
        return idle

    def _kept_back(self, tenant: int, slot: int, slots: int, windows: Sequence[Window]) -> FloatArray:
        """Return 1 for each slot (slots,) in which the tenant sells nothing, since it keeps its cells or its reserve
        price is above the published price; else 0."""
        if self.cluster.tenants[tenant].lend != "lend":
            return np.ones(slots)
        if not self.cluster.tenants[tenant].reserve_price.any():
            return np.zeros(slots)
        return self._held_back(tenant, slot, slots, windows)

    def _held_back(self, tenant: int, slot: int, slots: int, windows: Sequence[Window]) -> FloatArray:
        """Return 1 for each slot (slots,) in which the published price of a resource is below the tenant's reserve
        price; else 0."""
        reserve = self.cluster.tenants[tenant].reserve_price
        posted = np.zeros((len(self.cluster.resources), slots))
        for window in windows:
            begin, end = max(window.start, slot), min(window.end, slot + slots)
            posted[:, begin - slot : end - slot] = window.prices[:, begin - window.start : end - window.start]
        return (posted < reserve[:, None] - 1e-12).any(axis=0).astype(float)

    def _offered_windows(self, slot: int) -> tuple[Window, ...]:
        """Return the published windows with only what is for sale; slots that no plan covers get an empty window."""
        windows = sorted((window for window in self.windows if window.end > slot), key=lambda window: window.start)
        offered, begin = [], slot
        for window in windows:
            if window.start > begin:
                offered.append(self._empty_window(begin, min(window.start, self.frontier)))
            offered.append(self._without_held_back(window))
            begin = window.end
        if begin < self.frontier:
            offered.append(self._empty_window(begin, self.frontier))
        return tuple(window for window in offered if window.end > window.start)

    def _empty_window(self, start: int, end: int) -> Window:
        """Return a batch window in which nothing was planned: all that the tenants do not use at home is idle."""
        slots = max(end - start, 0)
        idle = np.zeros((len(self.cluster.resources), len(self.cluster.owners), slots))
        lenders = [index for index, tenant in enumerate(self.cluster.tenants) if tenant.lend == "lend"]
        cells = self.cells[:, lenders].copy()
        cells[..., self.cluster.closed] = 0.0
        idle[:, lenders] = cells.sum(axis=2)[:, :, None]  # right for most tenants, who use nothing at home
        for index in lenders:
            if (own_use := self._own_use.get((BATCH, index))) is not None:
                unused = self.cells[:, index, None, :] - _first(own_use, start, slots)
                unused[..., self.cluster.closed] = 0.0
                idle[:, index] = unused.sum(axis=2)
        nothing = np.zeros((len(self.cluster.resources), slots))
        return self._without_held_back(Window(start, start + slots, nothing, idle, nothing))

    def _without_held_back(self, window: Window) -> Window:
        idle = window.idle.copy()
        for index, tenant in enumerate(self.cluster.tenants):
            if tenant.reserve_price.any():
                idle[:, index] *= 1.0 - self._held_back(index, window.start, window.end - window.start, [window])
        return replace(window, idle=idle)


def counter_parts(booking: Booking, servers: int) -> tuple[list[Allocation], list[Allocation]]:
    """Return (operator's rows, home rows) of a booking on the counter's servers, as rows on the `servers` real ones."""
    operator = [row for row in booking.allocation if row.server < servers]
    home = [replace(row, server=row.server - servers) for row in booking.allocation if row.server >= servers]
    return operator, home


def on_real_servers(booking: Booking, servers: int) -> Booking:
    """Return the same booking on real servers, with its rows on the two parts of a server added up."""
    operator, home = counter_parts(booking, servers)
    return replace(booking, allocation=_sum_of_parts([*operator, *home]))


def _first(occupancy: Occupancy, slot: int, slots: int, servers: Servers = ALL) -> FloatArray:
    """Return a copy of the occupied amounts in `slots` slots from `slot` on, (resources, slots, servers)."""
    held = occupancy.window(slot)[:, :slots, servers]
    whole = np.zeros((held.shape[0], slots, held.shape[2]))
    whole[:, : held.shape[1]] = held
    return whole


def _sum_of_parts(rows: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Return the rows of the two parts of each server added up, cut where either changes."""
    sums: list[Allocation] = []
    for server in sorted({row.server for row in rows}):
        here = [row for row in rows if row.server == server]
        cuts = sorted({row.start for row in here} | {row.end for row in here})
        for start, end in pairwise(cuts):
            covering = [row for row in here if row.start <= start and row.end >= end]
            if covering:
                workers, ps = sum(row.workers for row in covering), sum(row.ps for row in covering)
                sums.append(Allocation(server, start, end, workers, ps))
    return tuple(sums)
