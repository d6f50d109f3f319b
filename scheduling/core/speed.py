"""Compute how fast a job runs: mini-batches per worker and slot, durations, and the parameter servers a gang needs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from scheduling.core.types import Cluster, Job, UnitType

TOLERANCE = 1e-9


def ceiling(x: float) -> int:
    """Return the smallest integer not below x, but forgive a rounding error of one part in 10^9: 6 / (0.5 * 3) is 4."""
    return math.ceil(x - TOLERANCE * max(1.0, abs(x)))


def exchange_seconds(gradient_mb: float, mbps: float) -> float:
    """Return the seconds it takes to push gradients and pull parameters once: 2 * MB * 8 / (Mbit/s)."""
    return 2.0 * gradient_mb * 8.0 / mbps


def ring_part(servers: int) -> Fraction:
    """Return the part of an exchange that workers without parameter servers wait for in a ring over n servers:
    (n - 1) / n. The exchange inside a server takes no time."""
    return Fraction(max(servers, 1) - 1, max(servers, 1))


def most_servers(job: Job, cluster: Cluster) -> int:
    """Return the largest number of servers that workers of the job can be on at once."""
    return min(job.max_workers, int(cluster.hosts_workers.sum()))


def across_seconds(job: Job, worker: UnitType, servers: int | None) -> float:
    """Return by how many seconds a mini-batch takes longer across servers: the exchange with parameter servers, or that
    of a ring over n `servers`, which takes 2 * (n - 1) / n * MB * 8 / (Mbit/s)."""
    exchange = exchange_seconds(job.gradient_mb, worker.mbps)
    return exchange * float(ring_part(servers)) if job.all_reduce and servers is not None else exchange


def minibatches_per_slot(
    job: Job, worker_type: int, ps_type: int, slot_seconds: float, *, centralized: bool, servers: int | None = None
) -> float:
    """Return the mini-batches that one worker trains in a slot (Astraea, Eq. 1): slot / (m + G [+ exchange unless on
    one server]).

    `servers`, the number of servers that hold the workers, matters only to a job without parameter servers. With None
    the whole exchange counts, which is never less than over any number of servers.
    """
    worker, ps = job.worker_types[worker_type], job.ps_types[ps_type]
    seconds = worker.seconds + ps.seconds
    if not centralized:
        seconds += across_seconds(job, worker, servers)
    return slot_seconds / seconds


def booked_rate(job: Job, cluster: Cluster, types: tuple[int, int], workers: int, *, centralized: bool) -> float:
    """Return the mini-batches per worker and slot that a gang is booked at, wherever its workers will be. Workers
    without parameter servers are assumed to be on as many servers as they can be."""
    servers = min(workers, most_servers(job, cluster)) if job.all_reduce and not centralized else None
    return minibatches_per_slot(job, *types, cluster.slot_seconds, centralized=centralized, servers=servers)


def duration(job: Job, rate: float, workers: int) -> int:
    """Return the slots that a gang of `workers` needs for the whole job at `rate` mini-batches per worker and slot."""
    return max(1, ceiling(job.work / (rate * workers)))


@lru_cache(maxsize=2**12)
def parameter_servers(workers: int, worker_mbps: float, ps_mbps: float) -> int:
    """Return how many parameter servers have the bandwidth for `workers` on other servers: max(1, ceil(workers * b_w /
    b_p)). It is 0 for a job without parameter servers, whose `ps_mbps` is infinite.

    The results are remembered: every gang of every job in every slot needs one, and there are few bandwidths."""
    if ps_mbps == math.inf:
        return 0
    return max(1, ceiling(workers * worker_mbps / ps_mbps))


def exact(number: float) -> Fraction:
    """Return exactly the decimal number that was written: 0.1 is one tenth, not the nearest binary fraction."""
    return Fraction(repr(number))


def slowed_exchange(workers: int, ps: int, worker_mbps: float, ps_mbps: float) -> float:
    """Return how many times longer an exchange takes because parameter servers have less bandwidth than their workers.

    It is 1 with at least as many parameter servers as `parameter_servers` returns.
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
    """Return the mini-batches that any number of workers with any number of parameter servers train in a slot.

    Equation 1 holds where the parameter servers suffice. With fewer of them the exchange takes `slowed_exchange` times
    as long; on one server there is no exchange. Workers without parameter servers are on `servers` servers, or with
    None each on a server of its own.
    """
    worker, server = job.worker_types[types[0]], job.ps_types[types[1]]
    seconds = worker.seconds + server.seconds
    if job.all_reduce and not centralized:
        seconds += across_seconds(job, worker, workers if servers is None else servers)
    elif not centralized:
        slowed = slowed_exchange(workers, ps, worker.mbps, server.mbps)
        seconds += exchange_seconds(job.gradient_mb, worker.mbps) * slowed
    return workers * slot_seconds / seconds
