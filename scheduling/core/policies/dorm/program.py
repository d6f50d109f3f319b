"""Dorm's integer program: how many units each job holds on each server, from one event to the next.

maximise   sum_i sum_r used_i^r / C^r                    with y_i workers and z_i parameter servers of job i
with       what a server has free,
           n_min <= y_i <= N_i,  z_i = ceil(y_i b / B),
           sum_i |s_i - s^_i| <= fairness * 2 R           s_i the dominant share, s^_i the fair one
           sum_i r_i <= ceil(adjustment * running jobs)   r_i = 1 if a running job's number changes on any server

The solver is imported with the first program: that takes a fifth of a process's start, and few ever solve one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from scheduling.core.policies.dorm.problem import HeldUnits, JobWish, SharingProblem
from scheduling.core.policies.dorm.shares import dominant_resource, fair_shares
from scheduling.core.speed import TOLERANCE, parameter_servers
from scheduling.core.types import FloatArray

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

NODES = 20  # the most nodes of the search: unlike a time limit, independent of the machine's speed
GAP = 1e-3  # relative, of the objective; a better answer than that is not searched for
NEARLY_ONE = 1.0 - 1e-6  # ceil(x) < x + 1


class _Rows:
    """The constraints as sparse rows, low <= row * x <= high."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, terms: Iterable[tuple[int, float]], low: float, high: float) -> None:
        self.entries.extend((len(self.low), column, weight) for column, weight in terms)
        self.low.append(low)
        self.high.append(high)

    def constraint(self, columns: int) -> LinearConstraint:
        from scipy.optimize import LinearConstraint
        from scipy.sparse import coo_matrix

        row, column, weight = zip(*self.entries, strict=True)
        matrix = coo_matrix((weight, (row, column)), shape=(len(self.low), columns))
        return LinearConstraint(matrix.tocsr(), self.low, self.high)


class _Columns:
    """The column of each variable: workers and parameter servers by job and server, then three variables by job."""

    def __init__(self, jobs: int, servers: int) -> None:
        self.jobs, self.servers = jobs, servers
        self.total = 2 * jobs * servers + 3 * jobs

    def workers(self, job: int) -> range:
        return range(job * self.servers, (job + 1) * self.servers)

    def ps(self, job: int) -> range:
        return range((self.jobs + job) * self.servers, (self.jobs + job + 1) * self.servers)

    def active(self, job: int) -> int:
        return 2 * self.jobs * self.servers + job

    def changed(self, job: int) -> int:
        return self.active(job) + self.jobs

    def distance(self, job: int) -> int:
        return self.active(job) + 2 * self.jobs


def solved(problem: SharingProblem, certain: set[int]) -> dict[int, HeldUnits] | None:
    """Solve the program, with at least their least number for jobs in `certain`. Return None if it has no answer."""
    from scipy.optimize import Bounds, milp

    wishes, cluster = problem.wishes, problem.cluster
    at = _Columns(len(wishes), len(cluster.servers))
    rows, upper = _Rows(), np.ones(at.total)
    lower, objective = np.zeros(at.total), np.zeros(at.total)
    total = cluster.total
    fair = fair_shares([(wish.job, *wish.units) for wish in wishes], total, problem.free.sum(axis=1))
    for k, wish in enumerate(wishes):
        for columns, unit, hosts in zip(
            (at.workers(k), at.ps(k)), wish.units, (cluster.hosts_workers, cluster.hosts_ps), strict=True
        ):
            span = slice(columns.start, columns.stop)
            most = 0.0 if unit.absent else wish.job.max_workers * max(1.0, math.ceil(wish.per_worker))
            upper[span] = np.where(hosts, most, 0.0)
            objective[span] = -(unit.demand[total > 0] / total[total > 0]).sum()
        lower[at.active(k)] = 1.0 if wish.job.number in certain else 0.0
        upper[at.distance(k)] = np.inf
        _job_rows(rows, at, k, wish, fair[k], total)
        _change_rows(rows, at, k, problem)
    _common_rows(rows, at, problem)
    whole = np.ones(at.total)
    whole[at.distance(0) :] = 0.0
    answer = milp(
        objective,
        constraints=rows.constraint(at.total),
        bounds=Bounds(lower, upper),
        integrality=whole,
        options={"mip_rel_gap": GAP, "node_limit": NODES},
    )
    return None if answer.x is None else _read(np.rint(answer.x[: at.active(0)]).astype(np.int64), at, problem)


