"""When a job may begin and until when it is worth anything; what it waits for; and the members of an array.

Moments are seconds on any one clock; callers have converted dates to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduling.programs.fields import FieldRefusal
from scheduling.programs.worth import NOTHING, Worth

DONE, OPEN, FAILED = "done", "open", "failed"  # states of a job that another one waits for
READY, WAITS, NEVER = "ready", "waits", "never"
MOST_MEMBERS = 1_000

Waited = int | str  # what a job waits for: the number of a job, or the name of an array, such as A-12


@dataclass(frozen=True)
class WaitStanding:
    """Whether a job may begin as far as other jobs are concerned. `jobs` are those that it waits for, or that keep it
    from ever beginning."""

    state: str  # ready | waits | never
    jobs: tuple[Waited, ...] = ()


def array_named(number: int) -> str:
    """Return the name of an array, as people write it and as a job names it that waits for all of its members."""
    return f"A-{number}"


def array_number(waited: Waited) -> int | None:
    """Return the number of an array, or None if it is a job."""
    return int(waited.removeprefix("A-")) if isinstance(waited, str) else None


def after_jobs(waited: Iterable[Waited]) -> list[int]:
    """Return the jobs among what a job waits for."""
    return [each for each in waited if not isinstance(each, str)]


def after_arrays(waited: Iterable[Waited]) -> list[int]:
    """Return the numbers of the arrays among what a job waits for."""
    return [number for each in waited if (number := array_number(each)) is not None]


def waited_in_order(waited: Iterable[Waited]) -> list[Waited]:
    """Return each once: jobs by their numbers, then arrays by theirs."""
    return sorted(set(waited), key=lambda each: (isinstance(each, str), int(str(each).removeprefix("A-"))))


def standing(after_ok: Sequence[Waited], states: Mapping[Waited, str]) -> WaitStanding:
    """Return whether a job may begin that needs all these to have ended well. One that is not known any more has
    not."""
    lost = tuple(job for job in after_ok if states.get(job, FAILED) == FAILED)
    if lost:
        return WaitStanding(NEVER, lost)
    still_open = tuple(job for job in after_ok if states[job] == OPEN)
    return WaitStanding(WAITS, still_open) if still_open else WaitStanding(READY)


def arrival(submitted_at: float, begin: float | None, ready_at: float | None) -> float:
    """Return from when on a job takes part in decisions: not before it was submitted, before it may begin, or before
    the jobs that it waits for have ended."""
    return max(moment for moment in (submitted_at, begin, ready_at) if moment is not None)


def until(worth: Worth, submitted_at: float, deadline: float, run_seconds: float) -> Worth | FieldRefusal:
    """Return the worth of a job with a deadline: as it was described until then, and nothing after it. It is refused if
    even a run that began at once would end after the deadline."""
    seconds = deadline - submitted_at
    if seconds <= 0.0:
        return FieldRefusal("deadline", "must be a moment to come")
    if seconds < run_seconds:
        short = run_seconds - seconds
        return FieldRefusal("deadline", f"is {short:,.0f} seconds too soon for a run that began at once")
    if seconds <= worth.within_seconds:
        return Worth(math.ceil(seconds), worth.credits, NOTHING)
    return worth if worth.later == NOTHING else replace(worth, until_seconds=math.ceil(seconds))


@dataclass(frozen=True)
class ArrayMember:
    """One job of an array, with its index and its name."""

    index: int
    name: str


def members(name: str, indexes: Sequence[int], longest: int = 200) -> tuple[ArrayMember, ...] | FieldRefusal:
    """Return the jobs of an array in order of their indexes, each once. Names that would be longer than a job's may be
    are refused."""
    order = sorted(set(indexes))
    if not 1 <= len(order) <= MOST_MEMBERS:
        return FieldRefusal("array", f"must be 1 to {MOST_MEMBERS:,} jobs, not {len(order):,}")
    if order[0] < 0:
        return FieldRefusal("array", "must be indexes of 0 or more")
    if len(f"{name}[{order[-1]}]") > longest:
        return FieldRefusal("name", f"must be at most {longest - len(str(order[-1])) - 2} characters for such an array")
    return tuple(ArrayMember(index, f"{name}[{index}]") for index in order)
