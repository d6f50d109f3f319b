"""Compute the offline optimum of PD-ORS' problem: any schedule in slots, on one server or across servers, each of which
may hold workers and parameter servers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scheduling.core.offline.program import GAP, IntegerProgram
from scheduling.core.policies.pdors.work import speed_of
from scheduling.core.speed import most_servers
from scheduling.core.types import Cluster, Job

Key = tuple[str, int, int, int]  # kind, job, slot, server
UNITS = ("worker_in", "ps_in", "worker_out", "ps_out")
SLACK = 1e-7  # samples


def optimum(cluster: Cluster, jobs: Sequence[Job], slots: int, gap: float = GAP) -> float:
    """Return the largest sum of values that any schedule reaches: each job ends in one slot or is left out.

    It is exact to a relative `gap`, and never too small. Values count as PD-ORS' do, in slots after the first possible
    one.
    """
    program: IntegerProgram[Key] = IntegerProgram()
    servers = range(len(cluster.servers))
    for i, job in enumerate(jobs):
        for t in range(job.first_slot, slots):
            program.column(("end", i, t, -1), float(job.value(float(t - job.first_slot))), 1.0)
            program.column(("out", i, t, -1), upper=1.0)
            for h in servers:
                program.column(("in", i, t, h), upper=1.0)
                for kind in UNITS:
                    program.column((kind, i, t, h))
        _job_rows(program, i, job, cluster, slots)
    _capacity_rows(program, cluster, jobs)
    return program.bound(gap)


def _job_rows(program: IntegerProgram[Key], i: int, job: Job, cluster: Cluster, slots: int) -> None:
    types = job.worker_types[0], job.ps_types[0]
    speed = speed_of(job, *types, cluster.slot_seconds, most_servers(job, cluster))
    servers, span = range(len(cluster.servers)), range(job.first_slot, slots)
    most, per_ps = float(speed.most), None if speed.ps_ratio is None else float(speed.ps_ratio)
    ends = [(("end", i, t, -1), 1.0) for t in span]
    program.row(ends, 0, 1)
    inside = [(("worker_in", i, t, h), float(1 / speed.internal)) for t in span for h in servers]
    across = [(("worker_out", i, t, h), float(1 / speed.external)) for t in span for h in servers]
    program.row([*inside, *across, *((key, -float(speed.samples)) for key, _ in ends)], -SLACK, math.inf)
    for t in span:
        modes = [(("out", i, t, -1), 1.0), *((("in", i, t, h), 1.0) for h in servers)]
        program.row([*modes, *((("end", i, end, -1), -1.0) for end in range(t, slots))], -math.inf, 0)
        workers = [(("worker_out", i, t, h), 1.0) for h in servers]
        program.row([*workers, (("out", i, t, -1), -most)], -math.inf, 0)
        if per_ps is not None:
            carried = [(("ps_out", i, t, h), per_ps) for h in servers]
            program.row([*carried, *((key, -1.0) for key, _ in workers)], 0, math.inf)
        for h in servers:
            program.row([(("worker_in", i, t, h), 1.0), (("in", i, t, h), -most)], -math.inf, 0)
            if per_ps is not None:
                program.row([(("ps_in", i, t, h), per_ps), (("worker_in", i, t, h), -1.0)], 0, math.inf)


def _capacity_rows(program: IntegerProgram[Key], cluster: Cluster, jobs: Sequence[Job]) -> None:
    used: dict[tuple[int, int, int], list[tuple[Key, float]]] = defaultdict(list)
    for key in program.columns:
        kind, i, t, h = key
        if kind in UNITS:
            demand = (jobs[i].worker_types if kind.startswith("worker") else jobs[i].ps_types)[0].demand
            for resource in np.flatnonzero(demand).tolist():
                used[t, h, resource].append((key, float(demand[resource])))
    for (_, h, resource), terms in used.items():
        program.row(terms, -math.inf, float(cluster.capacity[resource, h]))
