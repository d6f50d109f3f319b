"""Turn what running programs report into what a policy may believe (Optimus, sections 3.1 and 3.2, while jobs run).

A program reports the average loss of each epoch, and how many mini-batches a second it trained with how many parameter
servers and workers. A job may be submitted until it converges (a `LossTarget`): it ends after the first epoch in which
the loss has moved by less than `delta` of the largest loss so far, `patience` times in a row, and after `most_epochs`
at the latest. The end is judged by what was reported, never by a fit.

Until then a policy gets an estimate of the work that is left. It is the declared work, the most epochs, until the
fitted loss curve is *good*: it falls, few points are outliers, and curves fitted to the first 60 and 80 % of the epochs
predict the losses of the rest. Then the curve gives the estimate, and the three fits show how certain it is.

The result of a job's reports, a `Belief`, is small: it is computed where reports arrive, and the decision of a slot
only reads it. A policy gets it only if it states that nobody gains by a false report (`HeedsReports`).

This is safe even if programs lie. Of N epochs done and paid for, only N losses count. Whatever a program reports,

    1 epoch                        <= epochs to go          <= most_epochs - done
    seconds to go, with least gang <= seconds as declared, with least gang

With false losses a job therefore has, in every slot, no more to gain from a unit than one that declared the same work
and reports nothing. With false speeds the gains that it shows, over all units together, are no more than its declared
time. Each unit in each slot has its price, whatever was reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.core.estimates import curves, losses, speeds
from scheduling.core.estimates.convergence import PATIENCE, total_epochs
from scheduling.core.speed import elastic_rate
from scheduling.core.types import BoolArray, FloatArray, Job, View

DECLARED, FITTED, CONVERGED, EXHAUSTED = "declared", "fitted", "converged", "exhausted"
PARTS = (0.6, 0.8, 1.0)  # of the epochs done, from which curves are fitted; the last one counts
FEWEST_EPOCHS = 10  # before a curve is called good
GOOD = 0.05  # largest root mean square error at epochs that were not fitted, in parts of the largest loss
MOST_MEASURED = 20  # the number of a job's latest speeds that count
FARTHEST = 1000.0  # a speed that differs from the declared one by more than this factor is ignored


@dataclass(frozen=True, slots=True)
class LossTarget:
    """The condition on which a job stops training. `delta` is a part of the largest loss."""

    delta: float
    most_epochs: int
    patience: int = PATIENCE

    def __post_init__(self) -> None:
        if not (0.0 < self.delta < 1.0 and self.patience >= 1 and self.most_epochs >= 1):
            raise ValueError("a target has a delta between 0 and 1, and a patience and most epochs of at least 1")


@dataclass(frozen=True, slots=True)
class LossReports:
    """What a program has reported: the average loss of epochs 1, 2, ..., nan where it reported none; and (parameter
    servers, workers, mini-batches a second), the latest last."""

    losses: tuple[float, ...] = ()
    speeds: tuple[tuple[int, int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A job that trains: the epochs that it has done and paid for, and its reports. `target` is None if it was not
    submitted until it converges: then its losses are kept, but change nothing."""

    done: int
    target: LossTarget | None = None
    reports: LossReports = LossReports()

    @property
    def losses(self) -> tuple[float, ...]:
        """The losses that count, which are those of epochs that are done."""
        return self.reports.losses[: self.done]


@dataclass(frozen=True, slots=True)
class EpochOutlook:
    """The epochs to go that a policy gets, with the least (`low`) and most (`high`) by the fits. `source` says where
    they come from. `curve` is the (b0, b1, b2) that was fitted to the reported losses in parts of `scale`, if any was.
    A job that has converged or done its most epochs has none to go."""

    source: str
    epochs: float
    low: float
    high: float
    curve: tuple[float, float, float] | None = None
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Belief:
    """What a policy may know of a running job from its reports: the epochs to go, None if they are as declared, and the
    coefficients of its speed function in mini-batches of all workers, empty if no speed was measured."""

    epochs: float | None = None
    speed: tuple[float, ...] = ()


