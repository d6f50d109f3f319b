"""Work out what a program loses that is saved, ended and started again at another size: units that are paid for
nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.core.types import Allocation, Booking
from scheduling.programs.catalogue import NONE, Program


@dataclass(frozen=True)
class Resize:
    """A change of a job's gang from `slot` on. In the slot before, `units` workers and parameter servers are held for
    `price` micro-credits."""

    slot: int
    units: int
    price: int


@dataclass(frozen=True)
class Restarts:
    """What changes of its size or place cost a program. At each of `count` changes it has the last `seconds` of the
    slot before to save and end. `lost_unit_slots` are the units held meanwhile, in slots; `price` is what is paid for
    them in micro-credits, a part of the whole price. Loading again takes time on top, which only the program knows."""

    count: int
    seconds: float
    lost_unit_slots: float
    price: int


def resizes_of(booking: Booking, charges: Sequence[Sequence[Sequence[int]]]) -> tuple[Resize, ...]:
    """Return the changes of a booking's gang. `charges` has pairs of an owner and its part for each slot of the
    booking; it is empty where the booking costs nothing."""
    edges = {edge for each in booking.allocation for edge in (each.start, each.end)}
    restarts = []
    for slot in sorted(edge for edge in edges if booking.start < edge < booking.end):
        before, after = _gang(booking.allocation, slot - 1), _gang(booking.allocation, slot)
        if before and before != after:
            units = sum(workers + ps for workers, ps in before.values())
            price = sum(amount for _, amount in charges[slot - 1 - booking.start]) if charges else 0
            restarts.append(Resize(slot, units, price))
    return tuple(restarts)


def restarts_of(resizes: Sequence[Resize], program: Program | None, slot_seconds: int) -> Restarts | None:
    """Return what restarts cost. Return None if nothing is lost, as the job's size stays, or its program grows and
    shrinks while it runs."""
    if not resizes or program is None or program.resize == NONE:
        return None
    grace = program.grace_in(slot_seconds)
    lost = sum(each.units for each in resizes) * grace / slot_seconds
    price = sum(each.price for each in resizes) * int(1000 * grace) // (1000 * slot_seconds)
    return Restarts(len(resizes), grace, lost, price)


def _gang(allocation: Sequence[Allocation], slot: int) -> Mapping[int, tuple[int, int]]:
    """Return how many workers and parameter servers each server has in the slot."""
    gang: dict[int, tuple[int, int]] = {}
    for each in allocation:
        if each.start <= slot < each.end and each.workers + each.ps:
            workers, ps = gang.get(each.server, (0, 0))
            gang[each.server] = workers + each.workers, ps + each.ps
    return gang
