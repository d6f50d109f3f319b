"""The offline optimum of a few jobs on co-located servers, as one integer program that knows the future."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from scheduling.core.occupancy import Occupancy
from scheduling.core.types import Cluster, Job, View
from scheduling.core.value import Sigmoid
from tests.core.pdors_worlds import World, make_policy, make_sample_job
from tests.core.reference_pdors import numbers

Key = tuple[str, int, int, int]  # kind, job, slot, server
UNITS = ("worker_in", "ps_in", "worker_out", "ps_out")


class Program:
    """Columns by key, and rows low <= row * x <= high."""

    def __init__(self) -> None:
        self.columns: dict[Key, int] = {}
        self.rewards: list[float] = []
        self.upper: list[float] = []
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def column(self, key: Key, reward: float = 0.0, upper: float = np.inf) -> None:
        self.columns[key] = len(self.rewards)
        self.rewards.append(reward)
        self.upper.append(upper)

    def row(self, terms: Sequence[tuple[Key, float]], low: float, high: float) -> None:
        self.entries.extend((len(self.low), self.columns[key], weight) for key, weight in terms)
        self.low.append(low)
        self.high.append(high)

    def optimum(self) -> float:
        row, column, weight = zip(*self.entries, strict=True)
        matrix = coo_matrix((weight, (row, column)), shape=(len(self.low), len(self.rewards)))
        result = milp(
            -np.array(self.rewards),
            constraints=LinearConstraint(matrix.tocsr(), self.low, self.high),
            bounds=Bounds(np.zeros(len(self.rewards)), np.array(self.upper)),
            integrality=np.ones(len(self.rewards)),
            options={"mip_rel_gap": 0.0},
        )
        assert result.success, result.message
        return -float(result.fun)


def optimum(cluster: Cluster, jobs: Sequence[Job], slots: int) -> float:
    """The largest sum of values any schedule reaches: each job ends in one slot or is left out."""
    program, servers = Program(), range(len(cluster.servers))
    for i, job in enumerate(jobs):
        for t in range(job.first_slot, slots):
            program.column(("end", i, t, -1), float(job.value(float(t - job.first_slot))), 1.0)
            program.column(("out", i, t, -1), upper=1.0)
            for h in servers:
                program.column(("in", i, t, h), upper=1.0)
                for kind in UNITS:
                    program.column((kind, i, t, h))
        _job_rows(program, i, job, cluster, slots)
    _capacity_rows(program, cluster, jobs, slots)
    return program.optimum()


def _job_rows(program: Program, i: int, job: Job, cluster: Cluster, slots: int) -> None:
    n, servers = numbers(job, cluster.slot_seconds), range(len(cluster.servers))
    most, per_ps, span = float(n.F), float(n.gamma), range(job.first_slot, slots)
    ends = [(("end", i, t, -1), 1.0) for t in span]
    program.row(ends, 0, 1)
    inside = [(("worker_in", i, t, h), float(1 / n.qi)) for t in span for h in servers]
    across = [(("worker_out", i, t, h), float(1 / n.qe)) for t in span for h in servers]
    program.row([*inside, *across, *((key, -float(n.V)) for key, _ in ends)], -1e-7, math.inf)
    for t in span:
        modes = [(("out", i, t, -1), 1.0), *((("in", i, t, h), 1.0) for h in servers)]
        program.row([*modes, *((("end", i, end, -1), -1.0) for end in range(t, slots))], -math.inf, 0)
        workers = [(("worker_out", i, t, h), 1.0) for h in servers]
        program.row([*workers, (("out", i, t, -1), -most)], -math.inf, 0)
        program.row([*((("ps_out", i, t, h), per_ps) for h in servers), *((k, -1.0) for k, _ in workers)], 0, math.inf)
        for h in servers:
            program.row([(("worker_in", i, t, h), 1.0), (("in", i, t, h), -most)], -math.inf, 0)
            program.row([(("ps_in", i, t, h), per_ps), (("worker_in", i, t, h), -1.0)], 0, math.inf)


def _capacity_rows(program: Program, cluster: Cluster, jobs: Sequence[Job], slots: int) -> None:
    used: dict[tuple[int, int, int], list[tuple[Key, float]]] = defaultdict(list)
    for key in program.columns:
        kind, i, t, h = key
        if kind in UNITS:
            demand = (jobs[i].worker_types if kind.startswith("worker") else jobs[i].ps_types)[0].demand
            for r in np.flatnonzero(demand):
                used[t, h, int(r)].append((key, float(demand[r])))
    for (_, h, r), terms in used.items():
        program.row(terms, -math.inf, float(cluster.capacity[r, h]))


def online(world: World, jobs: Sequence[Job]) -> float:
    """What PD-ORS gains in value on the same jobs as they arrive."""
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


def small_sequence(seed: int, *, jobs: int = 6, slots: int = 5) -> tuple[World, list[Job]]:
    """Six jobs in five slots on two servers with two resources; bounds from typical values."""
    dice = np.random.default_rng([43, seed])
    made = [
        make_sample_job(
            number,
            arrival=float(dice.integers(0, slots - 1)),
            epochs=int(dice.integers(1, 3)),
            samples=int(dice.integers(1, 6)),
            batch=int(dice.integers(1, 5)),
            sample_slots=float(dice.choice([0.5, 1.0])),
            exchange=float(dice.choice([0.0, 0.25, 1.0])),
            rates=(4.0, 1.0),
            ratio=float(dice.choice([1.0, 2.0, 3.0])),
            worker=[int(dice.integers(1, 3)), int(dice.integers(1, 3))],
            ps=[0, int(dice.integers(1, 3))],
            value=Sigmoid(float(dice.uniform(5, 100)), float(dice.choice([0, 0.5, 4.5])), float(dice.integers(1, 4))),
        )
        for number in range(jobs)
    ]
    policy = make_policy(floor=0.5, ceiling={"r0": 40.0, "r1": 40.0})
    return World([[6.0, 9.0], [6.0, 9.0]], slots, policy), made
