"""What a figure measures: a plain function of one run, None where the run has no such figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.core import metrics
from scheduling.core.metrics.books import bookings
from scheduling.core.offline import astraea, oasis, pdors
from scheduling.core.simulation import Track
from scheduling.core.types import AWARDED, FloatArray
from scheduling.core.value import Sigmoid
from scheduling.management.running import Run


@dataclass(frozen=True)
class Measure:
    """A figure by what it is called in a plot; `of` is not asked where no market is run."""

    title: str
    of: Callable[[Run], float | None] = lambda _: None


def _summed(name: str) -> Callable[[Run], float | None]:
    def of(done: Run) -> float | None:
        found: float | None = metrics.summary(done.scenario, done.outcome)[name]
        return found

    return of


def _completed(done: Run) -> list[tuple[Track, int]]:
    """The jobs that end within the scenario, and when."""
    ended = [(track, _end(track)) for track in done.outcome.tracks if track.state == AWARDED]
    return [(track, end) for track, end in ended if end <= done.scenario.slots]


def _end(track: Track) -> int:
    return max(booking.end for booking in track.bookings)


def value_in_time(done: Run) -> float:
    """Sum of values of the jobs that end within the scenario, in slots after the first possible one."""
    return sum(float(track.job.value(float(end - 1 - track.job.first_slot))) for track, end in _completed(done))


def median_training(done: Run) -> float:
    """Median of completion less arrival; a job that does not end counts the length of the scenario (PD-ORS)."""
    times = {track.job.number: end - track.job.arrival for track, end in _completed(done)}
    return float(np.median([times.get(job.number, float(done.scenario.slots)) for job in done.scenario.jobs]))


def mean_completion(done: Run) -> float:
    """Mean of completion less arrival in slots; a job that does not end counts the time until the scenario's end."""
    times = {track.job.number: end - track.job.arrival for track, end in _completed(done)}
    return float(np.mean([times.get(job.number, done.scenario.slots - job.arrival) for job in done.scenario.jobs]))


def _lateness(done: Run) -> FloatArray:
    """(jobs,) completion less target in slots; a job that does not end is as late as the scenario's end makes it."""
    ends = {track.job.number: end for track, end in _completed(done)}
    late = []
    for job in done.scenario.jobs:
        if isinstance(job.value, Sigmoid):
            elapsed = ends.get(job.number, done.scenario.slots) - 1 - job.first_slot
            late.append(elapsed - job.value.target)
    return np.array(late)


def _served_lateness(done: Run) -> FloatArray:
    """(completed jobs,) completion less target in slots."""
    sigmoids = [(track, end, track.job.value) for track, end in _completed(done)]
    late = [
        end - 1 - track.job.first_slot - value.target for track, end, value in sigmoids if isinstance(value, Sigmoid)
    ]
    return np.array(late)


def _distance(late: Callable[[Run], FloatArray]) -> Callable[[Run], float | None]:
    def of(done: Run) -> float | None:
        distances = np.abs(late(done))
        return float(distances.mean()) if len(distances) else None

    return of


def _variance(done: Run) -> float | None:
    late = _served_lateness(done)
    return float(late.var()) if len(late) > 1 else None


def fairness_distance(done: Run) -> float | None:
    """Mean distance of the tenants' fairness ratios from 1."""
    ratios = [ratio for ratio in metrics.fairness_ratios(done.scenario, done.outcome) if ratio is not None]
    return float(np.mean([abs(ratio - 1.0) for ratio in ratios])) if ratios else None


def _used(done: Run) -> FloatArray:
    """(slots,) units of the first resource in use in each slot, beyond the scenario's end where a run goes on."""
    used: FloatArray = np.zeros(max((booking.end for _, booking in bookings(done.outcome)), default=1))
    for job, booking in bookings(done.outcome):
        demand = float(job.worker_types[booking.worker_type].demand[0])
        for row in booking.allocation:
            used[row.start : row.end] += row.workers * demand
    return used


def peak_utilisation(done: Run) -> float:
    """The largest part of the first resource in use in any slot."""
    return float(_used(done).max() / done.scenario.cluster.total[0])


def mean_utilisation(done: Run) -> float:
    """Mean part of the first resource in use from the first slot in which anything runs to the last."""
    used = _used(done)
    busy = np.flatnonzero(used)
    return float(used[busy[0] : busy[-1] + 1].mean() / done.scenario.cluster.total[0]) if len(busy) else 0.0


def makespan(done: Run) -> float:
    """Slots from the first arrival to the last end."""
    first = min((job.arrival for job in done.scenario.jobs), default=0.0)
    return max((booking.end for _, booking in bookings(done.outcome)), default=0) - first


def revenue_per_job(done: Run) -> float | None:
    """Realised revenue over the jobs that were awarded."""
    summary = metrics.summary(done.scenario, done.outcome)
    return float(summary["revenue"] / summary["awarded"]) if summary["awarded"] else None


def ideal_per_job(done: Run) -> float | None:
    """Ideal revenue over the jobs that were awarded."""
    summary = metrics.summary(done.scenario, done.outcome)
    return float(summary["ideal_revenue"] / summary["awarded"]) if summary["awarded"] else None


def part_of_optimum(done: Run) -> float | None:
    """Realised revenue over what nobody can exceed who knows all jobs beforehand (Astraea)."""
    end = max(done.scenario.slots, len(_used(done)))
    best = astraea.upper_bound(done.scenario.cluster, done.scenario.jobs, end)
    return float(metrics.summary(done.scenario, done.outcome)["revenue"]) / best if best > 0 else None


def _optimum_over_own(done: Run) -> float | None:
    """The offline optimum over what the policy reached (OASiS and PD-ORS)."""
    own = value_in_time(done)
    optimum = oasis.optimum if done.scenario.policy["name"] == "oasis" else pdors.optimum
    best = optimum(done.scenario.cluster, done.scenario.jobs, done.scenario.slots)
    if own <= 0:
        return 1.0 if best <= 0 else None
    return best / own


MEASURES: Mapping[str, Measure] = {
    "revenue": Measure("realised revenue", _summed("revenue")),
    "ideal_revenue": Measure("ideal revenue", _summed("ideal_revenue")),
    "awarded": Measure("jobs awarded", _summed("awarded")),
    "fairness_variance": Measure("variance of the fairness ratio", _summed("fairness_variance")),
    "fairness_distance": Measure("mean distance of the fairness ratio from 1", fairness_distance),
    "revenue_per_job": Measure("realised revenue per job", revenue_per_job),
    "ideal_per_job": Measure("ideal revenue per job", ideal_per_job),
    "part_of_optimum": Measure("revenue over the offline bound", part_of_optimum),
    "optimum_over_own": Measure("offline optimum over the policy's value", _optimum_over_own),
    "peak_utilisation": Measure("largest part of the workers in use", peak_utilisation),
    "mean_utilisation": Measure("mean part of the workers in use", mean_utilisation),
    "makespan": Measure("makespan, slots", makespan),
    "value_in_time": Measure("total value", value_in_time),
    "median_training": Measure("median training time, slots", median_training),
    "mean_completion": Measure("mean completion time, slots", mean_completion),
    "target_distance": Measure("mean distance from the target, slots", _distance(_served_lateness)),
    "target_distance_all": Measure("the same, unserved jobs at the end", _distance(_lateness)),
    "size_difference": Measure("difference of sizes, million numbers"),
    "request_difference": Measure("difference of requests"),
    "requests": Measure("requests in all"),
    "target_variance": Measure("variance of completion less target", _variance),
}
