"""Compute the offline optimum of OASiS' problem (its program 1): any schedule in slots, in which workers and parameter
servers are placed independently of each other."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scheduling.core.offline.program import GAP, IntegerProgram
from scheduling.core.policies.oasis.work import chunk_slots, worker_slots
from scheduling.core.speed import most_servers
from scheduling.core.types import Cluster, Job

Key = tuple[str, int, int, int]  # kind, job, slot, server
KINDS = ("worker", "ps")


def optimum(cluster: Cluster, jobs: Sequence[Job], slots: int, gap: float = GAP) -> float:
    """Return the largest sum of values that any schedule reaches: each job ends in one slot or is left out.

    It is exact to a relative `gap`, and never too small. Values count as OASiS' do, in slots after the first possible
    one.
    """
    program: IntegerProgram[Key] = IntegerProgram()
    for i, job in enumerate(jobs):
        for t in range(job.first_slot, slots):
            program.column(("end", i, t, -1), float(job.value(float(t - job.first_slot))), 1.0)
            for kind, hosts in zip(KINDS, (cluster.hosts_workers, cluster.hosts_ps), strict=True):
                for server in np.flatnonzero(hosts).tolist():
                    program.column((kind, i, t, server))
        _job_rows(program, i, job, cluster, slots)
    _capacity_rows(program, cluster, jobs)
    return program.bound(gap)


def _job_rows(program: IntegerProgram[Key], i: int, job: Job, cluster: Cluster, slots: int) -> None:
    worker, ps = job.worker_types[0], job.ps_types[0]
    per_chunk = chunk_slots(job, worker, ps, cluster.slot_seconds, most_servers(job, cluster))
    work = worker_slots(job, per_chunk)
    span = range(job.first_slot, slots)
    workers, servers = (
        {t: [((kind, i, t, s), 1.0) for s in np.flatnonzero(hosts).tolist()] for t in span}
        for kind, hosts in zip(KINDS, (cluster.hosts_workers, cluster.hosts_ps), strict=True)
    )
    ends = [(("end", i, t, -1), 1.0) for t in span]
    program.row(ends, 0, 1)
    everything = [term for t in span for term in workers[t]]
    program.row([*everything, *((key, -float(work)) for key, _ in ends)], 0, 0)
    for t in span:
        later = [(("end", i, end, -1), -float(job.max_workers)) for end in range(t, slots)]
        program.row([*workers[t], *later], -math.inf, 0)
        if job.all_reduce:
            continue
        carried = [(key, ps.mbps / worker.mbps) for key, _ in servers[t]]
        program.row([*carried, *((key, -1.0) for key, _ in workers[t])], 0, math.inf)


def _capacity_rows(program: IntegerProgram[Key], cluster: Cluster, jobs: Sequence[Job]) -> None:
    used: dict[tuple[int, int, int], list[tuple[Key, float]]] = defaultdict(list)
    for key in program.columns:
        kind, i, t, server = key
        if kind in KINDS:
            demand = (jobs[i].worker_types if kind == "worker" else jobs[i].ps_types)[0].demand
            for resource in np.flatnonzero(demand > 0).tolist():
                used[t, server, resource].append((key, float(demand[resource])))
    for (_, server, resource), terms in used.items():
        program.row(terms, -math.inf, float(cluster.capacity[resource, server]))
