"""Read when a job that ends with its loss will probably have converged, by what it reported, and how well that held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.core.estimates.live import CONVERGED, EXHAUSTED, FITTED
from scheduling.core.scenario import BadScenario
from scheduling.market.elastic import target_of
from scheduling.models import UNTIL, JobReport, TrainingJob

LOOKED_AT = 100  # of the tenant's last jobs that ended by themselves
MOST_POINTS = 200  # of a curve
PER_CENT = 100.0


@dataclass(frozen=True)
class OutlookRecord:
    """How estimates held for the tenant's last jobs that ended by themselves and had an estimate. `jobs` counts them,
    `held` those that ended within their first estimate, to the epoch. `off_by` is the median error, in per cent of
    their epochs."""

    jobs: int = 0
    held: int = 0
    off_by: float = 0.0


@dataclass(frozen=True)
class Outlook:
    """When a job will probably have converged. `threshold` is in per cent of the largest loss, all else in epochs;
    `rest`, `low` and `high` are to go, and None once it is over. `reported` and `estimated` are (epoch, loss) pairs."""

    threshold: float
    patience: int
    most: int
    done: int
    estimated_now: bool  # else the job has only what it declared
    rest: int | None
    low: int | None
    high: int | None
    reported: tuple[tuple[int, float], ...]
    estimated: tuple[tuple[int, float], ...]
    first_after: int | None
    first_low: int | None
    first_high: int | None
    ended_after: int | None
    converged: bool
    record: OutlookRecord

    @property
    def total(self) -> int | None:
        """Return after how many epochs it will be over."""
        return None if self.rest is None else self.done + self.rest

    @property
    def total_low(self) -> int | None:
        return None if self.low is None else self.done + self.low

    @property
    def total_high(self) -> int | None:
        return None if self.high is None else self.done + self.high

    @property
    def first_held(self) -> bool | None:
        """Return whether it ended within its first estimate; None if that is not known, or there was none."""
        if self.ended_after is None or self.first_low is None or self.first_high is None:
            return None
        return self.first_low <= self.ended_after <= self.first_high


def job_outlook(job: TrainingJob) -> Outlook | None:
    """Return the outlook of a job. Return None if the job trains a number of epochs, whatever its loss; or if it is
    over and no report of it is there. Needs the tenant's scope."""
    if job.spec.get(UNTIL) is None:
        return None
    try:
        target = target_of(job.spec, int(job.spec.get("epochs", 0)))
    except (BadScenario, TypeError, ValueError):
        return None
    if target is None:
        return None
    row = JobReport.objects.filter(job=job).first()
    if row is None and job.ended_at is not None:
        return None  # nothing was reported, or it is kept no longer
    row = row or JobReport(job=job)
    over = row.source in (CONVERGED, EXHAUSTED) or job.ended_at is not None
    done = len(row.losses)
    low, rest, high = (
        None if over else whole_epochs(each) for each in (row.epochs_low, row.epochs_left, row.epochs_high)
    )
    until = done + (rest or 0) if row.source == FITTED else done
    points = [(epoch, loss) for epoch, loss in enumerate(row.losses, 1) if loss is not None]
    return Outlook(
        threshold=PER_CENT * target.delta,
        patience=target.patience,
        most=target.most_epochs,
        done=done,
        estimated_now=row.source == FITTED,
        rest=rest,
        low=low,
        high=high,
        reported=_thinned(points),
        estimated=_estimated(row.curve, until) if row.first_after is not None else (),
        first_after=row.first_after,
        first_low=whole_epochs(row.first_low),
        first_high=whole_epochs(row.first_high),
        ended_after=row.ended_after,
        converged=row.source == CONVERGED,
        record=outlook_record(),
    )


def outlook_record() -> OutlookRecord:
    """Return how first estimates held. Needs the tenant's scope. Reads one short range of an index, however many jobs
    there were."""
    rows = JobReport.objects.filter(ended_after__isnull=False, first_after__isnull=False).order_by("-job")
    forecasts = list(rows.values_list("first_low", "first_high", "ended_after")[:LOOKED_AT])
    held = sum(math.ceil(low) <= ended <= math.ceil(high) for low, high, ended in forecasts)
    off = sorted(PER_CENT * abs((low + high) / 2 - ended) / ended for low, high, ended in forecasts)
    return OutlookRecord(len(forecasts), held, off[len(off) // 2] if off else 0.0)


def whole_epochs(number: float | None) -> int | None:
    """Round a number of epochs up, as an epoch that has begun is trained to its end."""
    return None if number is None else math.ceil(number)


def _estimated(curve: Sequence[float], until: int) -> tuple[tuple[int, float], ...]:
    if len(curve) != 4:
        return ()
    b0, b1, b2, scale = curve
    return _thinned([(k, scale * (1.0 / max(b0 * k + b1, 1e-9) + b2)) for k in range(1, until + 1)])


def _thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    step = max(-(-len(points) // MOST_POINTS), 1)
    thin = list(points[::step])
    return tuple(thin if not points or thin[-1] == points[-1] else [*thin, points[-1]])
