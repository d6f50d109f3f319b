"""The work of a job in samples, computed from the exact decimals that its tenant wrote (rules P1, P2 and P4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from scheduling.core.speed import exact, ring_part
from scheduling.core.types import Job, UnitType

IntArray = npt.NDArray[np.int64]
# Time and memory grow with the quanta of a job. A small job can afford finer ones, a very large one needs coarser ones.
FINE_QUANTA, EXACT_QUANTA, MOST_QUANTA = 1_000, 4_000, 100_000


@dataclass(frozen=True)
class Speed:
    """The speed of a job on one pair of unit types.

    One worker trains a sample in `internal` slots where all workers and parameter servers of the slot are on one
    server, and in `external` slots otherwise: q = tau + 2 g gamma / (b F) with either bandwidth.
    """

    samples: Fraction  # V, in the whole job
    internal: Fraction  # q_i
    external: Fraction  # q_e
    ps_ratio: Fraction | None  # gamma, workers per parameter server; None if the job has no parameter servers
    least: int  # workers at once
    most: int


def speed_of(job: Job, worker: UnitType, ps: UnitType, slot_seconds: float, servers: int = 1) -> Speed:
    """Return the job's speed. Where the work is not given in samples, each mini-batch counts as a sample.

    A worker exchanges gradients, and a parameter server applies an update, once in F / gamma samples. Without parameter
    servers, workers exchange in a ring over `servers` servers, once in a mini-batch; inside a server that is free.
    """
    if job.all_reduce:
        seconds, slot = exact(worker.seconds), exact(slot_seconds)
        across = seconds + _exchange(job, worker.mbps) * ring_part(servers)
        return Speed(Fraction(job.work), seconds / slot, across / slot, None, job.min_workers, job.max_workers)
    counts = job.samples
    ratio = exact(ps.mbps) / exact(worker.mbps) if counts.ps_ratio is None else exact(counts.ps_ratio)
    most, between = job.max_workers, Fraction(1)
    samples, seconds = Fraction(job.work), exact(worker.seconds)
    if counts.total is not None and counts.batch_size is not None and counts.seconds is not None:
        samples, seconds = job.epochs * exact(counts.total), exact(counts.seconds)
        most, between = min(most, counts.batch_size), counts.batch_size / ratio
    seconds += exact(ps.seconds) / between
    inside = 0 if counts.internal_mbps is None else _exchange(job, counts.internal_mbps) / between
    across = _exchange(job, worker.mbps) / between
    slot = exact(slot_seconds)
    return Speed(samples, (seconds + inside) / slot, (seconds + across) / slot, ratio, job.min_workers, most)


def _exchange(job: Job, mbps: float) -> Fraction:
    """Return the seconds to push gradients and pull parameters once."""
    return 16 * exact(job.gradient_mb) / exact(mbps) if job.gradient_mb else Fraction(0)


def ps_needed(speed: Speed) -> IntArray:
    """Return (most + 1,) the parameter servers of a gang of n = 0, 1, 2, ... workers: ceil(n / gamma), at least one
    with a worker, or none where the job has none."""
    ratio = speed.ps_ratio
    if ratio is None:
        return np.zeros(speed.most + 1, dtype=np.int64)
    return np.array([-(-n * ratio.denominator // ratio.numerator) for n in range(speed.most + 1)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Grid:
    """The quantum program of a job: the quanta to collect, and how many of them each gang trains in a slot.

    A quantum is 1 / (m q_e) samples. A gang is a number of workers on one server (internal) or anywhere. Gangs are in
    the order of their sizes; of equal ones the internal is last, so that it wins a tie.
    """

    work: int  # D = ceil(m V q_e)
    workers: IntArray  # (gangs,)
    ps: IntArray  # (gangs,)
    internal: npt.NDArray[np.bool_]  # (gangs,)
    sizes: IntArray  # (gangs,) quanta; none is above the work


def parts_of(speed: Speed, least: int) -> Fraction:
    """Return m, the quanta in one worker's slot across servers: `least`, unless the job is small or very large.

    Where m q_e / q_i is a whole number the program is exact (B7); the smallest such m is taken if that makes few
    quanta. It depends on the work and the speeds alone, never on what the job is worth.
    """
    whole = speed.samples * speed.external
    step = (speed.external / speed.internal).denominator
    exact_parts = step * -(-least // step)
    if exact_parts * whole <= EXACT_QUANTA:
        return Fraction(exact_parts)
    return min(Fraction(max(least, math.floor(FINE_QUANTA / whole))), MOST_QUANTA / whole)


def grid_of(speed: Speed, parts: Fraction, max_ps: int | None) -> Grid:
    """Return the grid with m = `parts`.

    n workers train n m q_e / q_i quanta on one server and n m elsewhere, rounded down. Where a smaller gang does the
    whole work already, a larger one is left out.
    """
    work = max(1, math.ceil(parts * speed.samples * speed.external))
    needed = ps_needed(speed)
    rows: list[tuple[int, bool, int]] = []
    for internal, step in ((True, parts * speed.external / speed.internal), (False, parts)):
        for workers in range(speed.least, speed.most + 1):
            size = min(math.floor(workers * step), work)
            if (max_ps is not None and needed[workers] > max_ps) or workers == 0:
                break
            if size > 0:
                rows.append((size, internal, workers))
            if size == work:
                break
    rows.sort()
    workers_of = np.array([workers for _, _, workers in rows], dtype=np.int64)
    return Grid(
        work=work,
        workers=workers_of,
        ps=needed[workers_of],
        internal=np.array([internal for _, internal, _ in rows], dtype=np.bool_),
        sizes=np.array([size for size, _, _ in rows], dtype=np.int64),
    )
