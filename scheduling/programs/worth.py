"""What a job is worth, in three answers (by when, how much by then, and how much later), and its value function.

With T slots until that moment and W credits:

    nothing   W up to T, and nothing after it
    half      about W up to T, exactly W at T, exactly half at 2 T, and soon nothing; never more than 1.01 W
    hardly    W at T, and a hundredth less for each time as long again

A batch script may also name a deadline. After that the job is worth nothing, whatever the answers say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduling.programs.fields import FieldRefusal, path_of

NOTHING, HALF, HARDLY = "nothing", "half", "hardly"
LATER = (NOTHING, HALF, HARDLY)
MOST_CREDITS = 1e12
MOST_SECONDS = 10 * 366 * 86_400
ABOVE = 0.01  # an early end may be worth more than W by this part of it


@dataclass(frozen=True)
class Worth:
    """The answers: `credits` for an end within `within_seconds` of the submission, and what a later end is worth. Where
    `later` is not "nothing", there may be a deadline, as `until_seconds` after the submission."""

    within_seconds: int
    credits: float
    later: str  # nothing | half | hardly
    until_seconds: int | None = None


def read(answers: Mapping[str, Any]) -> Worth | tuple[FieldRefusal, ...]:
    """Read the answers `within_seconds`, `credits` and `later`. Credits are a number here, as amounts are parsed
    before."""
    refusals = [
        FieldRefusal(path_of(name), "is no answer that is asked for")
        for name in answers
        if name not in ("within_seconds", "credits", "later")
    ]
    within, credits, later = (answers.get(name) for name in ("within_seconds", "credits", "later"))
    if isinstance(within, bool) or not isinstance(within, int) or not 0 < within <= MOST_SECONDS:
        refusals.append(FieldRefusal("within_seconds", "must be a moment to come, within ten years"))
    if isinstance(credits, bool) or not isinstance(credits, int | float) or not 0 < credits <= MOST_CREDITS:
        refusals.append(FieldRefusal("credits", "must be an amount above 0"))
    if later not in LATER:
        refusals.append(FieldRefusal("later", f"must be one of {', '.join(LATER)}"))
    if refusals:
        return tuple(refusals)
    return Worth(within, float(credits), later)  # type: ignore[arg-type]


def value(answer: Worth, slot_seconds: float) -> dict[str, Any]:
    """Return the value function of a specification, in slots of the pool."""
    if answer.until_seconds is not None:
        described = value(replace(answer, until_seconds=None), slot_seconds)
        return described | {"kind": f"{described['kind']}_until", "until": answer.until_seconds / slot_seconds}
    slots, most = answer.within_seconds / slot_seconds, answer.credits
    if answer.later == NOTHING:
        return {"kind": "deadline", "base": most, "deadline": slots}
    if answer.later == HARDLY:
        return {"kind": "linear", "slope": -most / (100.0 * slots), "base": most * 1.01}
    # P / (1 + exp(d (x - t))) is W at T and W / 2 at 2 T for P = (1 + a) W: exp(d (T - t)) = a and
    # exp(d (2 T - t)) = 1 + 2 a, so d T = log((1 + 2 a) / a), and t = T - log(a) / d.
    decay = math.log((1.0 + 2.0 * ABOVE) / ABOVE) / slots
    return {
        "kind": "sigmoid",
        "priority": most * (1.0 + ABOVE),
        "decay": decay,
        "target": slots - math.log(ABOVE) / decay,
    }


def answers_of(function: Mapping[str, Any], slot_seconds: float) -> Worth | None:
    """Return the answers that give a value function, to the second; None if none do."""
    kind, numbers = function.get("kind"), [each for name, each in function.items() if name != "kind"]
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
        return None
    try:
        slots, credits, later = _terms(kind, function)
        answer = Worth(round(slots * slot_seconds), credits, later)
        again = value(answer, slot_seconds)
    except (ArithmeticError, KeyError, ValueError):
        return None
    close = all(math.isclose(again[name], function[name], rel_tol=1e-3) for name in again if name != "kind")
    return answer if again.keys() == function.keys() and close and answer.within_seconds > 0 else None


def _terms(kind: object, function: Mapping[str, Any]) -> tuple[float, float, str]:
    """Return slots, credits and the answer `later`, as far as the numbers are those of `value`."""
    if kind == "deadline":
        return function["deadline"], function["base"], NOTHING
    if kind == "linear":
        credits = function["base"] / 1.01
        return credits / (-100.0 * function["slope"]), credits, HARDLY
    if kind == "sigmoid":
        return math.log((1.0 + 2.0 * ABOVE) / ABOVE) / function["decay"], function["priority"] / (1.0 + ABOVE), HALF
    raise ValueError(kind)
