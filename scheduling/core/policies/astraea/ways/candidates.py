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
from scheduling.core.speed import TOLERANCE, booked_rate, minibatches_per_slot, most_servers
from scheduling.core.types import BoolArray, Cluster, FloatArray, Job, UnitType

IntArray = npt.NDArray[np.int64]
MOST_UNITS = np.iinfo(np.int16).max  # the most units that are counted on one server


@dataclass(frozen=True, eq=False)
class Pair:
    """One worker type and one parameter-server type of a job, drawing on different resources (R27)."""

    worker_type: int
    ps_type: int
    worker: UnitType
    ps: UnitType
    needs: IntArray  # (max workers + 1,) at index n: parameter servers for n workers on other servers (R9)
    key: tuple[bytes, bytes]  # equal for all jobs whose workers and parameter servers demand the same

    @property
    def least_ps(self) -> int:
        """Return the fewest parameter servers that a gang has: one, or none for a job without them."""
        return 0 if self.ps.absent else 1


@dataclass(frozen=True, eq=False)
class PairCandidates:
    """The candidates of one pair of types and placement, (candidates,) each, by ascending workers.

    Along the arrays durations fall and parameter servers do not, so the bounds of both are at the ends of the arrays.
    """

    pair: Pair
    central: bool
    candidates: IntArray  # index into all candidates of the job
    workers: IntArray
    duration: IntArray
    level: IntArray
    least_ps: IntArray


@dataclass(frozen=True, eq=False)
class Candidates:
    """All ways worth trying, in order of (workers, centralized first, pair): the order in which ties are broken."""

    pairs: tuple[Pair, ...]
    pair: IntArray  # (candidates,) index into pairs
    central: BoolArray  # (candidates,) all workers and the one parameter server, if there is any, on one server
    workers: IntArray  # (candidates,)
    duration: IntArray  # (candidates,) slots
    level: IntArray  # (candidates,) 2 ** level <= duration < 2 ** (level + 1)
    least_ps: IntArray  # (candidates,) the fewest parameter servers that any placement needs
    most_ps: int
    shortest: int  # slots of the fastest way; 0 where there is no way at all
    fewest: int  # the fewest workers of a way that takes no longer
    kinds: tuple[PairCandidates, ...]  # empty for a part of the job


@dataclass(frozen=True, eq=False)
class Gangs:
    """All gangs of a job, however much work they do. Arrays are (gangs,): by pair of types, centralized first, then by
    workers.

    A pair of types and a placement are a sort. Within a sort, parameter servers never fall from one gang to the next.
    """

    pairs: tuple[Pair, ...]
    sorts: tuple[tuple[int, bool], ...]  # index into pairs, and whether all are on one server
    begins: IntArray  # (sorts,) index of the first gang of each sort
    sizes: IntArray  # (sorts,) number of gangs of each sort
    pair: IntArray  # index into pairs
    central: IntArray  # 1 where all are on one server
    workers: IntArray
    least_ps: IntArray  # the fewest parameter servers that any placement needs
    rate: FloatArray  # mini-batches per slot at which all its workers together are booked
    first: BoolArray  # whether it is the smallest of its sort


_beside_ps: WeakKeyDictionary[Cluster, dict[bytes, int]] = WeakKeyDictionary()
_gangs: WeakKeyDictionary[Cluster, WeakKeyDictionary[Job, dict[bool, Gangs]]] = WeakKeyDictionary()
_ways: WeakKeyDictionary[Cluster, WeakKeyDictionary[Job, dict[tuple[bool, int], Candidates]]] = WeakKeyDictionary()
_alike: WeakKeyDictionary[Job, dict[tuple[object, ...], Candidates]] = WeakKeyDictionary()


def candidates(job: Job, cluster: Cluster, *, exact: bool, work: int | None = None) -> Candidates:
    """Return the ways to do `work` mini-batches of the job, or all of it where `work` is None.

    `exact` allows the largest gang only (R8). The ways never change, so they are remembered.
    """
    work = job.work if work is None else work
    of_cluster = _ways.get(cluster)
    if of_cluster is None:
        of_cluster = _ways[cluster] = WeakKeyDictionary()
    of_job = of_cluster.get(job)
    if of_job is None:
        of_job = of_cluster[job] = {}
    if (exact, work) not in of_job:
        of_job[exact, work] = _in_clusters_alike(job, cluster, exact, work)
    return of_job[exact, work]


