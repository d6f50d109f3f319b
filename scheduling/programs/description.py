"""A job as it was described, in hours or by a batch script, and the specification that the market gets of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling.programs import hours, worth
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.hours import InHours
from scheduling.programs.sbatch import NOT_KEPT, LineRefusal, OptionLine, Options, Script
from scheduling.programs.sbatch import read as read_script
from scheduling.programs.sbatch.options import SHORTS
from scheduling.programs.sbatch.request import ScriptRequest, ask
from scheduling.programs.worth import Worth

HOURS, SCRIPT = "hours", "script"


@dataclass(frozen=True)
class Description:
    """A job as it was described (`how`, and `source` in plain JSON), and its specification. For a script it also has
    the lines with what becomes of each, and the options that say when, where and with what it runs."""

    how: str  # hours | script
    source: Mapping[str, Any]
    specification: Mapping[str, Any]
    processes_per_worker: int = 1
    lines: tuple[OptionLine, ...] = ()
    options: Options | None = None


def in_hours(
    answers: Mapping[str, Any], value: Mapping[str, Any], resources: Sequence[str], slot_seconds: float
) -> Description | tuple[FieldRefusal, ...]:
    """Return a job that is described in hours, with the three answers about what it is worth."""
    job, answer = hours.read(answers, resources), worth.read(value)
    if not isinstance(job, InHours) or not isinstance(answer, Worth):
        return (*_refusals(job), *_refusals(answer))
    specification = hours.specification(job, worth.value(answer, slot_seconds))
    return Description(HOURS, {"hours": dict(answers), "worth": dict(value)}, specification)


def by_script(
    text: str, value: Mapping[str, Any], resources: Sequence[str], slot_seconds: float
) -> Description | tuple[LineRefusal | FieldRefusal, ...]:
    """Return a job that is described by a batch script, with the three answers about what it is worth, which no script
    has."""
    script, answer = read_script(text), worth.read(value)
    request = ask(script, resources) if isinstance(script, Script) else script
    if not isinstance(script, Script) or isinstance(request, tuple) or not isinstance(answer, Worth):
        return (*(request if isinstance(request, tuple) else ()), *_refusals(answer))
    specification = hours.specification(request.job, worth.value(answer, slot_seconds))
    source = {"script": text, "worth": dict(value)}
    lines = lines_here(script, request)
    return Description(SCRIPT, source, specification, request.processes_per_worker, lines, script.options)


def lines_here(script: Script, request: ScriptRequest) -> tuple[OptionLine, ...]:
    """Return the lines of a script, marked where this pool does not keep what they ask for."""
    unkept = {(line.number, line.option): line.sentence for line in request.not_kept}
    return tuple(
        replace(line, verdict=NOT_KEPT, sentence=sentence)
        if (sentence := unkept.get((line.number, _long(line.option))))
        else line
        for line in script.lines
    )


def _refusals(answer: object) -> tuple[FieldRefusal, ...]:
    return answer if isinstance(answer, tuple) else ()


def _long(option: str) -> str:
    """Return an option's long form, such as --nodes for -N."""
    return f"--{SHORTS[option[1]]}" if option[1:] in SHORTS else option
