"""Who takes part at a boundary: jobs that can never run, or are worth nothing any more, leave first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.policies.astraea import placing
from scheduling.core.policies.astraea.candidates import Candidates, candidates
from scheduling.core.policies.astraea.refusals import larger_than_window
from scheduling.core.policies.astraea.room import Room
from scheduling.core.policies.astraea.round import cells_of
from scheduling.core.policies.astraea.settings import Settings
from scheduling.core.types import EXPIRED, REJECTED, Cluster, FloatArray, Job, Reason, Refusal, View


def screen(settings: Settings, view: View, jobs: Sequence[Job], cap: int | None) -> tuple[list[Job], list[Refusal]]:
    """The jobs that stay, and final answers to the others. `cap`: slots of the longest window there will ever be."""
    empty = Empty(view.cluster)
    stay, refused = [], []
    for job in jobs:
        refusal = _final(settings, view, job, cap, empty)
        if refusal is None:
            stay.append(job)
        else:
            refused.append(refusal)
    return stay, refused


def _final(settings: Settings, view: View, job: Job, cap: int | None, empty: Empty) -> Refusal | None:
    ways = candidates(job, view.cluster, exact=settings.workers == "exact")
    if not ways.pairs:
        return Refusal(job.number, Reason("shared_resource"), REJECTED)
    if settings.value_from == "arrival":
        best = float(job.value(view.slot + ways.shortest - job.arrival))
        if best <= 0:  # G8; even if it could start at once
            return Refusal(job.number, Reason("not_worth_it", {"best_value": best}), EXPIRED)
    if settings.floor and job.number not in view.floors and not empty.fits(job, ways, cap):
        return Refusal(job.number, larger_than_window(empty.needs(ways), cap), REJECTED)
    return None


class Empty:
    """The cluster, and each tenant's home, with nothing in use: what could ever fit."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.whole = self._room(cluster.capacity)
        self.homes: dict[int, Room] = {}

    def fits(self, job: Job, ways: Candidates, cap: int | None) -> bool:
        """Whether the job fits its owner's cells for any time, or the whole cluster within `cap` slots (reading 18).

        Fewer workers fit wherever more do, so of each placement only the smallest gang in question is tried.
        """
        return self._any(ways, self._home(job.tenant), None) or self._any(ways, self.whole, cap)

    def needs(self, ways: Candidates) -> int | None:
        """The shortest duration that the whole cluster has room for; None if it has room for none."""
        placed = [k for k in range(len(ways.duration)) if placing.place(ways, k, self.whole, 0, None) is not None]
        return int(ways.duration[placed].min()) if placed else None

    def _any(self, ways: Candidates, room: Room, cap: int | None) -> bool:
        short = np.arange(len(ways.duration)) if cap is None else np.flatnonzero(ways.duration <= cap)
        kinds = zip(ways.pair[short].tolist(), ways.central[short].tolist(), strict=True)
        smallest: dict[tuple[int, bool], int] = {}
        for kind, candidate in zip(kinds, short.tolist(), strict=True):
            smallest.setdefault(kind, candidate)  # candidates come by ascending workers
        return any(placing.place(ways, candidate, room, 0, None) is not None for candidate in smallest.values())

    def _home(self, tenant: int) -> Room:
        if tenant not in self.homes:
            self.homes[tenant] = self._room(cells_of(self.cluster, tenant))
        return self.homes[tenant]

    def _room(self, amounts: FloatArray) -> Room:
        return Room(amounts[:, None, :].copy(), self.cluster.hosts_workers, self.cluster.hosts_ps)