def is_known(job: Job, cluster: Cluster, *, exact: bool) -> bool:
    """Return whether the ways to do all of the job are remembered."""
    of_cluster = _ways.get(cluster)
    of_job = None if of_cluster is None else of_cluster.get(job)
    return of_job is not None and (exact, job.work) in of_job


def remember(job: Job, cluster: Cluster, ways: Candidates, *, exact: bool) -> None:
    """Store the ways to do all of the job: `candidates` returns them from then on."""
    _alike.setdefault(job, {})[_likeness(job, cluster, exact, job.work)] = ways
    _ways.setdefault(cluster, WeakKeyDictionary()).setdefault(job, {})[exact, job.work] = ways


def _in_clusters_alike(job: Job, cluster: Cluster, exact: bool, work: int) -> Candidates:
    """Return the ways, found once for all clusters alike: on its owner's cells alone a job often has the same ones."""
    key, ways = _likeness(job, cluster, exact, work), _alike.setdefault(job, {})
    if key not in ways:
        ways[key] = _find_candidates(job, cluster, exact, work)
    return ways[key]


def _likeness(job: Job, cluster: Cluster, exact: bool, work: int) -> tuple[object, ...]:
    """Return all that the ways depend on: clusters with equal values have the same ways for the job."""
    beside = tuple(min(beside_ps(cluster, worker.demand), max(job.max_workers, 1) - 1) for worker in job.worker_types)
    return exact, work, cluster.slot_seconds, beside, most_servers(job, cluster) if job.all_reduce else 0


def worker_counts(job: Job, *, exact: bool) -> IntArray:
    """Return the numbers of workers that may be tried, ascending."""
    return np.arange(job.max_workers if exact else max(job.min_workers, 1), job.max_workers + 1)


def limit_of_ps(job: Job) -> int:
    """Return the most parameter servers that a gang of the job may have."""
    return MOST_UNITS if job.max_ps is None else min(job.max_ps, MOST_UNITS)


def gangs_of(job: Job, cluster: Cluster, *, exact: bool) -> Gangs:
    """Return the gangs of a job that may be done in parts. They never change, so they are remembered."""
    of_cluster = _gangs.get(cluster)
    if of_cluster is None:
        of_cluster = _gangs[cluster] = WeakKeyDictionary()
    of_job = of_cluster.get(job)
    if of_job is None:
        of_job = of_cluster[job] = {}
    if exact not in of_job:
        of_job[exact] = _list_gangs(job, cluster, pairs_of(job), exact)
    return of_job[exact]


def _list_gangs(job: Job, cluster: Cluster, pairs: tuple[Pair, ...], exact: bool) -> Gangs:
    counts = worker_counts(job, exact=exact)
    sorts: list[tuple[int, bool]] = []
    workers, least_ps, rates = [counts[:0]], [counts[:0]], [np.zeros(0)]
    for index, pair in enumerate(pairs):
        for central in (True, False):
            some = counts if central else counts[counts >= 2]
            if len(some):
                sorts.append((index, central))
                workers.append(some)
                least_ps.append(least_ps_of(cluster, pair, some, central))
                rates.append(np.asarray(rates_of(job, cluster, pair, some, central) * some, dtype=np.float64))
    sizes = np.array([len(some) for some in workers[1:]], dtype=np.int64)
    begins = sizes.cumsum() - sizes
    pair_of, central_of = np.array(sorts, dtype=np.int64).reshape(-1, 2).repeat(sizes, axis=0).T
    columns = np.concatenate(workers), np.concatenate(least_ps), np.concatenate(rates)
    first = np.zeros(len(pair_of), dtype=bool)
    first[begins] = True
    return Gangs(pairs, tuple(sorts), begins, sizes, pair_of, central_of, *columns, first)


