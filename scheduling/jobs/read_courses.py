"""Guess the likely course of a job that is begun in pieces from its first piece, and count how such guesses held.

A guess is not stored. The first piece, on which alone it rests, is stored: so both the guess for a job and what became
of the job are worked out from its awards.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.core.types import SHARED
from scheduling.jobs.read_pieces import work_of
from scheduling.models import CHARGES, Award, AwardState, JobState, Pool, TrainingJob

LOOKED_AT = 500  # newest jobs of a tenant, as many as are read


@dataclass(frozen=True)
class Guess:
    """A guess that the job takes `pieces` pieces as large as the first, at its price, one in each window. `end` is the
    first slot after them, `price` is micro-credits for all of them."""

    pieces: int
    end: int
    price: int


@dataclass(frozen=True)
class Begun:
    """A job that was begun in pieces and is over. `end` is the first slot after its last piece, or None if it was not
    finished. `paid` is micro-credits for all of its pieces, less what came back."""

    guess: Guess
    end: int | None
    paid: int


@dataclass(frozen=True)
class CourseRecord:
    """How guesses held for `jobs` jobs that were begun in pieces and are over: how many ended by the guessed end, how
    many ended later and by a median of how many slots, how many did not finish, and how many cost no more than was
    guessed."""

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
    """Return the guess. The first piece runs from `start` to `end` and does `done` mini-batches of `work`. `window` is
    the slots of the longest window, or None where windows have no longest."""
    pieces = -(-work // done)
    return Guess(pieces, start + pieces * (window or end - start), price * work // done)


def courses_record(pool: Pool) -> CourseRecord:
    """Return how guesses held for the open tenant's newest jobs in this pool. Takes two short queries."""
    newest = TrainingJob.objects.order_by("-pk").values_list("pk", flat=True)[:LOOKED_AT]
    awards = Award.objects.filter(pool=pool, job__in=list(newest), work__isnull=False).order_by("job_id", "start")
    by_job: dict[int, list[Award]] = {}
    for award in awards.select_related("job").defer(*CHARGES, "allocation"):
        by_job.setdefault(award.job_id, []).append(award)
    courses = (_begun(pool, pieces[0].job, pieces) for pieces in by_job.values())
    return record(each for each in courses if each is not None)


def record(begun: Iterable[Begun]) -> CourseRecord:
    """Return how guesses held for these jobs."""
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


def guess_of(pool: Pool, job: TrainingJob, pieces: Sequence[Award]) -> Guess | None:
    """Return what the first of a job's pieces lets one guess. Return None where it is no rented piece which leaves
    something to do, or where the rest followed at home in the same window, which is no guess. `pieces` are in the order
    of their starts."""
    first = next((piece for piece in pieces if piece.state != AwardState.VOID), None)
    work = work_of(job)
    if first is None or first.phase != SHARED or first.work is None or first.work >= work:
        return None
    if any(piece.interval_id == first.interval_id and piece.phase != SHARED for piece in pieces):
        return None
    return guess(start=first.start, end=first.end, done=first.work, work=work, price=first.paid, window=pool.clock_cap)


def _begun(pool: Pool, job: TrainingJob, pieces: Sequence[Award]) -> Begun | None:
    """Return the job with its guess, or None where it is not over, was cancelled, or was not begun in pieces."""
    first = guess_of(pool, job, pieces)
    if first is None or job.state not in (JobState.FINISHED, JobState.EXPIRED, JobState.FAILED, JobState.STOPPED):
        return None
    finished = job.state == JobState.FINISHED
    end = max(piece.used_until for piece in pieces if piece.state != AwardState.VOID) if finished else None
    return Begun(first, end, sum(piece.paid - piece.returned for piece in pieces))
