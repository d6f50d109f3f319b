"""Read what a job's program did and does: its runs, the loss by epoch, when it will be done, and lines of its log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.conf import settings

from scheduling.core.types import OWN
from scheduling.engines.base import LogLine
from scheduling.engines.launcher.files import GangRecords
from scheduling.engines.programs import PROGRAMS
from scheduling.market.view import is_divisible
from scheduling.models import Run, RunState, TrainingJob
from scheduling.models.runs import OPEN
from scheduling.programs.progress import WHOLE
from tenants.access import Refused

MOST_RUNS = 50  # of a job, whose curves are joined: it has a run for each of its pieces
MOST_POINTS = 400  # of a curve on the page
UNKNOWN_RUN = "unknown_run"
NO_RUNS = Refused(UNKNOWN_RUN, "The job has no runs: it has not begun.")
P = TypeVar("P")


@dataclass(frozen=True)
class EpochPoint:
    """An epoch that is complete."""

    epoch: int
    at: datetime
    loss: float
    seconds: float
    workers: int


@dataclass(frozen=True)
class RunLogLine:
    """One line of the log."""

    at: datetime
    who: str
    text: str
    level: str = ""  # as the line says itself


@dataclass(frozen=True)
class RunView:
    """The newest run of a job, and the curve of all of them together. `runs` begins with the newest."""

    run: Run
    runs: Sequence[Run]
    title: str
    sentence: str
    epoch: int
    epochs: int
    points: tuple[EpochPoint, ...]
    ends_at: datetime | None  # by its speed; None: not known, or over
    late: bool  # whether it would need longer than it has

    @property
    def share(self) -> float:
        """Return the share of the work that is done, in per cent."""
        return 100.0 * self.epoch / self.epochs if self.epochs else 0.0

    @property
    def last(self) -> EpochPoint | None:
        """Return the last epoch that is complete."""
        return self.points[-1] if self.points else None

    @property
    def newest_at(self) -> datetime | None:
        return self.last.at if self.last else None

    @property
    def loss(self) -> float | None:
        return self.last.loss if self.last else None

    @property
    def is_own(self) -> bool:
        """Return whether people brought its program; such a program reports numbers by name."""
        return self.run.program not in PROGRAMS

    @property
    def is_open(self) -> bool:
        return self.run.state in OPEN


@dataclass(frozen=True)
class NumberedRun:
    """A run, its number in its job's story (1 is the first, and a run keeps its own), and how many runs the job has."""

    run: Run
    number: int
    of: int


def job_runs(job: TrainingJob) -> list[Run]:
    """Return the runs of the job, the newest first. Needs the tenant's scope."""
    return list(Run.objects.filter(job=job).select_related("award").order_by("-pk")[:MOST_RUNS])


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


def run_view(job: TrainingJob, total: int | None = None) -> RunView | None:
    """Return the newest run of the job, or None if the job has no program or never began. `total` is after how many
    epochs it will probably end, where that is before all of them."""
    runs = job_runs(job)
    if not runs:
        return None
    run, points = runs[0], curve(runs)
    epochs = int(run.progress.get("epochs") or _parameter(job, "epochs"))
    epoch = points[-1].epoch if points else 0
    ends_at = predicted_end(run, points, total or epochs)
    program = PROGRAMS.get(run.program)
    return RunView(
        run=run,
        runs=runs,
        title=program.title if program else run.program,
        sentence=run_sentence(run),
        epoch=epoch,
        epochs=epochs,
        points=thinned(points),
        ends_at=ends_at,
        late=ends_at is not None and ends_at > run.ends_at and not _goes_on(job, run),
    )


def _goes_on(job: TrainingJob, run: Run) -> bool:
    """Return whether the job may go on after the end of what it runs on: it may if that is a rented piece. At home its
    time is over."""
    return is_divisible(job) and run.award.work is not None and run.award.phase != OWN


def curve(runs: Sequence[Run]) -> list[EpochPoint]:
    """Return the complete epochs in order. Where one was trained twice, as what was not saved was lost, the later one
    counts."""
    points: dict[int, EpochPoint] = {}
    for run in sorted(runs, key=lambda each: each.pk):
        for row in records().progress(home_of(run), run.key):
            if row["event"] == "epoch" and (point := _point(row)):
                points[point.epoch] = point
    return [points[epoch] for epoch in sorted(points)]


def predicted_end(run: Run, points: Sequence[EpochPoint], epochs: int) -> datetime | None:
    """Return when the last epoch will end, by the mean length of the last few."""
    if run.state not in OPEN or not points or points[-1].epoch >= epochs:
        return None
    last = points[-5:]
    seconds = sum(point.seconds for point in last) / len(last)
    try:
        return points[-1].at + timedelta(seconds=seconds * (epochs - points[-1].epoch))
    except OverflowError:  # in no year that a calendar has
        return None


def thinned(points: Sequence[P]) -> tuple[P, ...]:
    """Return the first point, the last one, and evenly spaced ones between."""
    step = -(-len(points) // MOST_POINTS) if points else 1
    thin = list(points[::step])
    return tuple(thin if not points or thin[-1] is points[-1] else [*thin, points[-1]])


def speaker(line: LogLine) -> str:
    """Return one name for the writer of the line."""
    return "engine" if line.role == "engine" else f"{line.role} {line.rank}"


def line_of(line: LogLine, level: str = "") -> RunLogLine:
    """Return the line with its time, and one name for its writer."""
    return RunLogLine(datetime.fromtimestamp(line.at, UTC), speaker(line), line.text, level)


def records() -> GangRecords:
    """Return the records in which the local engine keeps what gangs report."""
    return GangRecords(settings.RUNS_DIR)


def home_of(run: Run) -> str:
    """Return the name under which a job's runs lie together."""
    return f"job-{run.job_id}"


def _parameter(job: TrainingJob, name: str) -> int:
    value = job.spec.get("program", {}).get("parameters", {}).get(name, job.spec.get(name, 0))
    return value if isinstance(value, int) else 0


def number_of(value: Any) -> float:
    """Return a number as a program, or on a cluster whoever may write its files, wrote it; raises `ValueError`,
    `TypeError` or `OverflowError` if it is none that a page can show."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def moment_of(value: Any) -> datetime:
    """Return a moment from seconds since 1970; raises as `number_of` does."""
    return datetime.fromtimestamp(number_of(value), UTC)


def _point(row: Mapping[str, Any]) -> EpochPoint | None:
    try:
        loss, seconds = number_of(row["loss"]), number_of(row["seconds"])
        epoch, workers = int(number_of(row["epoch"])), int(number_of(row.get("workers", 0)))
        return EpochPoint(epoch, moment_of(row["at"]), loss, seconds, workers) if abs(epoch) < WHOLE else None
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def run_sentence(run: Run) -> str:
    """Return how the run is, or how it ended."""
    again = f" {run.restarts} lost worker{'s' if run.restarts > 1 else ''} came again." if run.restarts else ""
    return {
        RunState.STARTING: "It is being started.",
        RunState.RUNNING: f"It runs.{again}",
        RunState.FINISHED: "It has done all of its work.",
        RunState.STOPPED: "It was stopped; what it had saved is kept.",
        RunState.PAUSED: "The market was stopped; it goes on from what it had saved.",
        RunState.FAILED: f"It failed: {run.detail}.",
        RunState.LOST: f"The platform lost it: {run.detail}. What was not delivered is refunded, unless it is settled.",
    }[RunState(run.state)]