def converged_after(losses: Sequence[float], target: LossTarget) -> int | None:
    """Return the first epoch after which the loss has converged, or None if it has not. Later losses never change it.

    A loss that moves by `delta` or more, or that is missing or not finite, begins the count anew.
    """
    largest, still, before = 0.0, 0, math.nan
    for epoch, loss in enumerate(losses, 1):
        if math.isfinite(loss):
            largest = max(largest, abs(loss))
        moved = abs(before - loss)
        still = still + 1 if moved == 0 or moved < target.delta * largest else 0
        if still >= target.patience:
            return epoch
        before = loss
    return None


def end_of(running: Running) -> str | None:
    """Return why a job has nothing left to train, or None if it has."""
    target = running.target
    if target is None:
        return None
    if converged_after(running.losses, target) is not None:
        return CONVERGED
    return EXHAUSTED if running.done >= target.most_epochs else None


def outlooks(jobs: Sequence[Running]) -> list[EpochOutlook | None]:
    """Return the outlook of every job that trains until it converges, None for others. One call fits all of them."""
    outlooks_found: list[EpochOutlook | None] = [_ended(each) for each in jobs]
    open_ones = [
        (n, each, each.target) for n, each in enumerate(jobs) if each.target is not None and outlooks_found[n] is None
    ]
    if not open_ones:
        return outlooks_found
    counts = np.array([len(each.losses) for _, each, _ in open_ones])
    whole = np.full((len(open_ones), max(int(counts.max()), 1)), np.nan)
    for row, (_, each, _) in enumerate(open_ones):
        whole[row, : counts[row]] = each.losses
    fits = [_fit(whole, np.ceil(part * counts)) for part in PARTS]
    good = (counts >= FEWEST_EPOCHS) & fits[-1].converging
    for part, curve in zip(PARTS[:-1], fits, strict=False):
        good &= curve.converging & (_miss(whole, np.ceil(part * counts), counts, curve) <= GOOD)
    delta = np.array([target.delta for _, _, target in open_ones])
    patience = np.array([target.patience for _, _, target in open_ones])
    totals = np.array([total_epochs(curve, delta, 1) + patience - 1.0 for curve in fits])
    for row, (n, each, target) in enumerate(open_ones):
        declared = float(target.most_epochs - each.done)
        epochs = np.clip(totals[:, row] - each.done, 1.0, declared) if good[row] else np.array([1.0, declared])
        outlooks_found[n] = EpochOutlook(
            FITTED if good[row] else DECLARED,
            epochs=float(epochs[-1]),
            low=float(epochs.min()),
            high=float(epochs.max()),
            curve=_line(fits[-1], row),
            scale=float(fits[-1].scale[row]),
        )
    return outlooks_found


def _ended(running: Running) -> EpochOutlook | None:
    why = end_of(running)
    return None if why is None else EpochOutlook(why, 0.0, 0.0, 0.0)


def _fit(whole: FloatArray, first: FloatArray) -> curves.Curves:
    """Return the curves fitted to the first epochs of each job, as many as `first` (jobs,) says."""
    beyond = np.arange(whole.shape[1])[None, :] >= first[:, None]
    return curves.fit(losses.cleaned(np.where(beyond, np.nan, whole)))


def _miss(whole: FloatArray, first: FloatArray, counts: FloatArray, curve: curves.Curves) -> FloatArray:
    """Return the root mean square error (jobs,) of a curve at the epochs that it was not fitted to, in parts of the
    largest loss that it was fitted to; inf where none of these epochs has a loss."""
    epochs = np.arange(1, whole.shape[1] + 1)[None, :]
    later: BoolArray = (epochs > first[:, None]) & (epochs <= counts[:, None]) & np.isfinite(whole)
    forecast = np.stack([curve.loss(np.full(len(whole), float(epoch))) for epoch in epochs[0]], axis=1)
    gaps = np.where(later, (np.where(later, whole, 0.0) - forecast) / curve.scale[:, None], 0.0)
    number = later.sum(axis=1)
    with np.errstate(over="ignore"):
        error: FloatArray = np.sqrt((gaps * gaps).sum(axis=1) / np.maximum(number, 1))
    return np.where(number > 0, error, np.inf)


