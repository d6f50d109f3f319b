"""PD-ORS written down plainly: loops over deployments, quanta and slots, and a program that is exact in samples.

Independent of the policy's package on purpose; only the vocabulary is shared.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.core.types import FloatArray, Job, View
from tests.core.reference_oasis import Net, whole_price

INFINITE = float("inf")


def decimal(number: float) -> Fraction:
    return Fraction(repr(number))


@dataclass(frozen=True)
class Numbers:
    """The paper's symbols for one job."""

    V: Fraction
    qi: Fraction
    qe: Fraction
    gamma: Fraction
    F: int


def numbers(job: Job, slot_seconds: float) -> Numbers:
    counts, worker = job.samples, job.worker_types[0]
    assert None not in (counts.total, counts.seconds, counts.internal_mbps, counts.ps_ratio)
    assert counts.batch_size is not None
    gamma, batch = decimal(counts.ps_ratio), counts.batch_size
    push_and_pull = 2 * 8 * decimal(job.gradient_mb) * gamma / batch
    inside = decimal(counts.seconds) + push_and_pull / decimal(counts.internal_mbps)
    across = decimal(counts.seconds) + push_and_pull / decimal(worker.mbps)
    slot = decimal(slot_seconds)
    most = min(batch, job.max_workers)
    return Numbers(job.epochs * decimal(counts.total), inside / slot, across / slot, gamma, most)


def unit_prices(view: View, slot: int, demand: FloatArray, price: dict, net: Net) -> list[float]:
    """What one unit costs on each server in a slot."""
    row = slot - view.slot
    costs = []
    for server in range(len(view.cluster.servers)):
        total = 0.0
        for r, name in enumerate(view.cluster.resources):
            used = view.occupied[r, row, server] if row < view.occupied.shape[1] else 0.0
            share = used / view.cluster.capacity[r, server] if view.cluster.capacity[r, server] else 0.0
            floor, ceiling = price["floor"], price["ceiling"].get(name, price["floor"])
            if demand[r] > 0:
                posted = math.exp((1 - share) * math.log(floor) + share * math.log(ceiling))
                total += demand[r] * posted * net(slot, server, r)
        costs.append(total)
    return costs


def value_of(job: Job, slot: int, mode: str) -> float:
    """What it is worth that `slot` is the last one used."""
    return float(job.value(float(slot - job.first_slot) if mode == "paper" else slot + 1 - job.arrival))


def free(view: View, slot: int) -> FloatArray:
    row = slot - view.slot
    used = view.occupied[:, row] if row < view.occupied.shape[1] else 0.0
    return view.cluster.capacity - used


def fits(view: View, slot: int, server: int, job: Job, workers: int, ps: int) -> bool:
    needed = workers * job.worker_types[0].demand + ps * job.ps_types[0].demand
    return bool((needed <= free(view, slot)[:, server] + 1e-9).all())


def shares(units: int, servers: int) -> list[tuple[int, ...]]:
    """Every way to put so many units on the servers."""
    return [ways for ways in itertools.product(range(units + 1), repeat=servers) if sum(ways) == units]


def gang_costs(
    view: View, slot: int, job: Job, price: dict, gamma: Fraction, most: int, net: Net = whole_price
) -> list[tuple[float, float]]:
    """(internal, external) least cost of 0, 1, ... workers with their parameter servers, by trying everything."""
    of_worker = unit_prices(view, slot, job.worker_types[0].demand, price, net)
    of_ps = unit_prices(view, slot, job.ps_types[0].demand, price, net)
    servers = range(len(of_worker))
    costs = [(0.0, 0.0)]
    for n in range(1, most + 1):
        ps = math.ceil(n / gamma)
        inside = [n * of_worker[h] + ps * of_ps[h] for h in servers if fits(view, slot, h, job, n, ps)]
        across = [
            sum(w[h] * of_worker[h] + s[h] * of_ps[h] for h in servers)
            for w in shares(n, len(of_worker))
            for s in shares(ps, len(of_ps))
            if all(fits(view, slot, h, job, w[h], s[h]) for h in servers)
        ]
        costs.append((min(inside, default=INFINITE), min(across, default=INFINITE)))
    return costs


def quantum_payoff(job: Job, view: View, price: dict, parts: int, mode: str, net: Net = whole_price) -> float:
    """The largest value less cost of the quantum program (rule P4), or 0 where nothing is above it."""
    n = numbers(job, view.cluster.slot_seconds)
    work = math.ceil(parts * n.V * n.qe)
    most = math.floor(parts * n.F * n.qe / n.qi)
    row, best = [0.0] + [INFINITE] * work, 0.0
    for slot in range(view.slot, view.horizon):
        gangs = gang_costs(view, slot, job, price, n.gamma, n.F, net)
        step = [0.0]
        for k in range(1, max(most, parts * n.F) + 1):
            inside, across = math.ceil(k * n.qi / (parts * n.qe)), math.ceil(Fraction(k, parts))
            step.append(
                min(
                    gangs[inside][0] if inside <= n.F else INFINITE,
                    gangs[across][1] if across <= n.F else INFINITE,
                )
            )
        row = [min(step[k] + row[x - k] for k in range(min(x, len(step) - 1) + 1)) for x in range(work + 1)]
        best = max(best, value_of(job, slot, mode) - row[work])
    return best


def exact_payoff(job: Job, view: View, price: dict) -> float:
    """The largest value less cost when internal and external worker-slots are counted apart, without any quantum."""
    n = numbers(job, view.cluster.slot_seconds)
    across_most, inside_most = math.ceil(n.V * n.qe), math.ceil(n.V * n.qi)
    row = np.full((across_most + 1, inside_most + 1), INFINITE)
    row[0, 0] = 0.0
    enough = np.array(
        [[e / n.qe + i / n.qi >= n.V for i in range(inside_most + 1)] for e in range(across_most + 1)], dtype=bool
    )
    best = 0.0
    for slot in range(view.slot, view.horizon):
        following = row.copy()
        for workers, (inside, across) in enumerate(gang_costs(view, slot, job, price, n.gamma, n.F)):
            for cost, e, i in ((across, workers, 0), (inside, 0, workers)):
                if not workers or cost == INFINITE:
                    continue
                for before in np.argwhere(np.isfinite(row)):  # a state beyond the work counts as at its edge
                    to = min(before[0] + e, across_most), min(before[1] + i, inside_most)
                    following[to] = min(following[to], row[tuple(before)] + cost)
        row = following
        cost = float(row[enough].min(initial=INFINITE))
        best = max(best, float(job.value(float(slot - job.first_slot))) - cost)
    return best
