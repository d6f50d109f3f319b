"""The work of a job in whole worker-slots, computed from the exact decimals that its tenant wrote."""

from __future__ import annotations

import math
from fractions import Fraction

from scheduling.core.speed import exact, ring_part
from scheduling.core.types import Job, UnitType


def chunk_slots(job: Job, worker: UnitType, ps: UnitType, slot_seconds: float, servers: int = 1) -> Fraction:
    """Return q, the slots in which one worker trains one chunk (rule O3): M * (m + G + exchange) / slot length.

    The exchange of one mini-batch takes 2 * MB * 8 / (Mbit/s) seconds, and none where no gradients are sent. Workers
    without parameter servers wait for the part of it that a ring over `servers` servers takes.
    """
    exchange = 16 * exact(job.gradient_mb) / exact(worker.mbps) if job.gradient_mb else Fraction(0)
    if job.all_reduce:
        exchange *= ring_part(servers)
    return job.minibatches * (exact(worker.seconds) + exact(ps.seconds) + exchange) / exact(slot_seconds)


def worker_slots(job: Job, per_chunk: Fraction) -> int:
    """Return W, the worker-slots of the whole job: ceil(E * N * q), at least one."""
    return max(1, math.ceil(job.epochs * job.chunks * per_chunk))


def ps_counts(most: int, worker: UnitType, ps: UnitType) -> list[int]:
    """Return (most + 1,) the parameter servers whose bandwidth carries 0, 1, ... workers: ceil(y * b / B) (rule O4)."""
    if ps.absent:
        return [0] * (most + 1)
    ratio = exact(worker.mbps) / exact(ps.mbps)
    return [-(-workers * ratio.numerator // ratio.denominator) for workers in range(most + 1)]


def gangs(job: Job, per_chunk: Fraction, units: str, most: int) -> tuple[int, list[int]]:
    """Return (work, gang): the units of work to collect, and the workers that 0, 1, 2, ... units in one slot take.

    In "worker_slots" a unit is one worker for one slot, and a gang is never smaller than the job's smallest. In
    "chunks", the paper's literal program, a unit is a chunk, and d chunks take ceil(d * q) workers of a slot.
    """
    if units == "chunks":
        return job.epochs * job.chunks, [math.ceil(d * per_chunk) for d in range(math.floor(most / per_chunk) + 1)]
    return worker_slots(job, per_chunk), [0] + [max(n, job.min_workers) for n in range(1, most + 1)]
