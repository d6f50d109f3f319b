"""The measures of figures. Each is a plain function of one run, and returns None where the run has no such figure."""

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
from scheduling.lab.reproduction.other_speeds import RESTART
from scheduling.lab.running import ScenarioRun


@dataclass(frozen=True)
class Measure:
    """A measure with its title in a plot; `of` is not called where no market is run. `about` is given where the measure
    is one of jobs that ended, and returns how many these are. Two runs compare by it only if that is all of them."""

    title: str
    of: Callable[[ScenarioRun], float | None] = lambda _: None
    about: Callable[[ScenarioRun], int] | None = None


def _summed(name: str) -> Callable[[ScenarioRun], float | None]:
    def of(done: ScenarioRun) -> float | None:
        value: float | None = metrics.summary(done.scenario, done.outcome)[name]
        return value

    return of


def _completed(done: ScenarioRun) -> list[tuple[Track, int]]:
    """Return the jobs that end within the scenario, and when."""
    ended = [(track, _end(track)) for track in done.outcome.tracks if track.state == AWARDED]
    return [(track, end) for track, end in ended if end <= done.scenario.slots]


def _ended_in_time(done: ScenarioRun) -> int:
    return len(_completed(done))


def _ended(done: ScenarioRun) -> int:
    """Return how many jobs end at all, even beyond the scenario's end."""
    return sum(track.state == AWARDED for track in done.outcome.tracks)


def _end(track: Track) -> int:
    return max(booking.end for booking in track.bookings)


def value_in_time(done: ScenarioRun) -> float:
    """Return the sum of values of the jobs that end within the scenario, in slots after the first possible one."""
    return sum(float(track.job.value(float(end - 1 - track.job.first_slot))) for track, end in _completed(done))


def median_training(done: ScenarioRun) -> float:
    """Return the median of completion less arrival; a job that does not end counts the length of the scenario
    (PD-ORS)."""
    times = {track.job.number: end - track.job.arrival for track, end in _completed(done)}
    return float(np.median([times.get(job.number, float(done.scenario.slots)) for job in done.scenario.jobs]))


def mean_completion(done: ScenarioRun) -> float:
    """Return the mean of completion less arrival in slots; a job that does not end counts the time until the scenario's
    end."""
    times = {track.job.number: end - track.job.arrival for track, end in _completed(done)}
    return float(np.mean([times.get(job.number, done.scenario.slots - job.arrival) for job in done.scenario.jobs]))


def _lateness(done: ScenarioRun) -> FloatArray:
    """Return (jobs,) completion less target in slots; a job that does not end is as late as the scenario's end makes
    it."""
    ends = {track.job.number: end for track, end in _completed(done)}
    late = []
    for job in done.scenario.jobs:
        if isinstance(job.value, Sigmoid):
            elapsed = ends.get(job.number, done.scenario.slots) - 1 - job.first_slot
            late.append(elapsed - job.value.target)
    return np.array(late)


def _served_lateness(done: ScenarioRun) -> FloatArray:
    """Return (completed jobs,) completion less target in slots."""
    sigmoids = [(track, end, track.job.value) for track, end in _completed(done)]
    late = [
        end - 1 - track.job.first_slot - value.target for track, end, value in sigmoids if isinstance(value, Sigmoid)
    ]
    return np.array(late)


def _distance(late: Callable[[ScenarioRun], FloatArray]) -> Callable[[ScenarioRun], float | None]:
    def of(done: ScenarioRun) -> float | None:
        distances = np.abs(late(done))
        return float(distances.mean()) if len(distances) else None

    return of


def _variance(done: ScenarioRun) -> float | None:
    late = _served_lateness(done)
    return float(late.var()) if len(late) > 1 else None


def fairness_distance(done: ScenarioRun) -> float | None:
    """Return the mean distance of the tenants' fairness ratios from 1."""
    ratios = [ratio for ratio in metrics.fairness_ratios(done.scenario, done.outcome) if ratio is not None]
    return float(np.mean([abs(ratio - 1.0) for ratio in ratios])) if ratios else None


def _used(done: ScenarioRun) -> FloatArray:
    """Return (slots,) units of the first resource in use in each slot, beyond the scenario's end where a run
    continues."""
    used: FloatArray = np.zeros(max((booking.end for _, booking in bookings(done.outcome)), default=1))
    for job, booking in bookings(done.outcome):
        demand = float(job.worker_types[booking.worker_type].demand[0])
        for row in booking.allocation:
            used[row.start : row.end] += row.workers * demand
    return used


def peak_utilisation(done: ScenarioRun) -> float:
    """Return the largest part of the first resource in use in any slot."""
    return float(_used(done).max() / done.scenario.cluster.total[0])


def mean_utilisation(done: ScenarioRun) -> float:
    """Return the mean part of the first resource in use from the first slot in which anything runs to the last."""
    used = _used(done)
    busy = np.flatnonzero(used)
    return float(used[busy[0] : busy[-1] + 1].mean() / done.scenario.cluster.total[0]) if len(busy) else 0.0


def makespan(done: ScenarioRun) -> float:
    """Return the slots from the first arrival to the last end."""
    first = min((job.arrival for job in done.scenario.jobs), default=0.0)
    return max((booking.end for _, booking in bookings(done.outcome)), default=0) - first


def mean_tasks(done: ScenarioRun) -> float:
    """Return the mean number of workers and parameter servers at work, over the slots in which anything runs."""
    units: dict[int, int] = {}
    for _, booking in bookings(done.outcome):
        for slot in range(booking.start, booking.end):
            units[slot] = units.get(slot, 0) + booking.workers + booking.ps
    return float(np.mean(list(units.values()))) if units else 0.0


