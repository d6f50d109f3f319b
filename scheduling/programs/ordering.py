"""When a job may begin and until when it is worth anything; what it waits for; and the members of an array.

Moments are seconds on one clock, whichever; who asks has turned a calendar's moment into them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.programs.fields import FieldRefusal
from scheduling.programs.worth import NOTHING, Worth

DONE, OPEN, FAILED = "done", "open", "failed"  # of a job that another one waits for
READY, WAITS, NEVER = "ready", "waits", "never"
MOST_MEMBERS = 1_000

Waited = int | str  # what a job waits for: the number of a job, or the name of an array, as A-12


@dataclass(frozen=True)
class WaitStanding:
    """Whether a job may begin, as far as others are concerned. `jobs` are those that it waits for, or that keep it from
    ever beginning."""

    state: str  # ready | waits | never
    jobs: tuple[Waited, ...] = ()


def array_named(number: int) -> str:
    """As people write an array, and as a job that waits for all of its members names it."""
    return f"A-{number}"


def array_number(waited: Waited) -> int | None:
    """Of an array; None: it is a job."""
    return int(waited.removeprefix("A-")) if isinstance(waited, str) else None


def after_jobs(waited: Iterable[Waited]) -> list[int]:
    """The jobs among them."""
    return [each for each in waited if not isinstance(each, str)]


def after_arrays(waited: Iterable[Waited]) -> list[int]:
    """The numbers of the arrays among them."""
    return [number for each in waited if (number := array_number(each)) is not None]


def waited_in_order(waited: Iterable[Waited]) -> list[Waited]:
    """Each once: jobs by their numbers, then arrays by theirs."""
    return sorted(set(waited), key=lambda each: (isinstance(each, str), int(str(each).removeprefix("A-"))))


def standing(after_ok: Sequence[Waited], states: Mapping[Waited, str]) -> WaitStanding:
    """Where a job stands that begins when all these have ended well. One that nobody knows any more has not."""
    lost = tuple(job for job in after_ok if states.get(job, FAILED) == FAILED)
    if lost:
        return WaitStanding(NEVER, lost)
    still_open = tuple(job for job in after_ok if states[job] == OPEN)
    return WaitStanding(WAITS, still_open) if still_open else WaitStanding(READY)


def arrival(submitted_at: float, begin: float | None, ready_at: float | None) -> float:
    """From when on a job is decided about: no sooner than it was submitted, than it may begin, and than what it waits
    for has ended."""
    return max(moment for moment in (submitted_at, begin, ready_at) if moment is not None)


def until(worth: Worth, submitted_at: float, deadline: float, run_seconds: float) -> Worth | FieldRefusal:
    """The worth of a job that is worth nothing after a deadline: what was said up to there. Refused where even a run
    that began at once would end after it."""
    seconds = deadline - submitted_at
    if seconds < run_seconds:
        short = run_seconds - max(seconds, 0.0)
        return FieldRefusal("deadline", f"is {short:,.0f} seconds too soon for a run that began at once")
    if worth.later == NOTHING and worth.within_seconds <= seconds:
        return worth
    return Worth(int(seconds), worth.credits, NOTHING)


@dataclass(frozen=True)
class ArrayMember:
    """One job of an array: its index, and its name."""

    index: int
    name: str


def members(name: str, indexes: Sequence[int], longest: int = 200) -> tuple[ArrayMember, ...] | FieldRefusal:
    """The jobs of an array in order of their indexes, each once. No name is longer than a job's may be."""
    order = sorted(set(indexes))
    if not 1 <= len(order) <= MOST_MEMBERS:
        return FieldRefusal("array", f"must be 1 to {MOST_MEMBERS:,} jobs, not {len(order):,}")
    if order[0] < 0:
        return FieldRefusal("array", "must be indexes of 0 or more")
    if len(f"{name}[{order[-1]}]") > longest:
        return FieldRefusal("name", f"must be at most {longest - len(str(order[-1])) - 2} characters for such an array")
    return tuple(ArrayMember(index, f"{name}[{index}]") for index in order)
