"""Finds the ways of many jobs at once: the same that `candidates` finds one by one, by the same sums over all jobs.

The ways of one job take a hundred short arrays, which cost far more than what is in them, and a queue has a hundred
thousand jobs. Jobs that are unlike most are left for `candidates` to treat one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduling.core.policies.astraea.ways.candidates import (
    Candidates,
    IntArray,
    Pair,
    PairCandidates,
    beside_ps,
    ceilings,
    is_known,
    limit_of_ps,
    pairs_of,
    remember,
)
from scheduling.core.speed import minibatches_per_slot
from scheduling.core.types import BoolArray, Cluster, Job

# The most workers that the jobs of a group have together. Their ways are slices of common arrays, which stay in memory
# as long as the last of the jobs.
GROUP = 20_000
FAR = np.iinfo(np.int64).max


def candidates_prepare(jobs: Iterable[Job], cluster: Cluster, *, exact: bool) -> None:
    """Remember the ways to do all of each job, so that `candidates` need not find them."""
    pairs: dict[tuple[int, int, int], Pair | None] = {}
    new = []
    for job in jobs:
        if len(job.worker_types) == len(job.ps_types) == 1 and not job.all_reduce and job.max_workers <= GROUP:
            key = (id(job.worker_types[0]), id(job.ps_types[0]), job.max_workers)
            if key not in pairs:
                pairs[key] = next(iter(pairs_of(job)), None)
            pair = pairs[key]
            if pair is not None and not is_known(job, cluster, exact=exact):
                new.append((job, pair))
    for group in _groups(new):
        ways = _ways([job for job, _ in group], [pair for _, pair in group], cluster, exact)
        for (job, _), each in zip(group, ways, strict=True):
            remember(job, cluster, each, exact=exact)


def _groups(jobs: Sequence[tuple[Job, Pair]]) -> Iterator[list[tuple[Job, Pair]]]:
    group: list[tuple[Job, Pair]] = []
    workers = 0
    for each in jobs:
        if workers + each[0].max_workers > GROUP and group:
            yield group
            group, workers = [], 0
        group.append(each)
        workers += each[0].max_workers
    if group:
        yield group


def _ways(jobs: Sequence[Job], pairs: Sequence[Pair], cluster: Cluster, exact: bool) -> Iterator[Candidates]:
    """Yield the ways of each job, with its one pair of types. The rows of all arrays are those of the first job, then
    those of the second, and so on."""
    rows = [_of_one_placement(jobs, pairs, cluster, exact, central) for central in (True, False)]
    job, workers, duration, least_ps = (np.concatenate(columns) for columns in zip(*rows, strict=True))
    central = np.repeat([1, 0], [len(columns[0]) for columns in rows])
    order = np.lexsort((1 - central, workers, job))
    job, workers, duration, least_ps = job[order], workers[order], duration[order], least_ps[order]
    central = central[order] == 1
    first = np.searchsorted(job, np.arange(len(jobs)))  # every job has a way with one worker or more, on one server
    shortest = np.minimum.reduceat(duration, first)
    fewest = np.minimum.reduceat(np.where(duration == shortest[job], workers, FAR), first)
    allowed = least_ps <= np.array([limit_of_ps(each) for each in jobs])[job]
    if not allowed.all():
        job, workers, duration = job[allowed], workers[allowed], duration[allowed]
        least_ps, central = least_ps[allowed], central[allowed]
    level = np.frexp(duration.astype(np.float64))[1].astype(np.int64) - 1
    ends = np.searchsorted(job, np.arange(len(jobs) + 1))
    kinds = [_kinds(job, ends, central == each, workers, duration, level, least_ps) for each in (True, False)]
    nothing = np.zeros(len(job), dtype=np.int64)
    for index, (each, pair) in enumerate(zip(jobs, pairs, strict=True)):
        mine = slice(ends[index], ends[index + 1])
        placements = []
        for on_one_server, (bounds, columns) in zip((True, False), kinds, strict=True):
            its = slice(bounds[index], bounds[index + 1])
            if its.start < its.stop:
                placements.append(PairCandidates(pair, on_one_server, *(column[its] for column in columns)))
        yield Candidates(
            (pair,), nothing[mine], central[mine], workers[mine], duration[mine], level[mine], least_ps[mine],
            limit_of_ps(each), int(shortest[index]), int(fewest[index]), tuple(placements),
        )  # fmt: skip


def _of_one_placement(
    jobs: Sequence[Job], pairs: Sequence[Pair], cluster: Cluster, exact: bool, central: bool
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return (ways,) job, workers, duration, least parameter servers: the fewest workers of each distinct duration."""
    most = np.array([job.max_workers for job in jobs])
    least = most if exact else np.maximum([job.min_workers for job in jobs], 1)
    least = least if central else np.maximum(least, 2)
    counts = np.maximum(most - least + 1, 0)
    job = np.repeat(np.arange(len(jobs)), counts)
    workers = least[job] + (np.arange(len(job)) - (np.cumsum(counts) - counts)[job])
    slot = cluster.slot_seconds
    rate = np.array([minibatches_per_slot(each, 0, 0, slot, centralized=central) for each in jobs])
    work = np.array([each.work for each in jobs], dtype=np.float64)
    duration = np.maximum(1, ceilings(work[job] / (rate[job] * workers)))
    first = np.ones(len(job), dtype=bool)
    first[1:] = (duration[1:] != duration[:-1]) | (job[1:] != job[:-1])
    job, workers, duration = job[first], workers[first], duration[first]
    if central:
        return job, workers, duration, np.ones_like(workers)
    beside = np.array([beside_ps(cluster, pair.worker.demand) for pair in pairs])
    elsewhere = workers - np.minimum(workers - 1, beside[job])
    of_worker, of_ps = np.array([(pair.worker.mbps, pair.ps.mbps) for pair in pairs]).T
    return job, workers, duration, np.maximum(1, ceilings(elsewhere * of_worker[job] / of_ps[job]))


def _kinds(
    job: IntArray, ends: IntArray, mine: BoolArray, *columns: IntArray
) -> tuple[list[int], tuple[IntArray, ...]]:
    """Return the rows of one placement: where those of each job begin, and their columns. The first column is the index
    among the job's ways, the others are the rows' values in `columns`."""
    places = np.flatnonzero(mine)
    bounds = np.searchsorted(job[places], np.arange(len(ends)))
    return bounds.tolist(), (places - ends[job[places]], *(column[places] for column in columns))
