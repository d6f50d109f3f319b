"""The calendar of a cluster: the amounts that are occupied, slot by slot and server by server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby

import numpy as np

from scheduling.core.types import Allocation, Booking, Cluster, Demand, FloatArray, Job, read_only

ROUNDING = 1e-9  # amounts are sums of decimals; capacity is never exceeded by more than this


FEW = 4  # at most this many rows are placed faster one by one


class CapacityExceeded(ValueError):
    """A plan gave out more than there is. The policy has then broken its promise; it is not a refusal."""


def room(free: FloatArray, demand: FloatArray) -> FloatArray:
    """Return how many whole units of `demand` (resources,) fit into `free` (resources, ...): the scarcest resource
    decides.

    Resources that the demand does not name never bind; a demand of nothing at all has no limit (infinity).
    """
    named = (demand > 0).nonzero()[0]
    if len(named) == 0:
        return np.full(free.shape[1:], np.inf)
    if len(named) == 1:
        return np.floor(free[named[0]] / demand[named[0]] + ROUNDING)
    needed = demand[named].reshape(-1, *([1] * (free.ndim - 1)))
    return np.floor(free[named] / needed + ROUNDING).min(axis=0)


def fits(demand: Demand, free: Sequence[float]) -> bool:
    """Return whether a server with the `free` amount of each resource has room for a unit."""
    for resource, amount in demand:  # noqa: SIM110 - called for every unit; `all` takes twice as long
        if free[resource] < amount:
            return False
    return True


class Occupancy:
    """Occupied amounts, (resources, slots, servers), from slot `origin` on. It grows as bookings reach further."""

    def __init__(self, cluster: Cluster, origin: int = 0) -> None:
        self.capacity = cluster.capacity
        self._limit = cluster.capacity + ROUNDING
        self.origin = origin
        self._amounts = np.zeros((len(cluster.resources), 64, len(cluster.servers)))
        self._reach = 0  # slots from the origin that may hold something

    def window(self, slot: int) -> FloatArray:
        """Return what is occupied from `slot` to the last occupied slot, (resources, slots, servers); it is read-only
        and not a copy."""
        window = self._amounts[:, slot - self.origin : max(self._reach, slot - self.origin)]
        window.setflags(write=False)
        return window

    def fill(self, amounts: FloatArray) -> None:
        """Set the occupied amounts (resources, slots, servers) from the origin on."""
        self._reserve(self.origin + amounts.shape[1])
        self._amounts[:, : amounts.shape[1]] = amounts

    def add(self, resource: int, slot: int, server: int, amount: float) -> None:
        """Occupy an amount that belongs to no booking."""
        self._reserve(slot + 1)
        self._amounts[resource, slot - self.origin, server] += amount
        if self._amounts[resource, slot - self.origin, server] > self._limit[resource, server]:
            raise self._exceeded(slice(slot - self.origin, slot - self.origin + 1), server)

    def place_all(self, jobs: Sequence[Job], bookings: Sequence[Booking]) -> None:
        """Occupy what bookings take, one after the other; raise as `place` does."""
        for (start, end), group in groupby(zip(jobs, bookings, strict=True), key=_period):
            together = list(group)
            if end - start > 1 or len(together) == 1 or not self._place_in_slot(start, together):
                for job, booking in together:
                    self.place(job, booking)

    def _place_in_slot(self, slot: int, pairs: Sequence[tuple[Job, Booking]]) -> bool:
        """Occupy all units of one slot at once; the sums are the same, unit by unit in the same order. Return False and
        change nothing if a row is not for this slot alone, or if they do not fit: placing them one by one then finds
        the server that is full."""
        self._reserve(slot + 1)
        rows = [row for _, booking in pairs for row in booking.allocation]
        end = slot + 1
        counts = [(row.server, row.workers, row.ps) for row in rows if row.start == slot and row.end == end]
        if len(counts) < len(rows):
            return False
        units = np.fromiter(chain.from_iterable(counts), np.int64, 3 * len(rows)).reshape(len(rows), 3)
        kinds = [
            (job.worker_types[booking.worker_type].amounts, job.ps_types[booking.ps_type].amounts)
            for job, booking in pairs
        ]
        demand = np.repeat(np.array(kinds), [len(booking.allocation) for _, booking in pairs], axis=0)
        amounts = units[:, 1, None] * demand[:, 0] + units[:, 2, None] * demand[:, 1]  # (rows, resources)
        held = self._amounts[:, slot - self.origin].copy()
        for resource in range(len(held)):
            np.add.at(held[resource], units[:, 0], amounts[:, resource])
        if (held > self._limit)[:, units[:, 0]].any():
            return False
        self._amounts[:, slot - self.origin] = held
        return True

    def place(self, job: Job, booking: Booking) -> None:
        """Occupy what a booking takes; raise `CapacityExceeded` if a server's capacity is exceeded in some slot."""
        self._reserve(booking.end)
        if len(booking.allocation) > FEW and self._place_at_once(job, booking):
            return
        for row, slots, demand in self._rows(job, booking, booking.allocation):
            held = self._amounts[:, slots, row.server]
            held += demand[:, None]
            if (held > self._limit[:, row.server, None]).any():
                raise self._exceeded(slots, row.server)

    def _place_at_once(self, job: Job, booking: Booking) -> bool:
        """Occupy all rows of a booking at once. Return False and change nothing if their slots differ, if a server is
        named twice, or if they do not fit."""
        rows, first = booking.allocation, booking.allocation[0]
        servers = [row.server for row in rows]
        if len(set(servers)) < len(rows) or any(row.start != first.start or row.end != first.end for row in rows):
            return False
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        units = np.array([(row.workers, row.ps) for row in rows], dtype=np.float64)
        slots = slice(first.start - self.origin, first.end - self.origin)
        held = self._amounts[:, slots, servers] + (units[:, :1] * worker + units[:, 1:] * ps).T[:, None, :]
        if (held > self._limit[:, None, servers]).any():
            return False  # placing the rows one by one finds the server that is full
        self._amounts[:, slots, servers] = held
        return True

    def release(self, job: Job, booking: Booking, start: int) -> None:
        """Release what a booking holds from slot `start` on."""
        for row, slots, demand in self._rows(job, booking, booking.allocation, start):
            self._amounts[:, slots, row.server] -= demand[:, None]

    def forget_before(self, slot: int) -> None:
        """Drop slots that have passed, once they make up half of what is kept."""
        passed = slot - self.origin
        if 2 * passed > self._amounts.shape[1]:
            rest = self._amounts[:, passed:]
            self._amounts = np.concatenate([rest, np.zeros_like(self._amounts[:, :passed])], axis=1)
            self.origin, self._reach = slot, max(0, self._reach - passed)

    def _rows(
        self, job: Job, booking: Booking, allocation: Iterable[Allocation], start: int = -1
    ) -> Iterable[tuple[Allocation, slice, FloatArray]]:
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        for row in allocation:
            slots = slice(max(row.start, start) - self.origin, max(row.end, start) - self.origin)
            yield row, slots, row.workers * worker + row.ps * ps

    def _reserve(self, end: int) -> None:
        needed = end - self.origin
        self._reach = max(self._reach, needed)
        if needed > self._amounts.shape[1]:
            resources, slots, servers = self._amounts.shape
            grown = np.zeros((resources, max(needed, 2 * slots), servers))
            grown[:, :slots] = self._amounts
            self._amounts = grown

    def _exceeded(self, slots: slice, server: int) -> CapacityExceeded:
        """Return an error that names the first amount of a server above its capacity."""
        resource, slot = np.argwhere(self._amounts[:, slots, server] > self._limit[:, server, None])[0]
        return CapacityExceeded(
            f"server {server}, resource {resource}, slot {self.origin + slots.start + slot}: "
            f"{self._amounts[resource, slots.start + slot, server]:g} of {self.capacity[resource, server]:g}"
        )


def _period(pair: tuple[Job, Booking]) -> tuple[int, int]:
    """Return the first slot of a booking and its end."""
    return pair[1].start, pair[1].end


def units_in_use(
    allocation: Iterable[Allocation], worker: FloatArray, ps: FloatArray, start: int, end: int
) -> FloatArray:
    """Return the amounts that an allocation takes of the whole cluster in the slots [start, end), (resources, end -
    start)."""
    used = np.zeros((len(worker), end - start))
    for row in allocation:
        used[:, max(row.start - start, 0) : max(row.end - start, 0)] += (row.workers * worker + row.ps * ps)[:, None]
    return read_only(used)
