"""The likely course of a job that is begun in pieces: a guess from its first piece, and how such guesses held.

A guess is not stored. Its only grounds, the first piece, are: so what would have been guessed of a job is worked out
from its awards, and so is what became of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.core.types import SHARED
from scheduling.jobs.read_pieces import work_of
from scheduling.models import Award, AwardState, JobState, Pool, TrainingJob

LOOKED_AT = 500  # newest jobs of a tenant


@dataclass(frozen=True)
class Guess:
    """So many pieces as large as the first, at its price, one a window. Slots and micro-credits."""

    pieces: int
    end: int
    price: int


@dataclass(frozen=True)
class Begun:
    """A job that was begun in pieces and is over. `end`: the first slot after its last piece; None: it was not
    finished. `paid`: micro-credits for all of its pieces, less what came back."""

    guess: Guess
    end: int | None
    paid: int


@dataclass(frozen=True)
class CourseRecord:
    """Of so many jobs that were begun in pieces and are over: how many ended by the guessed end, and how many later and
    by how many slots in the middle of them; how many did not finish; how many cost no more than was guessed."""

    jobs: int = 0
    by_then: int = 0
    later: int = 0
    later_by: float | None = None
    unfinished: int = 0
    no_dearer: int = 0

    @property
    def sentence(self) -> str:
        parts = [f"{self.by_then} ended by the guessed end"]
        if self.later_by is not None:
            slots = f"{self.later_by:g} slot{'' if self.later_by == 1 else 's'}"
            parts += [f"{self.later} later, {'by' if self.later == 1 else 'half of them by at most'} {slots}"]
        parts += [f"{self.unfinished} did not finish"] if self.unfinished else []
        parts += [f"{self.no_dearer} cost no more than guessed"]
        return f"of {self.jobs} job{'' if self.jobs == 1 else 's'}, {'; '.join(parts)}."


def guess(*, start: int, end: int, done: int, work: int, price: int, window: int | None) -> Guess:
    """`start` to `end`: the first piece, which does `done` mini-batches of `work`; `window`: slots of the longest one,
    None where windows have no longest."""
    pieces = -(-work // done)
    return Guess(pieces, start + pieces * (window or end - start), price * work // done)


def courses_record(pool: Pool) -> CourseRecord:
    """Of the open tenant's newest jobs in this pool. Two short queries."""
    newest = TrainingJob.objects.order_by("-pk").values_list("pk", flat=True)[:LOOKED_AT]
    awards = Award.objects.filter(pool=pool, job__in=list(newest), work__isnull=False).order_by("job_id", "start")
    by_job: dict[int, list[Award]] = {}
    for award in awards.select_related("job").defer("charges", "allocation"):
        by_job.setdefault(award.job_id, []).append(award)
    courses = (_begun(pool, parts[0].job, parts) for parts in by_job.values())
    return record(each for each in courses if each is not None)


def record(begun: Iterable[Begun]) -> CourseRecord:
    """How guesses held."""
    jobs = list(begun)
    late = [each.end - each.guess.end for each in jobs if each.end is not None and each.end > each.guess.end]
    unfinished = sum(each.end is None for each in jobs)
    return CourseRecord(
        jobs=len(jobs),
        by_then=len(jobs) - len(late) - unfinished,
        later=len(late),
        later_by=float(statistics.median(late)) if late else None,
        unfinished=unfinished,
        no_dearer=sum(each.paid <= each.guess.price for each in jobs),
    )


def guess_of(pool: Pool, job: TrainingJob, parts: Sequence[Award]) -> Guess | None:
    """What the first of a job's parts lets one guess; None where that is no rented piece which leaves something, or
    where the rest followed at home in the same window, which is no guess. `parts`: in the order of their starts."""
    first = next((part for part in parts if part.state != AwardState.VOID), None)
    work = work_of(job)
    if first is None or first.phase != SHARED or first.work is None or first.work >= work:
        return None
    if any(part.interval_id == first.interval_id and part.phase != SHARED for part in parts):
        return None
    return guess(start=first.start, end=first.end, done=first.work, work=work, price=first.paid, window=pool.clock_cap)


def _begun(pool: Pool, job: TrainingJob, parts: Sequence[Award]) -> Begun | None:
    """None where it is not over, was taken back, or was not begun in pieces."""
    first = guess_of(pool, job, parts)
    if first is None or job.state not in (JobState.FINISHED, JobState.EXPIRED, JobState.FAILED, JobState.STOPPED):
        return None
    finished = job.state == JobState.FINISHED
    end = max(part.used_until for part in parts if part.state != AwardState.VOID) if finished else None
    return Begun(first, end, sum(part.paid - part.returned for part in parts))
