"""Gangs on several servers by linear and integer programs (the paper's problem (23), with its missing row, B1).

minimise  sum_h p_h w_h + s_h      over h: what a worker, and a parameter server, costs on server h
with      sum w >= n, sum s >= ceil(n / gamma), sum w <= the most workers, and every server's free amounts kept

The solver is imported with the first program: that takes a fifth of a process's start, and few ever solve one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduling.core.occupancy import ROUNDING
from scheduling.core.policies.pdors.greedy import Indices, SlotUnits
from scheduling.core.types import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NODES = 2_000  # the most nodes of the integer search: unlike a time limit, independent of the machine's speed
WHOLE = 1e-7  # a solver's numbers that are this close to a whole number count as whole


@dataclass(frozen=True, eq=False)
class Deployment:
    """Workers and parameter servers by server, and what they cost in the slot."""

    workers: FloatArray  # (servers,)
    ps: FloatArray
    cost: float


@dataclass(frozen=True, eq=False)
class SlotProgram:
    """The program of one slot. Its columns are workers, then parameter servers, on servers with room; each row bounds a
    weighted sum of them from above."""

    worker_servers: Indices
    ps_servers: Indices
    servers: int
    price: FloatArray  # (columns,)
    rooms: FloatArray  # (columns,)
    rows: csr_matrix  # (rows, columns); the last three are most workers, least workers, least parameter servers
    limits: FloatArray  # (rows - 2,)

    def above(self, workers: int, ps: int) -> FloatArray:
        """Return (rows,) the upper bounds for a gang of at least so many workers and parameter servers."""
        return np.append(self.limits, [-float(workers), -float(ps)])

    def deployment(self, columns: FloatArray) -> Deployment:
        """Return a solution (columns,) as a deployment by server."""
        workers, ps = np.zeros(self.servers), np.zeros(self.servers)
        cut = len(self.worker_servers)
        workers[self.worker_servers], ps[self.ps_servers] = columns[:cut], columns[cut:]
        return Deployment(workers, ps, float(self.price @ columns))


def program_of(workers: SlotUnits, ps: SlotUnits, free: FloatArray, most: int) -> SlotProgram:
    """Return the program for one slot's units and `free` amounts (resources, servers)."""
    from scipy.sparse import coo_matrix

    at, ps_at = np.flatnonzero(workers.room > 0), np.flatnonzero(ps.room > 0)
    cut = len(at)
    entries: list[tuple[int, int, float]] = []
    limits: list[float] = []
    columns = {server: [(k, workers.demand)] for k, server in enumerate(at.tolist())}
    for k, server in enumerate(ps_at.tolist()):
        columns.setdefault(server, []).append((cut + k, ps.demand))
    for server, here in columns.items():
        for resource in np.flatnonzero(sum(demand for _, demand in here) > 0).tolist():
            entries.extend((len(limits), k, float(demand[resource])) for k, demand in here if demand[resource] > 0)
            limits.append(max(float(free[resource, server]), 0.0))
    entries.extend((len(limits), k, 1.0) for k in range(cut))
    entries.extend((len(limits) + 1, k, -1.0) for k in range(cut))
    entries.extend((len(limits) + 2, cut + k, -1.0) for k in range(len(ps_at)))
    row, column, weight = (np.array(part) for part in zip(*entries, strict=True)) if entries else (np.empty(0),) * 3
    matrix = coo_matrix((weight, (row, column)), shape=(len(limits) + 3, cut + len(ps_at)))
    price = np.concatenate([workers.price[at], ps.price[ps_at]])
    rooms = np.concatenate([workers.room[at], ps.room[ps_at]])
    return SlotProgram(at, ps_at, len(workers.room), price, rooms, matrix.tocsr(), np.array([*limits, float(most)]))


def relaxed(program: SlotProgram, workers: int, ps: int) -> FloatArray | None:
    """Return (columns,) the fractional optimum, None if there is none."""
    if not len(program.price):
        return None
    from scipy.optimize import linprog

    bounds = np.column_stack([np.zeros_like(program.rooms), program.rooms])
    answer = linprog(
        program.price, A_ub=program.rows, b_ub=program.above(workers, ps), bounds=bounds, method="highs-ds"
    )
    return np.maximum(answer.x, 0.0) if answer.status == 0 else None


def rounded_at_random(
    program: SlotProgram, fractions: FloatArray, workers: int, ps: int, gain: float, draws: FloatArray
) -> Deployment | None:
    """Return the cheapest feasible of several roundings (the paper's (27) and (28)); None where none is feasible.

    Each number, times `gain`, is rounded up with the probability of its fraction; `draws` is (tries, columns) from
    [0, 1). A rounding may have more workers than asked for, never more than the job can use.
    """
    scaled = gain * np.where(np.abs(fractions - np.rint(fractions)) < WHOLE, np.rint(fractions), fractions)
    columns = np.floor(scaled) + (draws < scaled - np.floor(scaled))
    feasible = (columns @ program.rows.T <= program.above(workers, ps) + ROUNDING).all(axis=1)
    if not feasible.any():
        return None
    costs = np.where(feasible, columns @ program.price, np.inf)
    return program.deployment(columns[int(np.argmin(costs))])


def whole_optimum(program: SlotProgram, workers: int, ps: int) -> Deployment | None:
    """Return the cheapest gang, found by HiGHS; None where there is none, or none was found within `NODES`."""
    if not len(program.price):
        return None
    from scipy.optimize import Bounds, LinearConstraint, milp

    answer = milp(
        program.price,
        constraints=LinearConstraint(program.rows, ub=program.above(workers, ps)),
        bounds=Bounds(np.zeros_like(program.rooms), program.rooms),
        integrality=np.ones_like(program.price),
        options={"mip_rel_gap": 0.0, "node_limit": NODES},
    )
    return None if answer.x is None else program.deployment(np.rint(answer.x))
