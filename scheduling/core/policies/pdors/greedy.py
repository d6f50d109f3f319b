"""Gangs on several servers without a solver: one kind of unit on the cheapest servers first, then the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import room
from scheduling.core.policies.pdors.work import IntArray
from scheduling.core.types import FloatArray

Indices = npt.NDArray[np.intp]
MOST_UNITS = 2.0**31  # of one kind on one server


@dataclass(frozen=True, eq=False)
class SlotUnits:
    """One kind of unit in one slot. `order` has the servers cheapest first."""

    demand: FloatArray  # (resources,)
    hosts: npt.NDArray[np.bool_]  # (servers,)
    price: FloatArray  # (servers,) credits per unit: what is to be small
    other: FloatArray  # (servers,) the same in the other measure
    room: FloatArray  # (servers,) whole units that fit while none of the other kind is there
    rank: FloatArray  # (servers,) settles ties of the price
    order: Indices  # (servers,)


def units_of(
    demand: FloatArray,
    hosts: npt.NDArray[np.bool_],
    prices: FloatArray,
    others: FloatArray,
    free: FloatArray,
    *,
    last_first: bool,
) -> SlotUnits:
    """Units of `demand` at `prices`, with those of another measure and `free` amounts, all (resources, servers).

    Of equally dear servers workers take the first and parameter servers the last, so that they meet late.
    """
    fits = np.where(hosts, _whole(free, demand), 0.0)
    rank = np.arange(len(hosts), dtype=np.float64) * (-1.0 if last_first else 1.0)
    price = demand @ prices
    return SlotUnits(demand, hosts, price, demand @ others, np.maximum(fits, 0.0), rank, np.lexsort((rank, price)))


@dataclass(frozen=True, eq=False)
class Filling:
    """Some numbers of the two kinds of units, on the servers named."""

    cost: FloatArray  # (numbers,) infinite where the units do not fit
    other: FloatArray  # (numbers,) the same in the other measure
    first_servers: Indices
    first_units: FloatArray  # (numbers, servers)
    second_servers: Indices
    second_units: FloatArray


def fill(first: SlotUnits, second: SlotUnits, firsts: IntArray, seconds: IntArray, free: FloatArray) -> Filling:
    """`firsts` units on the cheapest servers, then `seconds` of the other kind where there is room left.

    Both numbers rise. Only servers that one of the numbers reaches are looked at. Among equally dear servers the
    second kind prefers those that hold units of the first: a gang stays together.
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
    """Whole units that fit; of those that take nothing more than any gang has."""
    return np.minimum(room(free, demand), MOST_UNITS)


def _reached(order: Indices, rooms: FloatArray, most: int) -> Indices:
    """The first servers with room, until so many units are on them."""
    order = order[rooms[order] > 0]
    before = np.cumsum(rooms[order]) - rooms[order]
    return order[before < most]


def _dealt(numbers: IntArray, rooms: FloatArray) -> FloatArray:
    """(numbers, servers) units on each server when each is filled before the next; `rooms` has that shape."""
    before = np.cumsum(rooms, axis=1) - rooms
    return np.clip(numbers[:, None] - before, 0.0, rooms)


@dataclass(frozen=True, eq=False)
class GangSpread:
    """Gangs of rising size on several servers: their costs, and where they would go."""

    ps_first: Filling
    workers_first: Filling

    @property
    def cost(self) -> FloatArray:
        """(gangs,) of the cheaper of the two orders."""
        return np.minimum(self.ps_first.cost, self.workers_first.cost)

    @property
    def other(self) -> FloatArray:
        """(gangs,) what that costs in the other measure."""
        return np.where(self._starts_with_workers, self.workers_first.other, self.ps_first.other)

    @property
    def _starts_with_workers(self) -> npt.NDArray[np.bool_]:
        return self.workers_first.cost < self.ps_first.cost

    def deployment(self, gang: int, servers: int) -> tuple[FloatArray, FloatArray]:
        """(servers,) workers and parameter servers of one gang."""
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
    """The gangs with `counts` workers and `ps_counts` parameter servers each; both (gangs,) and rising."""
    return GangSpread(fill(ps, workers, ps_counts, counts, free), fill(workers, ps, counts, ps_counts, free))
