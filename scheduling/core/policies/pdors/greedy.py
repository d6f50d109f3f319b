"""Gangs on several servers without a solver: one kind of unit goes on the cheapest servers, then the other kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import room
from scheduling.core.policies.pdors.work import IntArray
from scheduling.core.types import FloatArray

Indices = npt.NDArray[np.intp]
MOST_UNITS = 2.0**31  # the most units of one kind on one server


@dataclass(frozen=True, eq=False)
class SlotUnits:
    """One kind of unit in one slot, by server."""

    demand: FloatArray  # (resources,)
    hosts: npt.NDArray[np.bool_]  # (servers,)
    price: FloatArray  # (servers,) credits per unit: the measure that is minimised
    other: FloatArray  # (servers,) the same in the other measure (net price and price)
    room: FloatArray  # (servers,) whole units that fit while none of the other kind is there
    rank: FloatArray  # (servers,) breaks ties of the price
    order: Indices  # (servers,) the servers, the cheapest first


def units_of(
    demand: FloatArray,
    hosts: npt.NDArray[np.bool_],
    prices: FloatArray,
    others: FloatArray,
    free: FloatArray,
    *,
    last_first: bool,
) -> SlotUnits:
    """Return the units of `demand` (resources,). `prices`, `others` (the prices in the other measure) and `free`
    amounts are (resources, servers).

    Of equally dear servers workers take the first, and with `last_first` parameter servers take the last, so that the
    two kinds seldom compete for a server.
    """
    fits = np.where(hosts, _whole(free, demand), 0.0)
    rank = np.arange(len(hosts), dtype=np.float64) * (-1.0 if last_first else 1.0)
    price = demand @ prices
    return SlotUnits(demand, hosts, price, demand @ others, np.maximum(fits, 0.0), rank, np.lexsort((rank, price)))


@dataclass(frozen=True, eq=False)
class Filling:
    """Where the two kinds of units go, for several numbers of both, and what that costs."""

    cost: FloatArray  # (numbers,) infinite where the units do not fit
    other: FloatArray  # (numbers,) the same in the other measure
    first_servers: Indices
    first_units: FloatArray  # (numbers, servers)
    second_servers: Indices
    second_units: FloatArray


def fill(first: SlotUnits, second: SlotUnits, firsts: IntArray, seconds: IntArray, free: FloatArray) -> Filling:
    """Put `firsts` units on the cheapest servers, then `seconds` units of the other kind where there is room left.

    Both numbers rise. Only servers that one of the numbers reaches are considered. Among equally dear servers the
    second kind prefers those that hold units of the first, so that a gang stays together.
    """
    lead = _reached(first.order, first.room, int(firsts[-1]))
    first_units = _dealt(firsts, np.broadcast_to(first.room[lead], (len(firsts), len(lead))))
    rest = free[:, lead][:, None, :] - first.demand[:, None, None] * first_units
    beside = np.where(second.hosts[lead], np.maximum(_whole(rest, second.demand), 0.0), 0.0)
    outside = np.ones(len(first.room), dtype=np.bool_)
    outside[lead] = False
    others = second.order[outside[second.order]]
    others = _reached(others, second.room, int(seconds[-1]))
    servers = np.concatenate([lead, others])
    rooms = np.concatenate([beside, np.broadcast_to(second.room[others], (len(firsts), len(others)))], axis=1)
    order = np.lexsort((second.rank[servers], outside[servers], second.price[servers]))
    servers, rooms = servers[order], rooms[:, order]
    second_units = _dealt(seconds, rooms)
    cost = first_units @ first.price[lead] + second_units @ second.price[servers]
    other = first_units @ first.other[lead] + second_units @ second.other[servers]
    short = (first_units.sum(axis=1) < firsts) | (second_units.sum(axis=1) < seconds)
    cost, other = (np.where(short, np.inf, of_units) for of_units in (cost, other))
    return Filling(cost, other, lead, first_units, servers, second_units)


def _whole(free: FloatArray, demand: FloatArray) -> FloatArray:
    """Return the whole units that fit. Of units that take nothing, that is more than any gang has."""
    return np.minimum(room(free, demand), MOST_UNITS)


def _reached(order: Indices, rooms: FloatArray, most: int) -> Indices:
    """Return the first servers with room in the order, as many as `most` units need."""
    order = order[rooms[order] > 0]
    before = np.cumsum(rooms[order]) - rooms[order]
    return order[before < most]


def _dealt(numbers: IntArray, rooms: FloatArray) -> FloatArray:
    """Return (numbers, servers) the units on each server if each is filled before the next. `rooms` has that shape."""
    before = np.cumsum(rooms, axis=1) - rooms
    return np.clip(numbers[:, None] - before, 0.0, rooms)


@dataclass(frozen=True, eq=False)
class GangSpread:
    """Gangs of rising size on several servers: their costs, and where they would be placed."""

    ps_first: Filling
    workers_first: Filling

    @property
    def cost(self) -> FloatArray:
        """Return (gangs,) the cost in the cheaper of the two orders."""
        return np.minimum(self.ps_first.cost, self.workers_first.cost)

    @property
    def other(self) -> FloatArray:
        """Return (gangs,) what the same units cost in the other measure."""
        return np.where(self._starts_with_workers, self.workers_first.other, self.ps_first.other)

    @property
    def _starts_with_workers(self) -> npt.NDArray[np.bool_]:
        return self.workers_first.cost < self.ps_first.cost

    def deployment(self, gang: int, servers: int) -> tuple[FloatArray, FloatArray]:
        """Return the workers and parameter servers of one gang, (servers,) each."""
        workers, ps = np.zeros(servers), np.zeros(servers)
        if self._starts_with_workers[gang]:
            filling = self.workers_first
            workers[filling.first_servers] = filling.first_units[gang]
            ps[filling.second_servers] = filling.second_units[gang]
        else:
            filling = self.ps_first
            ps[filling.first_servers] = filling.first_units[gang]
            workers[filling.second_servers] = filling.second_units[gang]
        return workers, ps


def spread(workers: SlotUnits, ps: SlotUnits, counts: IntArray, ps_counts: IntArray, free: FloatArray) -> GangSpread:
    """Return the gangs of `counts` workers and `ps_counts` parameter servers, both (gangs,) and rising."""
    return GangSpread(fill(ps, workers, ps_counts, counts, free), fill(workers, ps, counts, ps_counts, free))
