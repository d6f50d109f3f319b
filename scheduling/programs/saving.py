"""How a program saves and continues later, and whether a job of it rents in pieces by default (D15), or is to stay on
its servers from its start to its end (O13).

A program that can be started again, or changes its size while it runs, can continue elsewhere from what it saved. At
the end of each piece it has its grace to save: that much of the piece is lost for sure, and more is not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.programs.catalogue import GRACE_SECONDS, LIVE, NONE, RESTART, Program

DIVISIBLE, SAVE_SLOTS, UNBROKEN = "divisible", "save_slots", "unbroken"  # fields of a specification


@dataclass(frozen=True)
class Saves:
    """How a program saves. `seconds` is the time that the platform leaves it to save before its end, or None if the
    program sets none."""

    resize: str
    seconds: float | None = None

    @property
    def goes_on(self) -> bool:
        return self.resize in (RESTART, LIVE)

    def slots(self, slot_seconds: float) -> float | None:
        """Return the time of a save in slots: at most one, as the grace is at most a slot."""
        slots = 0.0 if self.seconds is None else round(min(self.seconds / slot_seconds, 1.0), 6)
        return None if self.seconds is None else int(slots) if slots.is_integer() else slots


def saves_of(program: Program) -> Saves:
    return Saves(program.resize, float(program.grace_seconds))


def saves_in(document: Mapping[str, Any]) -> Saves:
    """Return how a program saves that is not registered yet, from a valid document of it."""
    return Saves(document.get("resize") or NONE, float(document.get("grace_seconds") or GRACE_SECONDS))


def pieces_added(
    spec: Mapping[str, Any], saves: Saves | None, slot_seconds: float, *, sells_pieces: bool, together: bool
) -> dict[str, Any]:
    """Return the fields that are added to a specification: that the job rents in pieces, if its submitter left that
    open; and the time of a save, if the job rents in pieces and its submitter gave none.

    `sells_pieces` says that the pool sells pieces. `together` says that the job is bought with others, all or none:
    then it is sold whole, as is a job that never rents.
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


def unbroken_added(spec: Mapping[str, Any], saves: Saves | None) -> dict[str, Any]:
    """Return the field that is added to a specification: that the job keeps its servers from its start to its end. So
    it is where its program cannot go on from what it saved, or its submitter said that it is no job in pieces. Whoever
    says either for itself is believed."""
    answer = spec.get(DIVISIBLE)
    keeps = answer is False or (answer is None and saves is not None and not saves.goes_on)
    return {UNBROKEN: True} if keeps and UNBROKEN not in spec else {}
