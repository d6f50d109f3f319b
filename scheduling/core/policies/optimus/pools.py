"""What a cluster has and what units take of it, added up over servers, as allocation does not see single servers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.occupancy import ROUNDING
from scheduling.core.policies.optimus.jobs import ElasticJob, Pair
from scheduling.core.policies.optimus.placing import Need
from scheduling.core.types import Cluster, FloatArray, Job, View


def free_now(view: View) -> FloatArray:
    """Return (resources, servers) what is free in the coming slot."""
    return np.maximum(view.cluster.capacity - view.occupied[:, :1].sum(axis=1), 0.0)


def pools(cluster: Cluster, amounts: FloatArray) -> FloatArray:
    """Return (pools x resources,) the amounts on servers that host either kind. Where not all of them host both, two
    pools come before: servers that host workers, and servers that host parameter servers."""
    either = amounts[:, cluster.hosts_workers | cluster.hosts_ps].sum(axis=1)
    if is_mixed(cluster):
        return either
    hosts = (cluster.hosts_workers, cluster.hosts_ps)
    return np.concatenate([*(amounts[:, servers].sum(axis=1) for servers in hosts), either])


def is_mixed(cluster: Cluster) -> bool:
    """Return whether all servers that host something host both kinds, so that there is one pool."""
    return bool((cluster.hosts_workers == cluster.hosts_ps).all())


def demands(job: Job, types: Pair, mixed: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return (kinds, pools x resources) what a parameter server and a worker take of each pool. They are plain numbers,
    as one array is made of those of all jobs."""
    worker, ps = job.worker_types[types[0]].amounts, job.ps_types[types[1]].amounts
    if mixed:
        return ps, worker
    nothing = (0.0,) * len(worker)
    return (*nothing, *ps, *ps), (*worker, *nothing, *worker)


def choose_types(jobs: Sequence[ElasticJob], choices: Sequence[Sequence[Pair]], free: FloatArray, mixed: bool) -> None:
    """Choose each job's types: the first pair for whose least gang the jobs before it leave room. The types that the
    job runs on are tried first."""
    room = free + ROUNDING * np.maximum(1.0, free)
    if all(len(types) == 1 for types in choices):
        for each, types in zip(jobs, choices, strict=True):
            each.choose(types[0])
        return
    for each, types in zip(jobs, choices, strict=True):
        preferred = sorted(types, key=lambda pair: each.held is None or pair != each.types)
        choice = preferred[0]
        for pair in preferred:
            demand = np.array(demands(each.job, pair, mixed))
            rest = room - demand[0] - each.job.min_workers * demand[1]
            if (rest >= 0).all():
                room, choice = rest, pair
                break
        each.choose(choice)


def gang_share(need: Need, total: Sequence[float]) -> float:
    """Return the largest share that a gang takes of any of the cluster's totals (resources,)."""
    largest = 0.0
    for resource, amount in need:
        if (share := amount / total[resource]) > largest:
            largest = share
    return largest
