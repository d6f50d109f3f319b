"""The clock of the market: at which boundaries it decides, and for which windows of slots (R2-R4, L1-L2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduling.core.policies.astraea.rules import trailing
from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.types import View

Span = tuple[int, int]  # the slots [start, end)


@dataclass(frozen=True)
class Turn:
    """What happens at one slot: the windows to decide, and what is known of the boundaries to come."""

    windows: tuple[Span, ...] = ()  # to be decided now, one for each round; none between boundaries
    closes_at: int | None = None  # the next boundary; None if there is none
    cap: int | None = None  # slots of the longest window there will ever be; None if windows grow without end
    frontier: int | None = None  # no later turn touches a slot before it; None if nothing is promised
    memory: Mapping[str, Any] | None = None  # the memory for the next call; None if it stays as the view has it


def turn(settings: Settings, view: View) -> Turn:
    """Return the turn at the view's slot. The trailing figures in the memory stay there."""
    now = _turn(settings, view)
    if now.memory is None or trailing.KEY not in view.memory:
        return now
    return replace(now, memory={**now.memory, trailing.KEY: view.memory[trailing.KEY]})


def _turn(settings: Settings, view: View) -> Turn:
    if isinstance(settings.clock, str):
        return _geometric(settings, view.slot)
    if settings.clock["restart"]:
        return _restarting(settings, settings.clock, view)
    return _steady(settings, settings.clock, view.slot)


def _geometric(settings: Settings, slot: int) -> Turn:
    """Return the turn of the paper's clock: batch l at slot 2**l, l >= 1, decides `rounds` windows of 2**l slots each,
    from rounds * 2**l on (R2-R4)."""
    length, batch = 2, 1
    while length < slot:
        length, batch = 2 * length, batch + 1
    if _over(settings, batch - 1):
        return Turn()
    first = settings.rounds * length
    if slot < length:
        return Turn(closes_at=length, frontier=first)
    windows = tuple((first + i * length, first + (i + 1) * length) for i in range(settings.rounds))
    return Turn(windows, None if _over(settings, batch) else 2 * length, frontier=2 * first)


def _steady(settings: Settings, clock: Mapping[str, Any], slot: int) -> Turn:
    """Return the turn of a steady clock: its boundaries are first, first + L0, ... whether or not jobs wait, and the
    lengths double from `first` up to `cap` (L1)."""
    boundary, length, decided, cap = clock["first"], clock["first"], 0, clock["cap"]
    while boundary < slot and length < cap:
        boundary, length, decided = boundary + length, min(2 * length, cap), decided + 1
    if boundary < slot:
        steps = -(-(slot - boundary) // length)
        boundary, decided = boundary + steps * length, decided + steps
    if _over(settings, decided):
        return Turn(cap=cap)
    if slot < boundary:
        return Turn(closes_at=boundary, cap=cap, frontier=boundary)
    end = boundary + length
    return Turn(((boundary, end),), None if _over(settings, decided + 1) else end, cap, frontier=end)


def _restarting(settings: Settings, clock: Mapping[str, Any], view: View) -> Turn:
    """Return the turn of a clock that restarts: an epoch opens `first` slots after its first arrival, and ends at a
    boundary where nothing waits and no rent is open (L2, K5).

    The memory holds its state: the next boundary (0 where no epoch is open), the length of its window, and how many
    boundaries were decided. A boundary that passed without a decision is one where nothing waited.

    A job can come later than its arrival: it waits again after a failure, or its submission was slow. While no epoch
    was open, slots were promised to others as if no job would come, so its epoch opens after those slots.
    """
    boundary, length, decided = (view.memory.get(name, 0) for name in ("boundary", "length", "decided"))
    cap = clock["cap"]
    if _over(settings, decided):
        return Turn(cap=cap)
    backlog = bool(view.open_rents) or (bool(view.waiting) and view.waiting[0].arrival < boundary)  # K5
    if boundary < view.slot or (boundary == view.slot and not backlog):
        boundary, length = 0, clock["first"]
        if view.waiting:
            boundary = max(view.slot, view.frontier, view.waiting[0].first_slot + length)
        elif view.open_rents:  # the boundary that should have settled them passed while the lane was held
            boundary = max(view.slot, view.frontier)
    if not boundary:
        return Turn(cap=cap, frontier=view.slot + 1 + length, memory=_state(0, 0, decided))
    if boundary > view.slot:
        return Turn((), boundary, cap, boundary, _state(boundary, length, decided))
    end = boundary + length
    closes_at = None if _over(settings, decided + 1) else end
    return Turn(((boundary, end),), closes_at, cap, end, _state(end, min(2 * length, cap), decided + 1))


def _state(boundary: int, length: int, decided: int) -> dict[str, int]:
    return {"boundary": boundary, "length": length, "decided": decided} if boundary or decided else {}


def _over(settings: Settings, decided: int) -> bool:
    """Return whether no boundary will be decided any more."""
    return settings.intervals is not None and decided >= settings.intervals
