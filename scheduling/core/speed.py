"""How fast a job runs: mini-batches per worker and slot, durations, and how many parameter servers a gang needs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from scheduling.core.types import Cluster, Job, UnitType

TOLERANCE = 1e-9


def ceiling(x: float) -> int:
    """The smallest integer not below x, forgiving a rounding error of one part in 10^9: 6 / (0.5 * 3) is 4."""
    return math.ceil(x - TOLERANCE * max(1.0, abs(x)))


def exchange_seconds(gradient_mb: float, mbps: float) -> float:
    """Time to push gradients and pull parameters once: 2 * MB * 8 / (Mbit/s)."""
    return 2.0 * gradient_mb * 8.0 / mbps


def ring_part(servers: int) -> Fraction:
    """The part of an exchange that workers without parameter servers wait for in a ring over so many servers:
    (n - 1) / n. Inside a server it is free."""
    return Fraction(max(servers, 1) - 1, max(servers, 1))


def most_servers(job: Job, cluster: Cluster) -> int:
    """Servers that workers of the job can be on at once, at most."""
    return min(job.max_workers, int(cluster.hosts_workers.sum()))


def across_seconds(job: Job, worker: UnitType, servers: int | None) -> float:
    """What a mini-batch takes longer across servers: the exchange with parameter servers, or that of a ring, which
    takes 2 * (n - 1) / n * MB * 8 / (Mbit/s)."""
    exchange = exchange_seconds(job.gradient_mb, worker.mbps)
    return exchange * float(ring_part(servers)) if job.all_reduce and servers is not None else exchange


def minibatches_per_slot(
    job: Job, worker_type: int, ps_type: int, slot_seconds: float, *, centralized: bool, servers: int | None = None
) -> float:
    """Mini-batches one worker trains in a slot (Astraea, Eq. 1): slot / (m + G [+ exchange unless on one server]).

    `servers` that hold its workers matter to a job without parameter servers only; None: however many they are.
    """
    worker, ps = job.worker_types[worker_type], job.ps_types[ps_type]
    seconds = worker.seconds + ps.seconds
    if not centralized:
        seconds += across_seconds(job, worker, servers)
    return slot_seconds / seconds


def booked_rate(job: Job, cluster: Cluster, types: tuple[int, int], workers: int, *, centralized: bool) -> float:
    """Mini-batches per worker and slot that a gang is booked at, wherever its workers go: without parameter servers
    they are taken to be on as many servers as there are for them."""
    servers = min(workers, most_servers(job, cluster)) if job.all_reduce and not centralized else None
    return minibatches_per_slot(job, *types, cluster.slot_seconds, centralized=centralized, servers=servers)


def duration(job: Job, rate: float, workers: int) -> int:
    """Slots a gang of so many workers needs for the whole job at `rate` mini-batches per worker and slot."""
    return max(1, ceiling(job.work / (rate * workers)))


@lru_cache(maxsize=2**12)
def parameter_servers(workers: int, worker_mbps: float, ps_mbps: float) -> int:
    """Parameter servers whose bandwidth carries so many workers elsewhere: max(1, ceil(workers * b_w / b_p)). A job
    that has none says so by a bandwidth without end.

    Asked for every gang of every job in every slot; bandwidths are few."""
    if ps_mbps == math.inf:
        return 0
    return max(1, ceiling(workers * worker_mbps / ps_mbps))


def exact(number: float) -> Fraction:
    """The decimal number that was written, exactly: 0.1 is one tenth, not the nearest binary fraction."""
    return Fraction(repr(number))


def slowed_exchange(workers: int, ps: int, worker_mbps: float, ps_mbps: float) -> float:
    """How many times longer an exchange takes because parameter servers have less bandwidth than their workers.

    1 with the number that `parameter_servers` gives or more.
    """
    return max(1.0, workers * worker_mbps / (ps * ps_mbps))


def elastic_rate(
    job: Job,
    workers: int,
    ps: int,
    types: tuple[int, int],
    slot_seconds: float,
    *,
    centralized: bool,
    servers: int | None = None,
) -> float:
    """Mini-batches that any number of workers with any number of parameter servers trains in a slot.

    Equation 1 where parameter servers suffice. With fewer the exchange takes as much longer; on one server there is
    none. Workers without parameter servers are on so many `servers`; None: each on one of its own.
    """
    worker, server = job.worker_types[types[0]], job.ps_types[types[1]]
    seconds = worker.seconds + server.seconds
    if job.all_reduce and not centralized:
        seconds += across_seconds(job, worker, workers if servers is None else servers)
    elif not centralized:
        slowed = slowed_exchange(workers, ps, worker.mbps, server.mbps)
        seconds += exchange_seconds(job.gradient_mb, worker.mbps) * slowed
    return workers * slot_seconds / seconds