def _line(curve: curves.Curves, row: int) -> tuple[float, float, float] | None:
    """Return b0, b1 and b2 of one job, or None if it had too few points."""
    return (float(curve.b0[row]), float(curve.b1[row]), float(curve.b2[row])) if curve.fitted[row] else None


def believed_speed(job: Job, measured: Sequence[tuple[int, int, float]]) -> Job:
    """Return the job with a speed function fitted to its probes and to its reports, in mini-batches of all workers.

    With its least gang it is never believed to be slower than declared, since a slower job has more to gain. A speed
    that differs from the declared one by more than a factor of a thousand is ignored.
    """
    ps, workers = job.least_ps, job.min_workers

    def declared(p: int, w: int) -> float:
        return elastic_rate(job, w, p, (0, 0), 1.0, centralized=False)

    useful = [
        (p, w, speed)
        for p, w, speed in measured[-MOST_MEASURED:]
        if p >= ps and w >= workers and declared(p, w) / FARTHEST <= speed <= declared(p, w) * FARTHEST
    ]
    if not useful:
        return job
    most_ps = job.max_workers if job.max_ps is None else job.max_ps
    most = (0 if job.all_reduce else most_ps, job.max_workers)
    pairs = [(max(p, ps), max(w, workers)) for p, w in speeds.probes(*most)]
    means = speeds.measured(useful)
    probed = [(p, w, declared(p, w)) for p, w in dict.fromkeys(pairs) if (p, w) not in means]
    points = np.array([*probed, *((p, w, speed) for (p, w), speed in means.items())]).T
    fitted = speeds.fit(points[0][None], points[1][None], points[2][None], speeds.ASYNC)[0]
    alone = float(speeds.steps_per_second(fitted, ps, workers, speeds.ASYNC))
    faster = fitted * min(1.0, alone / declared(ps, workers))
    return replace(job, samples=replace(job.samples, mode=speeds.ASYNC, speed=tuple(faster.tolist())))


def belief_of(job: Job, running: Running, outlook: EpochOutlook | None) -> Belief:
    """Return what follows from a job's reports; `outlook` is the job's own, as `outlooks` returns it."""
    speed = () if job.samples.speed else believed_speed(job, running.reports.speeds).samples.speed
    return Belief(None if outlook is None else outlook.epochs, tuple(speed))


def believed(view: View, beliefs: Mapping[int, Belief], heeded: Callable[[Job, float, float], float]) -> View:
    """Return the view with what is believed of running jobs in place of what was declared. The decision depends on this
    view alone: stored as the input of an interval, it gives the same plan again. `heeded`: see `HeedsReports`."""
    jobs: list[Job] = []
    remaining: list[float] = []
    for job, rest in zip(view.waiting, view.remaining.tolist(), strict=True):
        belief = beliefs.get(job.number, Belief())
        if belief.speed and not job.samples.speed:
            job = replace(job, samples=replace(job.samples, mode=speeds.ASYNC, speed=belief.speed))
        if belief.epochs is not None:
            rest_by_belief = min(rest, max(belief.epochs, 1.0) * job.work / job.epochs)
            rest = min(rest, heeded(job, rest, rest_by_belief))
        jobs.append(job)
        remaining.append(rest)
    changed = {job.number: job for job in jobs}
    return replace(view, waiting=tuple(jobs), remaining=np.array(remaining), jobs={**view.jobs, **changed})


def informed(view: View, running: Mapping[int, Running]) -> View:
    """Return the view with what follows from the reports of running programs, computed for all of them at once. Jobs
    that have ended by their target are no longer in it."""
    outlook_by_job = dict(zip(running, outlooks(list(running.values())), strict=True))
    over = {
        number for number, each in outlook_by_job.items() if each is not None and each.source in (CONVERGED, EXHAUSTED)
    }
    places = [index for index, job in enumerate(view.waiting) if job.number not in over]
    waiting = tuple(view.waiting[index] for index in places)
    beliefs = {
        job.number: belief_of(job, running[job.number], outlook_by_job[job.number])
        for job in waiting
        if job.number in running
    }
    return believed(replace(view, waiting=waiting, remaining=view.remaining[places]), beliefs, _as_told)


def _as_told(job: Job, rest: float, reported: float) -> float:
    return reported
