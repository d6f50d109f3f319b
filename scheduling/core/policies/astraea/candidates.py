"""The ways to run one job: with how many workers, for how many slots, on one server or on several.

For one placement and pair of types, only the smallest number of workers of each distinct duration can win: more
workers for the same duration are worth the same, cost no less and fit no better. Dropping the rest is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import room
from scheduling.core.speed import TOLERANCE, minibatches_per_slot
from scheduling.core.types import BoolArray, Cluster, FloatArray, Job, UnitType

IntArray = npt.NDArray[np.int64]
MOST_UNITS = np.iinfo(np.int16).max  # that are counted on one server


@dataclass(frozen=True, eq=False)
class Pair:
    """One worker type and one parameter-server type of a job, drawing on different resources (R27)."""

    worker_type: int
    ps_type: int
    worker: UnitType
    ps: UnitType
    needs: IntArray  # (max workers + 1,) parameter servers for so many workers on other servers (R9)
    key: tuple[bytes, bytes]  # equal for all jobs whose workers and parameter servers take the same


@dataclass(frozen=True, eq=False)
class Candidates:
    """All ways worth trying, in order of (workers, centralized first, pair): the order in which ties are broken."""

    pairs: tuple[Pair, ...]
    pair: IntArray  # (candidates,) index into pairs
    central: BoolArray  # (candidates,) all workers and the one parameter server on one server
    workers: IntArray  # (candidates,)
    duration: IntArray  # (candidates,) slots
    level: IntArray  # (candidates,) 2 ** level <= duration < 2 ** (level + 1)
    least_ps: IntArray  # (candidates,) no placement needs fewer parameter servers
    most_ps: int
    shortest: int  # slots of the fastest way; 0 where there is none at all


_beside_ps: WeakKeyDictionary[Cluster, dict[bytes, int]] = WeakKeyDictionary()
_known: WeakKeyDictionary[Cluster, WeakKeyDictionary[Job, dict[bool, Candidates]]] = WeakKeyDictionary()
_alike: WeakKeyDictionary[Job, dict[tuple[object, ...], Candidates]] = WeakKeyDictionary()


def candidates(job: Job, cluster: Cluster, *, exact: bool) -> Candidates:
    """The job's candidates; `exact` allows the largest gang only (R8). Remembered: they never change."""
    of_cluster = _known.get(cluster)
    if of_cluster is None:
        of_cluster = _known[cluster] = WeakKeyDictionary()
    of_job = of_cluster.get(job)
    if of_job is None:
        of_job = of_cluster[job] = {}
    if exact not in of_job:
        of_job[exact] = _in_clusters_alike(job, cluster, exact)
    return of_job[exact]


def _in_clusters_alike(job: Job, cluster: Cluster, exact: bool) -> Candidates:
    """They depend on no more of a cluster than this: on its owner's cells alone a job often has the same ones."""
    beside = tuple(
        min(_most_beside_ps(cluster, worker.demand), max(job.max_workers, 1) - 1) for worker in job.worker_types
    )
    key = (exact, cluster.slot_seconds, beside)
    known = _alike.setdefault(job, {})
    if key not in known:
        known[key] = _find_candidates(job, cluster, exact)
    return known[key]


def _find_candidates(job: Job, cluster: Cluster, exact: bool) -> Candidates:
    pairs = _pairs(job)
    counts = np.arange(job.max_workers if exact else max(job.min_workers, 1), job.max_workers + 1)
    most_ps = MOST_UNITS if job.max_ps is None else min(job.max_ps, MOST_UNITS)
    rows = [
        _of_one_placement(job, cluster, pair, index, counts, central)
        for index, pair in enumerate(pairs)
        for central in (True, False)
    ]
    table = np.concatenate(rows) if rows else np.zeros((0, 5), dtype=np.int64)
    shortest = int(table[:, 3].min()) if len(table) else 0
    table = table[table[:, 4] <= most_ps]
    table = table[np.lexsort((table[:, 0], 1 - table[:, 1], table[:, 2]))]
    pair, central, workers, duration, least_ps = np.ascontiguousarray(table.T)
    level = np.frexp(duration.astype(np.float64))[1].astype(np.int64) - 1
    return Candidates(pairs, pair, central == 1, workers, duration, level, least_ps, most_ps, shortest)


def _pairs(job: Job) -> tuple[Pair, ...]:
    """Pairs whose worker and parameter server do not compete for one resource, lowest first."""
    return tuple(
        Pair(w, p, worker, ps, _needs(job.max_workers, worker, ps), (worker.demand.tobytes(), ps.demand.tobytes()))
        for w, worker in enumerate(job.worker_types)
        for p, ps in enumerate(job.ps_types)
        if not ((worker.demand > 0) & (ps.demand > 0)).any()
    )


def _needs(most: int, worker: UnitType, ps: UnitType) -> IntArray:
    return np.maximum(1, _ceiling(np.arange(most + 1) * worker.mbps / ps.mbps))


def _of_one_placement(
    job: Job, cluster: Cluster, pair: Pair, index: int, counts: IntArray, central: bool
) -> npt.NDArray[np.int64]:
    """(ways, 5) rows (pair, central, workers, duration, least ps): the fewest workers of each distinct duration."""
    if not central:
        counts = counts[counts >= 2]
    rate = minibatches_per_slot(job, pair.worker_type, pair.ps_type, cluster.slot_seconds, centralized=central)
    durations = np.maximum(1, _ceiling(job.work / (rate * counts)))
    first = np.ones(len(counts), dtype=bool)
    np.not_equal(durations[1:], durations[:-1], out=first[1:])  # durations fall as workers are added
    workers, durations = counts[first], durations[first]
    beside = np.minimum(workers - 1, _most_beside_ps(cluster, pair.worker.demand))
    least_ps = np.ones_like(workers) if central else pair.needs[workers - beside]
    rows = np.empty((len(workers), 5), dtype=np.int64)
    rows[:, 0], rows[:, 1] = index, central
    rows[:, 2], rows[:, 3], rows[:, 4] = workers, durations, least_ps
    return rows


def _ceiling(x: npt.NDArray[np.floating]) -> IntArray:
    """`speed.ceiling` of each element, by the same arithmetic."""
    return np.ceil(x - TOLERANCE * np.maximum(1.0, np.abs(x))).astype(np.int64)


def _most_beside_ps(cluster: Cluster, demand: FloatArray) -> int:
    """Workers that one empty server can run beside a parameter server, at most. Remembered for each demand."""
    of_cluster = _beside_ps.setdefault(cluster, {})
    key = demand.tobytes()
    if key not in of_cluster:
        of_cluster[key] = _count_beside_ps(cluster, demand)
    return of_cluster[key]


def _count_beside_ps(cluster: Cluster, demand: FloatArray) -> int:
    both = cluster.hosts_workers & cluster.hosts_ps
    if not both.any():
        return 0
    return int(min(room(cluster.capacity[:, both], demand).max(), np.iinfo(np.int32).max))
