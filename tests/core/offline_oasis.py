"""The offline optimum of a few instant jobs, as one integer program that knows the future."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from scheduling.core.occupancy import Occupancy
from scheduling.core.policies.oasis.work import chunk_slots, worker_slots
from scheduling.core.types import Cluster, Job, View
from scheduling.core.value import Sigmoid
from tests.core.oasis_worlds import World, make_instant_job, make_policy


@dataclass
class _Rows:
    """Sparse constraint rows, low <= row * x <= high."""

    entries: list[tuple[int, int, float]]
    low: list[float]
    high: list[float]

    def add(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        row = len(self.low)
        self.entries.extend((row, column, weight) for column, weight in terms)
        self.low.append(low)
        self.high.append(high)


def optimum(cluster: Cluster, jobs: Sequence[Job], slots: int) -> float:
    """The largest sum of values any schedule reaches: each job ends in one slot or is left out."""
    ends, units, values = _columns(cluster, jobs, slots)
    rows = _Rows([], [], [])
    for index, job in enumerate(jobs):
        _job_rows(rows, index, job, cluster, ends, units, slots)
    _capacity_rows(rows, cluster, jobs, units, slots)
    row, column, weight = zip(*rows.entries, strict=True)
    matrix = coo_matrix((weight, (row, column)), shape=(len(rows.low), len(values)))
    upper = np.array([1.0 if column < len(ends) else np.inf for column in range(len(values))])
    result = milp(
        -np.array(values),
        constraints=LinearConstraint(matrix.tocsr(), rows.low, rows.high),
        bounds=Bounds(np.zeros(len(values)), upper),
        integrality=np.ones(len(values)),
    )
    assert result.success, result.message
    return -float(result.fun)


def _columns(
    cluster: Cluster, jobs: Sequence[Job], slots: int
) -> tuple[dict[tuple[int, int], int], dict[tuple[str, int, int, int], int], list[float]]:
    ends = {
        (i, t): k for k, (i, t) in enumerate((i, t) for i, j in enumerate(jobs) for t in range(j.first_slot, slots))
    }
    values = [float(jobs[i].value(float(t - jobs[i].first_slot))) for i, t in ends]
    units: dict[tuple[str, int, int, int], int] = {}
    for i, job in enumerate(jobs):
        for t in range(job.first_slot, slots):
            for server in range(len(cluster.servers)):
                for kind, hosts in (("worker", cluster.hosts_workers), ("ps", cluster.hosts_ps)):
                    if hosts[server]:
                        units[kind, i, t, server] = len(values)
                        values.append(0.0)
    return ends, units, values


def _job_rows(
    rows: _Rows,
    index: int,
    job: Job,
    cluster: Cluster,
    ends: dict[tuple[int, int], int],
    units: dict[tuple[str, int, int, int], int],
    slots: int,
) -> None:
    worker, ps = job.worker_types[0], job.ps_types[0]
    work = worker_slots(job, chunk_slots(job, worker, ps, cluster.slot_seconds))
    mine = {
        t: [(k, 1.0) for (kind, i, s, _), k in units.items() if (kind, i, s) == ("worker", index, t)]
        for t in range(slots)
    }
    servers = {
        t: [(k, 1.0) for (kind, i, s, _), k in units.items() if (kind, i, s) == ("ps", index, t)] for t in range(slots)
    }
    chosen = [(ends[index, t], 1.0) for t in range(job.first_slot, slots)]
    rows.add(chosen, 0, 1)
    everything = [term for terms in mine.values() for term in terms]
    rows.add(everything + [(column, -float(work)) for column, _ in chosen], 0, 0)
    for t in range(job.first_slot, slots):
        later = [(ends[index, end], -float(job.max_workers)) for end in range(t, slots)]
        rows.add(mine[t] + later, -math.inf, 0)
        rows.add([(k, ps.mbps / worker.mbps) for k, _ in servers[t]] + [(k, -1.0) for k, _ in mine[t]], 0, math.inf)


def _capacity_rows(
    rows: _Rows, cluster: Cluster, jobs: Sequence[Job], units: dict[tuple[str, int, int, int], int], slots: int
) -> None:
    for t in range(slots):
        for server in range(len(cluster.servers)):
            for resource in range(len(cluster.resources)):
                terms = []
                for (kind, i, s, where), column in units.items():
                    types = jobs[i].worker_types if kind == "worker" else jobs[i].ps_types
                    if (s, where) == (t, server) and types[0].demand[resource] > 0:
                        terms.append((column, float(types[0].demand[resource])))
                if terms:
                    rows.add(terms, -math.inf, float(cluster.capacity[resource, server]))


def online(world: World, jobs: Sequence[Job]) -> float:
    """What OASiS gains in value on the same jobs as they arrive."""
    taken, total = Occupancy(world.cluster), 0.0
    for job in sorted(jobs, key=lambda job: (job.arrival, job.number)):
        view = View(
            slot=job.first_slot,
            horizon=world.slots,
            cluster=world.cluster,
            waiting=(job,),
            remaining=np.array([job.work]),
            occupied=taken.window(job.first_slot),
        )
        for booking in world.policy.decide(view).bookings:
            taken.place(job, booking)
            total += booking.value
    return total


def small_sequence(seed: int, *, jobs: int = 10, slots: int = 10) -> tuple[World, list[Job]]:
    """Ten jobs in ten slots on two worker servers and one for parameter servers; bounds from typical values."""
    dice = np.random.default_rng([41, seed])
    made = [
        make_instant_job(
            number,
            arrival=float(dice.integers(0, slots - 2)),
            epochs=int(dice.integers(1, 4)),
            chunks=int(dice.integers(1, 4)),
            minibatch_slots=float(dice.choice([0.5, 1.0, 1.5])),
            bandwidths=(1.0, float(dice.choice([2.0, 4.0]))),
            worker=[int(dice.integers(1, 4))],
            ps=[1],
            value=Sigmoid(float(dice.uniform(5, 100)), float(dice.choice([0, 0.5, 4.5])), float(dice.integers(1, 6))),
        )
        for number in range(jobs)
    ]
    policy = make_policy(floors=(1.0, 0.2), ceilings=({"r0": 40.0}, {"r0": 20.0}))
    return World([[6.0], [6.0]], [[5.0]], slots, policy), made