def _job_rows(rows: _Rows, at: _Columns, k: int, wish: JobWish, fair: float, total: FloatArray) -> None:
    """Add a job's rows: between the least and the most workers, or none; the parameter servers for them; and the
    distance from the fair share."""
    job, (worker, ps) = wish.job, wish.units
    workers = [(column, 1.0) for column in at.workers(k)]
    servers = [(column, 1.0) for column in at.ps(k)]
    rows.add([*workers, (at.active(k), -float(job.min_workers))], 0.0, np.inf)
    rows.add([*workers, (at.active(k), -float(job.max_workers))], -np.inf, 0.0)
    carried = [(column, -wish.per_worker) for column, _ in workers]
    rows.add([*servers, *carried], -TOLERANCE, np.inf)
    rows.add([*servers, *carried, (at.active(k), -NEARLY_ONE)], -np.inf, 0.0)
    rows.add([*servers, (at.active(k), -float(job.least_ps))], 0.0, np.inf)
    if job.max_ps is not None:
        rows.add(servers, 0.0, float(job.max_ps))
    resource = dominant_resource(worker, ps, total)
    share = [(column, worker.demand[resource] / total[resource]) for column, _ in workers]
    share += [(column, ps.demand[resource] / total[resource]) for column, _ in servers]
    rows.add([*share, (at.distance(k), -1.0)], -np.inf, fair)
    rows.add([*share, (at.distance(k), 1.0)], fair, np.inf)


def _change_rows(rows: _Rows, at: _Columns, k: int, problem: SharingProblem) -> None:
    """Add the rows by which a running job counts as changed if any of its numbers on any server changes."""
    before = problem.before.get(problem.wishes[k].job.number)
    if before is None:
        return
    most = float(problem.wishes[k].job.max_workers * max(1, math.ceil(problem.wishes[k].per_worker)))
    counts = np.zeros((2, at.servers))
    for server, workers, ps in before.rows:
        counts[:, server] = workers, ps
    for columns, had in zip((at.workers(k), at.ps(k)), counts.tolist(), strict=True):
        for column, number in zip(columns, had, strict=True):
            rows.add([(column, 1.0), (at.changed(k), -most)], -np.inf, number)
            rows.add([(column, 1.0), (at.changed(k), most)], number, np.inf)


def _common_rows(rows: _Rows, at: _Columns, problem: SharingProblem) -> None:
    """Add the rows of capacities, and of the two limits over all jobs."""
    for server in range(at.servers):
        for resource, amount in enumerate(problem.free[:, server].tolist()):
            terms = [
                (columns[server], float(unit.demand[resource]))
                for k, wish in enumerate(problem.wishes)
                for columns, unit in zip((at.workers(k), at.ps(k)), wish.units, strict=True)
                if unit.demand[resource] > 0
            ]
            if terms:
                rows.add(terms, -np.inf, max(amount, 0.0))
    jobs = range(at.jobs)
    if math.isfinite(problem.fairness):
        most = problem.fairness * 2 * len(problem.cluster.resources)
        rows.add([(at.distance(k), 1.0) for k in jobs], -np.inf, most)
    running = sum(wish.job.number in problem.before for wish in problem.wishes)
    if running:
        rows.add([(at.changed(k), 1.0) for k in jobs], 0.0, float(math.ceil(problem.adjustment * running - TOLERANCE)))


def _read(numbers: np.ndarray, at: _Columns, problem: SharingProblem) -> dict[int, HeldUnits] | None:
    """Return the answer by job; None if the solver's tolerance left a job without a parameter server that it needs."""
    held: dict[int, HeldUnits] = {}
    for k, wish in enumerate(problem.wishes):
        workers, ps = numbers[list(at.workers(k))], numbers[list(at.ps(k))]
        if not workers.any():
            continue
        worker, server = wish.units
        if ps.sum() < parameter_servers(int(workers.sum()), worker.mbps, server.mbps):
            return None
        places = np.flatnonzero(workers + ps).tolist()
        held[wish.job.number] = HeldUnits(tuple((place, int(workers[place]), int(ps[place])) for place in places))
    return held
