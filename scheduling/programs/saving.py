"""How a program saves and goes on later, and whether a job of it may rent in pieces where nobody says so (D15).

A program that can be started again, or changes its size while it runs, can go on elsewhere from what it saved. At the
end of each piece it has its grace to save: so much of the piece is lost for sure, and nobody measures the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.programs.catalogue import GRACE_SECONDS, LIVE, NONE, RESTART, Program

DIVISIBLE, SAVE_SLOTS = "divisible", "save_slots"  # of a specification


@dataclass(frozen=True)
class Saves:
    """`seconds`: that the platform leaves it to save before the end of its time; None: it says none of its own."""

    resize: str
    seconds: float | None = None

    @property
    def goes_on(self) -> bool:
        return self.resize in (RESTART, LIVE)

    def slots(self, slot_seconds: float) -> float | None:
        """What a save takes, in slots: at most one, as the grace is."""
        slots = 0.0 if self.seconds is None else round(min(self.seconds / slot_seconds, 1.0), 6)
        return None if self.seconds is None else int(slots) if slots.is_integer() else slots


def saves_of(program: Program) -> Saves:
    return Saves(program.resize, float(program.grace_seconds))


def saves_in(document: Mapping[str, Any]) -> Saves:
    """Of a program that is not registered yet, in a document that can be one."""
    return Saves(document.get("resize") or NONE, float(document.get("grace_seconds") or GRACE_SECONDS))


def pieces_added(
    spec: Mapping[str, Any], saves: Saves | None, slot_seconds: float, *, sells_pieces: bool, together: bool
) -> dict[str, Any]:
    """What a specification says besides: that the job rents in pieces, where its submitter did not say whether it does,
    and what a save takes, where the job does and its submitter did not say.

    `sells_pieces`: the pool does. `together`: the job is bought with others, all or none, so that it is sold whole. So
    is a job that never rents.
    """
    added: dict[str, Any] = {}
    if saves is None or not sells_pieces:
        return added
    if DIVISIBLE not in spec and saves.goes_on and not together and spec.get("rent") != "never":
        added[DIVISIBLE] = True
    slots = saves.slots(slot_seconds)
    if slots is not None and {**spec, **added}.get(DIVISIBLE) is True and SAVE_SLOTS not in spec:
        added[SAVE_SLOTS] = slots
    return added
