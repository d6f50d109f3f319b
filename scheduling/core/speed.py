"""How fast a job runs: mini-batches per worker and slot, durations, and how many parameter servers a gang needs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from scheduling.core.types import Job

TOLERANCE = 1e-9


def ceiling(x: float) -> int:
    """The smallest integer not below x, forgiving a rounding error of one part in 10^9: 6 / (0.5 * 3) is 4."""
    return math.ceil(x - TOLERANCE * max(1.0, abs(x)))


def exchange_seconds(gradient_mb: float, mbps: float) -> float:
    """Time to push gradients and pull parameters once: 2 * MB * 8 / (Mbit/s)."""
    return 2.0 * gradient_mb * 8.0 / mbps


def minibatches_per_slot(job: Job, worker_type: int, ps_type: int, slot_seconds: float, *, centralized: bool) -> float:
    """Mini-batches one worker trains in a slot (Astraea, Eq. 1): slot / (m + G [+ exchange unless on one server])."""
    worker, ps = job.worker_types[worker_type], job.ps_types[ps_type]
    seconds = worker.seconds + ps.seconds
    if not centralized:
        seconds += exchange_seconds(job.gradient_mb, worker.mbps)
    return slot_seconds / seconds


def duration(job: Job, rate: float, workers: int) -> int:
    """Slots a gang of so many workers needs for the whole job at `rate` mini-batches per worker and slot."""
    return max(1, ceiling(job.work / (rate * workers)))


@lru_cache(maxsize=2**12)
def parameter_servers(workers: int, worker_mbps: float, ps_mbps: float) -> int:
    """Parameter servers whose bandwidth carries so many workers elsewhere: max(1, ceil(workers * b_w / b_p)).

    Asked for every gang of every job in every slot; bandwidths are few."""
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
    job: Job, workers: int, ps: int, types: tuple[int, int], slot_seconds: float, *, centralized: bool
) -> float:
    """Mini-batches that any number of workers with any number of parameter servers trains in a slot.

    Equation 1 where parameter servers suffice. With fewer the exchange takes as much longer; on one server there is
    none.
    """
    worker, server = job.worker_types[types[0]], job.ps_types[types[1]]
    seconds = worker.seconds + server.seconds
    if not centralized:
        slowed = slowed_exchange(workers, ps, worker.mbps, server.mbps)
        seconds += exchange_seconds(job.gradient_mb, worker.mbps) * slowed
    return workers * slot_seconds / seconds
