"""What a program loses that is saved, ended and started again at another size: units that are paid for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.core.types import Allocation, Booking
from scheduling.programs.catalogue import NONE, Program


@dataclass(frozen=True)
class Resize:
    """From `slot` on its gang is another one. In the slot before, `units` workers and parameter servers are held for
    `price` micro-credits."""

    slot: int
    units: int
    price: int


@dataclass(frozen=True)
class Restarts:
    """At each of `count` changes of its size or place a program has the last `seconds` of the slot before to save and
    end. `lost_unit_slots`: the units held meanwhile, in slots; `price`: what is paid for them, in micro-credits, a part
    of the whole price. What it takes to load again comes on top: only the program knows."""

    count: int
    seconds: float
    lost_unit_slots: float
    price: int


def resizes_of(booking: Booking, charges: Sequence[Sequence[Sequence[int]]]) -> tuple[Resize, ...]:
    """`charges`: by slot of the booking, pairs of an owner and its part; nothing where it costs nothing."""
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
    """None: nothing is lost, as its size stays or it is one that grows and shrinks while it runs."""
    if not resizes or program is None or program.resize == NONE:
        return None
    grace = program.grace_in(slot_seconds)
    lost = sum(each.units for each in resizes) * grace / slot_seconds
    price = sum(each.price for each in resizes) * int(1000 * grace) // (1000 * slot_seconds)
    return Restarts(len(resizes), grace, lost, price)


def _gang(allocation: Sequence[Allocation], slot: int) -> Mapping[int, tuple[int, int]]:
    """By server, how many workers and parameter servers."""
    gang: dict[int, tuple[int, int]] = {}
    for each in allocation:
        if each.start <= slot < each.end and each.workers + each.ps:
            workers, ps = gang.get(each.server, (0, 0))
            gang[each.server] = workers + each.workers, ps + each.ps
    return gang
