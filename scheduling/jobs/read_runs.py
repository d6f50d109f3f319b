"""Find a run of a job by its number in the job's story: 1 is the first. A run keeps its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.jobs.read_run import MOST_RUNS
from scheduling.models import Run, TrainingJob
from tenants.access import Refused

UNKNOWN_RUN = "unknown_run"
NO_RUNS = Refused(UNKNOWN_RUN, "The job has no runs: it has not begun.")


@dataclass(frozen=True)
class NumberedRun:
    """A run, its number, and how many runs its job has."""

    run: Run
    number: int
    of: int


def numbered_runs(job: TrainingJob, newest: Sequence[Run]) -> list[NumberedRun]:
    """Return what `job_runs` returned, with numbers."""
    of = len(newest)
    if of >= MOST_RUNS:  # there may be others, and one that began since is none of these
        of = Run.objects.filter(job=job, pk__lte=newest[0].pk).count()
    return [NumberedRun(run, of - place, of) for place, run in enumerate(newest)]


def run_numbered(job: TrainingJob, newest: Sequence[NumberedRun], number: int | None) -> NumberedRun | Refused | None:
    """Return the job's run of this number. Where none is named, return the newest one, or None if it has none. `newest`
    comes from `numbered_runs`."""
    if number is None:
        return newest[0] if newest else None
    if not newest:
        return NO_RUNS
    of = newest[0].of
    if not 1 <= number <= of:
        its_runs = f"its runs are 1 to {of}" if of > 1 else "its only run is 1"
        return Refused(UNKNOWN_RUN, f"The job has no run {number}: {its_runs}.")
    if of - number < len(newest):
        return newest[of - number]
    run = Run.objects.filter(job=job).order_by("pk")[number - 1]
    return NumberedRun(run, number, of)
