"""Whether a job may rent in pieces, as the form of a job says it: as its program can, yes, or no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.programs.catalogue import Program
from scheduling.programs.saving import DIVISIBLE, SAVE_SLOTS, saves_of

AS_PROGRAM, PIECES, WHOLE_ONLY = "", "yes", "no"
MEANING = {PIECES: True, WHOLE_ONLY: False}


def pieces_said(answers: Mapping[str, Any]) -> bool | None:
    """What a form says; None: nothing, and the program decides."""
    return MEANING.get(answers.get(DIVISIBLE) or AS_PROGRAM)


def pieces_asked(answers: Mapping[str, Any]) -> dict[str, bool]:
    """The same in the words of a specification."""
    divisible = pieces_said(answers)
    return {} if divisible is None else {DIVISIBLE: divisible}


def pieces_word(spec: Mapping[str, Any]) -> str | None:
    """The form's word for what a specification says; None where it has none."""
    if DIVISIBLE not in spec:
        return AS_PROGRAM
    divisible = spec[DIVISIBLE]
    return next((word for word, meaning in MEANING.items() if divisible is meaning), None)


def pieces_in_hours(spec: Mapping[str, Any], program: Program | None, slot_seconds: float) -> str | None:
    """The form's word where a job is said in hours, which has no word for what a save takes: None where a specification
    says another number than its program's own."""
    if SAVE_SLOTS in spec:
        own = None if program is None else saves_of(program).slots(slot_seconds)
        if spec[SAVE_SLOTS] != own:
            return None
    return pieces_word(spec)
