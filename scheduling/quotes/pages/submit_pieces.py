"""The form's field that says whether a job may rent in pieces: as its program can, yes, or no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.programs.catalogue import Program
from scheduling.programs.saving import DIVISIBLE, SAVE_SLOTS, UNBROKEN, saves_of, unbroken_added

AS_PROGRAM, PIECES, WHOLE_ONLY = "", "yes", "no"
MEANING = {PIECES: True, WHOLE_ONLY: False}


def pieces_said(answers: Mapping[str, Any]) -> bool | None:
    """Return what a form says, or None where it says nothing, so that the program decides."""
    return MEANING.get(answers.get(DIVISIBLE) or AS_PROGRAM)


def pieces_asked(answers: Mapping[str, Any]) -> dict[str, bool]:
    """Return the same as fields of a specification."""
    divisible = pieces_said(answers)
    return {} if divisible is None else {DIVISIBLE: divisible}


def pieces_word(spec: Mapping[str, Any]) -> str | None:
    """Return the form's word for what a specification says, or None where it has none."""
    if DIVISIBLE not in spec:
        return AS_PROGRAM
    divisible = spec[DIVISIBLE]
    return next((word for word, meaning in MEANING.items() if divisible is meaning), None)


def unbroken_follows(spec: Mapping[str, Any], program: Program | None) -> bool:
    """Return whether a submission adds by itself what a specification says of being unbroken: no form has a field for
    it."""
    rest = {name: entry for name, entry in spec.items() if name != UNBROKEN}
    added = unbroken_added(rest, None if program is None else saves_of(program))
    return UNBROKEN not in spec or added == {UNBROKEN: spec[UNBROKEN]}


def pieces_in_hours(spec: Mapping[str, Any], program: Program | None, slot_seconds: float) -> str | None:
    """Return the form's word for a job in hours. Such a form has no field for what a save takes, so None is returned
    where a specification says another number than its program's own."""
    if SAVE_SLOTS in spec:
        own = None if program is None else saves_of(program).slots(slot_seconds)
        if spec[SAVE_SLOTS] != own:
            return None
    return pieces_word(spec)
