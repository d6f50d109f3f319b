"""Screen the jobs at a boundary: jobs that can never run, or are worth nothing any more, are refused for good first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduling.core.occupancy import ROUNDING, room
from scheduling.core.policies.astraea.places import placing
from scheduling.core.policies.astraea.places.room import Room
from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.policies.astraea.schedules.pieces import pieces
from scheduling.core.policies.astraea.ways.candidates import Candidates, candidates
from scheduling.core.policies.astraea.ways.many import candidates_prepare
from scheduling.core.policies.astraea.ways.rests import Rest
from scheduling.core.policies.astraea.window.refusals import larger_than_window
from scheduling.core.policies.astraea.window.round import cells_of
from scheduling.core.speed import ceiling
from scheduling.core.types import EXPIRED, REJECTED, WAITING, Cluster, FloatArray, Job, Plan, Reason, Refusal, View


def screen(
    settings: Settings, view: View, jobs: Sequence[Job], cap: int | None, rests: Mapping[int, Rest]
) -> tuple[list[Job], list[Refusal]]:
    """Return the jobs that stay, and the final refusals of the others. `cap` is the number of slots of the longest
    window that there will ever be."""
    empty = Empty(view.cluster)
    stay, refused = [], []
    candidates_prepare(jobs, view.cluster, exact=settings.workers == "exact")
    for job in jobs:
        refusal = _final(settings, view, job, cap, empty, rests.get(job.number))
        if refusal is None:
            stay.append(job)
        else:
            refused.append(refusal)
    return stay, refused


def _final(
    settings: Settings, view: View, job: Job, cap: int | None, empty: Empty, rest: Rest | None
) -> Refusal | None:
    exact = settings.workers == "exact"
    ways = candidates(job, view.cluster, exact=exact) if rest is None else rest.ways(view.cluster, exact=exact)
    if not ways.pairs:
        return Refusal(job.number, Reason("shared_resource"), REJECTED)
    if settings.value_from == "arrival":
        best = best_value(job, ways.shortest, view.slot)
        if best <= 0:  # G8: even if it could start at once
            return Refusal(job.number, Reason("not_worth_it", {"best_value": best}), EXPIRED)
    if settings.floor and job.number not in view.floors and not empty.fits(job, ways, cap):
        if rest is not None and empty.fits_a_piece(rest, cap, exact=exact):
            return None
        return Refusal(job.number, larger_than_window(empty.needs(ways), cap), REJECTED)
    return None


def best_value(job: Job, shortest: int, slot: int) -> float:
    """Return what the job is worth if its fastest run begins with `slot`."""
    return float(job.value(slot + shortest - job.arrival))


def last_chances(settings: Settings, view: View, plan: Plan, closes_at: int | None) -> dict[int, Reason]:
    """Return, for each job that is outbid in the plan and that `screen` will find worth nothing at the boundary
    `closes_at`, the reason in the plan. A job that has begun, or has a plan at home, is not outbid."""
    if settings.value_from != "arrival" or closes_at is None:
        return {}
    exact, waiting = settings.workers == "exact", {job.number: job for job in view.waiting}
    return {
        refusal.job: refusal.reason
        for refusal in plan.refusals
        if refusal.state == WAITING
        and refusal.reason.code == "outbid"
        and best_value(job := waiting[refusal.job], candidates(job, view.cluster, exact=exact).shortest, closes_at) <= 0
    }


def fits_a_window(settings: Settings, cluster: Cluster, job: Job, cap: int | None) -> bool:
    """Return whether a decision may give a new job something, at whichever boundary: the job, or a piece of it, fits a
    window if the whole cluster stands idle. It is also true for a cluster with no capacity, new or lost as a whole, as
    it is unknown what that will have, and for types that share a resource, which `screen` refuses."""
    exact = settings.workers == "exact"
    if not cluster.capacity.any():
        return True
    ways, empty = candidates(job, cluster, exact=exact), Empty(cluster)
    if not ways.pairs or empty.fits_a_window(ways, cap):
        return True
    return settings.floor and job.divisible and empty.fits_a_piece(Rest(job, job.work), cap, exact=exact)


def never_served(settings: Settings, cluster: Cluster, job: Job, slot: int, cap: int | None) -> Reason | None:
    """Return why no decision from `slot` on will ever give a new job anything, and what would help; None where one may.

    Such a job fits no window, and at home it would be done too late to be worth anything even if it began at once.
    """
    if fits_a_window(settings, cluster, job, cap):
        return None
    exact = settings.workers == "exact"
    ways, empty = candidates(job, cluster, exact=exact), Empty(cluster)
    home_end = empty.end_at_home(job, ways, slot) if settings.floor else None
    if home_end is not None and job.value(home_end - job.arrival) > 0:
        return None
    reason = larger_than_window(empty.needs(ways), cap)
    if cap is None:
        return reason

    def would_fit(other: Job) -> bool:
        if empty.fits_a_window(candidates(other, cluster, exact=exact), cap):
            return True
        return settings.floor and other.divisible and empty.fits_a_piece(Rest(other, other.work), cap, exact=exact)

    most = min(job.chunks, int(max(room(cluster.capacity, each.demand).sum() for each in job.worker_types)))
    workers = _least(lambda count: would_fit(replace(job, max_workers=count)), job.max_workers, most)
    epochs = _least(lambda fewer: would_fit(replace(job, epochs=job.epochs - fewer)), 0, job.epochs - 1)
    helps = {
        "enough_workers": workers,
        "epochs_that_fit": None if epochs is None else job.epochs - epochs,
        "home_end": home_end,
        "fewest_pieces": None,
        "piece_slots": None,
        "most_save_slots": None,
    }
    if settings.floor and not job.divisible:
        whole = Rest(replace(job, divisible=True), job.work)
        helps["fewest_pieces"] = empty.fewest_pieces(whole, cap, exact=exact)
    elif settings.floor and (least := empty.needs(Rest(job, 1).ways(cluster, exact=exact))) is not None:
        helps["piece_slots"] = ceiling(least + job.save_slots)  # a mini-batch, and a save and load
        helps["most_save_slots"] = cap - least if cap > least else None
    return Reason("larger_than_window", {**reason.numbers, **helps})


def most_together(settings: Settings, cluster: Cluster, job: Job, cap: int | None) -> int | None:
    """Return how many jobs like this one fit a window of `cap` slots if only the amounts of their workers count; None
    where windows grow for ever, and where the job fits its owner's cells, on which jobs may run one after the other.

    With w workers that take d_r of resource r for n slots, a job takes at least u_r = min w d_r n over its ways of at
    most `cap` slots, and all servers with workers have cap C_r. So at most min over r of cap C_r / u_r jobs fit.
    """
    ways, capacity = candidates(job, cluster, exact=settings.workers == "exact"), cluster.capacity
    if cap is None or not capacity.any() or (settings.floor and Empty(cluster).fits_at_home(job, ways)):
        return None
    short = ways.duration <= cap
    if not short.any():
        return 0
    demands = np.array([pair.worker.demand for pair in ways.pairs])[ways.pair[short]]  # (ways, resources)
    least = (demands * (ways.workers * ways.duration)[short, None]).min(axis=0)
    there = cap * capacity[:, cluster.hosts_workers].sum(axis=1)
    limited = least > 0
    return int(np.floor(there[limited] / least[limited] + ROUNDING).min()) if limited.any() else None


def _least(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the least number above `low`, and at most `high`, that is enough; None if none is. Every number above one
    that is enough must be enough too."""
    if high <= low or not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class Empty:
    """The cluster, and each tenant's home, with nothing in use. It tells what could ever fit."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.whole = self._room(cluster.capacity)
        self.homes: dict[int, Room] = {}
        self._answers: dict[tuple[object, ...], bool] = {}  # by home, units and gang, whether it fits

    def fits(self, job: Job, ways: Candidates, cap: int | None) -> bool:
        """Return whether the job fits its owner's cells for any time, or the whole cluster within `cap` slots
        (reading 18).

        Fewer workers fit wherever more do, so only the smallest possible gang of each placement is tried.
        """
        return self.fits_at_home(job, ways) or self.fits_a_window(ways, cap)

    def fits_at_home(self, job: Job, ways: Candidates) -> bool:
        """Return whether the job fits its owner's cells for any time."""
        return self._any(ways, job.tenant, None)

    def fits_a_window(self, ways: Candidates, cap: int | None) -> bool:
        """Return whether the whole cluster has room for the job within `cap` slots."""
        return self._any(ways, None, cap)

    def fits_a_piece(self, rest: Rest, cap: int | None, *, exact: bool) -> bool:
        """Return whether the whole cluster has room for any piece of the job within `cap` slots."""
        return cap is None or self.fewest_pieces(rest, cap, exact=exact) is not None

    def fewest_pieces(self, rest: Rest, cap: int, *, exact: bool) -> int | None:
        """Return in how many pieces of at most `cap` slots the job is done at least; None if the whole cluster has room
        for none."""
        some = pieces(self.cluster, rest, None, (0, cap), None, exact=exact)
        if some is None or not self._any(some.ways, None, cap):
            return None
        return ceiling(rest.work / int(some.work.max()))

    def end_at_home(self, job: Job, ways: Candidates, slot: int) -> int | None:
        """Return the slot with which the job's fastest run on its owner's cells would be over if it began with `slot`;
        None where none fits there."""
        home = self._home(job.tenant)
        for candidate in np.argsort(ways.duration, kind="stable").tolist():
            if placing.place(ways, candidate, home, 0, None) is not None:
                return slot + int(ways.duration[candidate])
        return None

    def needs(self, ways: Candidates) -> int | None:
        """Return the shortest duration for which the whole cluster has room; None if it has room for none."""
        placed = [k for k in range(len(ways.duration)) if placing.place(ways, k, self.whole, 0, None) is not None]
        return int(ways.duration[placed].min()) if placed else None

    def _any(self, ways: Candidates, home: int | None, cap: int | None) -> bool:
        """Return whether any way of at most `cap` slots fits tenant `home`'s home, or for None the whole cluster."""
        short = np.arange(len(ways.duration)) if cap is None else np.flatnonzero(ways.duration <= cap)
        short = short[np.argsort(ways.workers[short], kind="stable")]
        kinds = zip(ways.pair[short].tolist(), ways.central[short].tolist(), strict=True)
        smallest: dict[tuple[int, bool], int] = {}
        for kind, candidate in zip(kinds, short.tolist(), strict=True):
            smallest.setdefault(kind, candidate)
        return any(self._place_exists(ways, candidate, home) for candidate in smallest.values())

    def _place_exists(self, ways: Candidates, candidate: int, home: int | None) -> bool:
        """Return whether there is a place for the candidate. The answers are remembered, as most of thousands of jobs
        have workers and parameter servers that take the same."""
        pair = ways.pairs[ways.pair[candidate]]
        gang = (int(ways.workers[candidate]), bool(ways.central[candidate]), ways.most_ps)
        key = (home, pair.key, pair.worker.mbps, pair.ps.mbps, *gang)
        if key not in self._answers:
            room = self.whole if home is None else self._home(home)
            self._answers[key] = placing.place(ways, candidate, room, 0, None) is not None
        return self._answers[key]

    def _home(self, tenant: int) -> Room:
        if tenant not in self.homes:
            self.homes[tenant] = self._room(cells_of(self.cluster, tenant))
        return self.homes[tenant]

    def _room(self, amounts: FloatArray) -> Room:
        return Room(amounts[:, None, :].copy(), self.cluster.hosts_workers, self.cluster.hosts_ps)