def restarting(done: ScenarioRun) -> float | None:
    """Return the part of the running time of jobs that restarts take, or None where nothing ran. This is for policies
    of single slots."""
    slots = sum(booking.end - booking.start for _, booking in bookings(done.outcome))
    changes = 0
    for track in done.outcome.tracks:
        held = [sorted((row.server, row.workers, row.ps) for row in booking.allocation) for booking in track.bookings]
        ends = [booking.end for booking in track.bookings]
        starts = [booking.start for booking in track.bookings]
        changes += sum(
            before != after or end != start
            for before, after, end, start in zip(held, held[1:], ends, starts[1:], strict=False)
        )
    return changes * RESTART / (slots * done.scenario.cluster.slot_seconds) if slots else None


def owners_share(done: ScenarioRun) -> float | None:
    """Return the owners' income over the surplus, which is all value less what everybody would have alone; None without
    a surplus."""
    summary = metrics.summary(done.scenario, done.outcome)
    if any(amount is None for amount in done.alone):
        return None
    surplus = summary["revenue"] - sum(amount or 0.0 for amount in done.alone)
    return float(summary["owners_income"] / surplus) if surplus > 0 else None


def _gains_over_alone(done: ScenarioRun) -> FloatArray:
    """Return (tenants,) credits above what each would have alone, or nothing where that is not known."""
    if any(amount is None for amount in done.alone):
        return np.zeros(0)
    return metrics.gains(done.scenario, done.outcome) - np.array(done.alone, dtype=np.float64)


def least_gain(done: ScenarioRun) -> float | None:
    """Return the least of the tenants' gains over alone, in credits."""
    gains = _gains_over_alone(done)
    return float(gains.min()) if len(gains) else None


def median_gain(done: ScenarioRun) -> float | None:
    """Return the median of the tenants' gains over alone, in credits."""
    gains = _gains_over_alone(done)
    return float(np.median(gains)) if len(gains) else None


def idle_in_use(done: ScenarioRun) -> float | None:
    """Return the units x slots that were rented, over those that were for sale."""
    idle = sum(float(window.idle.sum()) for window in done.outcome.windows)
    return sum(float(window.rented.sum()) for window in done.outcome.windows) / idle if idle > 0 else None


def guests_served(done: ScenarioRun) -> float:
    """Return how many jobs of tenants without cells were finished."""
    owns = done.scenario.cluster.quota.sum(axis=0) > 0
    return float(sum(track.state == AWARDED and not owns[track.job.tenant] for track in done.outcome.tracks))


def revenue_per_job(done: ScenarioRun) -> float | None:
    """Return realised revenue over the jobs that were awarded."""
    summary = metrics.summary(done.scenario, done.outcome)
    return float(summary["revenue"] / summary["awarded"]) if summary["awarded"] else None


def ideal_per_job(done: ScenarioRun) -> float | None:
    """Return ideal revenue over the jobs that were awarded."""
    summary = metrics.summary(done.scenario, done.outcome)
    return float(summary["ideal_revenue"] / summary["awarded"]) if summary["awarded"] else None


def part_of_optimum(done: ScenarioRun) -> float | None:
    """Return realised revenue over an upper bound that holds even for a policy that knows all jobs beforehand
    (Astraea)."""
    end = max(done.scenario.slots, len(_used(done)))
    best = astraea.upper_bound(done.scenario.cluster, done.scenario.jobs, end)
    return float(metrics.summary(done.scenario, done.outcome)["revenue"]) / best if best > 0 else None


def _optimum_over_own(done: ScenarioRun) -> float | None:
    """Return the offline optimum over what the policy reached (OASiS and PD-ORS)."""
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
    "owners_share": Measure("owners' part of the surplus", owners_share),
    "least_gain": Measure("least gain over alone, credits", least_gain),
    "median_gain": Measure("median gain over alone, credits", median_gain),
    "idle_in_use": Measure("part of what is for sale that is rented", idle_in_use),
    "guests_served": Measure("jobs served of tenants without cells", guests_served),
    "revenue_per_job": Measure("realised revenue per job", revenue_per_job),
    "ideal_per_job": Measure("ideal revenue per job", ideal_per_job),
    "part_of_optimum": Measure("revenue over the offline bound", part_of_optimum),
    "optimum_over_own": Measure("offline optimum over the policy's value", _optimum_over_own),
    "peak_utilisation": Measure("largest part of the workers in use", peak_utilisation, _ended),
    "mean_utilisation": Measure("mean part of the workers in use", mean_utilisation, _ended),
    "makespan": Measure("makespan, slots", makespan, _ended),
    "value_in_time": Measure("total value", value_in_time),
    "median_training": Measure("median training time, slots", median_training),
    "mean_completion": Measure("mean completion time, slots", mean_completion, _ended_in_time),
    "target_distance": Measure("mean distance from the target, slots", _distance(_served_lateness), _ended_in_time),
    "target_distance_all": Measure("the same, unserved jobs at the end", _distance(_lateness)),
    "mean_tasks": Measure("mean number of units at work", mean_tasks, _ended),
    "restarting": Measure("part of the running time that restarts take", restarting, _ended),
    "size_difference": Measure("difference of sizes, million numbers"),
    "request_difference": Measure("difference of requests"),
    "requests": Measure("requests in all"),
    "relative_speed": Measure("speed, times that of one worker and one parameter server"),
    "target_variance": Measure("variance of completion less target", _variance, _ended_in_time),
}