def _find_candidates(job: Job, cluster: Cluster, exact: bool, work: int) -> Candidates:
    """Return for each sort the fewest workers of each distinct duration.

    It is not known yet where workers go. Gangs without parameter servers count as slow as if they were spread over as
    many servers as there are for them, so a run never takes longer than it is booked for.
    """
    in_pieces = job.divisible or work != job.work
    gangs = gangs_of(job, cluster, exact=exact) if in_pieces else _list_gangs(job, cluster, pairs_of(job), exact)
    most_ps = limit_of_ps(job)
    durations = np.maximum(1, ceilings(work / gangs.rate))
    distinct = gangs.first.copy()
    distinct[1:] |= durations[1:] != durations[:-1]  # durations fall as workers are added
    shortest = int(durations.min()) if len(durations) else 0
    fewest = int(gangs.workers[durations == shortest].min()) if len(durations) else 0
    some = np.flatnonzero(distinct & (gangs.least_ps <= most_ps))
    pair, central = gangs.pair[some], gangs.central[some]
    order = np.lexsort((pair, 1 - central, gangs.workers[some]))
    some, pair, central = some[order], pair[order], central[order]
    workers, duration, least_ps = gangs.workers[some], durations[some], gangs.least_ps[some]
    level = np.frexp(duration.astype(np.float64))[1].astype(np.int64) - 1
    kinds = []
    for index, on_one_server in gangs.sorts if work == job.work else ():  # a plan at home is for all of it (D2)
        mine = np.flatnonzero((pair == index) & (central == on_one_server))
        if len(mine):
            columns = (column[mine] for column in (workers, duration, level, least_ps))
            kinds.append(PairCandidates(gangs.pairs[index], on_one_server, mine, *columns))
    ways = (pair, central == 1, workers, duration, level, least_ps)
    return Candidates(gangs.pairs, *ways, most_ps, shortest, fewest, tuple(kinds))


def pairs_of(job: Job) -> tuple[Pair, ...]:
    """Return the pairs whose worker and parameter server do not compete for one resource, lowest types first."""
    return tuple(
        Pair(w, p, worker, ps, _needs(job.max_workers, worker, ps), _key(worker, ps))
        for w, worker in enumerate(job.worker_types)
        for p, ps in enumerate(job.ps_types)
        if not ((worker.demand > 0) & (ps.demand > 0)).any()
    )


def _key(worker: UnitType, ps: UnitType) -> tuple[bytes, bytes]:
    return worker.demand.tobytes(), b"" if ps.absent else ps.demand.tobytes()


def _needs(most: int, worker: UnitType, ps: UnitType) -> IntArray:
    if ps.absent:
        return np.zeros(most + 1, dtype=np.int64)
    return np.maximum(1, ceilings(np.arange(most + 1) * worker.mbps / ps.mbps))


def rates_of(job: Job, cluster: Cluster, pair: Pair, counts: IntArray, central: bool) -> float | FloatArray:
    """Return the mini-batches per worker and slot at which gangs of `counts` workers are booked: (counts,), or one
    number for all of them."""
    types = pair.worker_type, pair.ps_type
    if not job.all_reduce or central or not len(counts):
        return minibatches_per_slot(job, *types, cluster.slot_seconds, centralized=central)
    most = most_servers(job, cluster)
    rates = {n: booked_rate(job, cluster, types, n, centralized=False) for n in set(np.minimum(counts, most).tolist())}
    return np.array([rates[min(n, most)] for n in counts.tolist()])


def least_ps_of(cluster: Cluster, pair: Pair, workers: IntArray, central: bool) -> IntArray:
    """Return (workers,) the fewest parameter servers that any placement of so many workers needs."""
    if central:
        return np.full_like(workers, pair.least_ps)
    return pair.needs[workers - np.minimum(workers - 1, beside_ps(cluster, pair.worker.demand))]


def ceilings(x: npt.NDArray[np.floating]) -> IntArray:
    """Return `speed.ceiling` of each element, by the same arithmetic."""
    return np.ceil(x - TOLERANCE * np.maximum(1.0, np.abs(x))).astype(np.int64)


def beside_ps(cluster: Cluster, demand: FloatArray) -> int:
    """Return the most workers that one empty server can run beside a parameter server; remembered for each demand."""
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
