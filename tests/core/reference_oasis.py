"""OASiS written down plainly: loops over slots, servers and workers, no pruning, exact fractions for the workload.

Independent of the policy's package on purpose; only the vocabulary is shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.core.types import FloatArray, Job, View

INFINITE = float("inf")
Net = Callable[[int, int, int], float]  # of a slot, a server and a resource


@dataclass(frozen=True)
class Answer:
    """The best of the menu: completion time, price and value; or nothing."""

    end: int
    cost: float
    paid: float
    value: float
    workers: tuple[int, ...]


def posted(floor: float, ceiling: float, used: float, capacity: float) -> float:
    share = used / capacity
    return math.exp((1 - share) * math.log(floor) + share * math.log(ceiling))


def whole_units(free: FloatArray, demand: FloatArray) -> int:
    fits = [math.floor(free[r] / demand[r] + 1e-9) for r in range(len(demand)) if demand[r] > 0]
    return int(min(fits))


def whole_price(slot: int, server: int, resource: int) -> float:
    """The part of a price that does not come back to who pays it: all of it."""
    return 1.0


def unit_costs(
    view: View, slot: int, demand: FloatArray, hosts: FloatArray, price: dict, most: int, net: Net = whole_price
) -> list[float]:
    """Price of the first, second, ... unit in a slot, the cheapest server first."""
    offers = []
    for server in range(len(view.cluster.servers)):
        if not hosts[server]:
            continue
        used = np.zeros(len(demand))
        if slot - view.slot < view.occupied.shape[1]:
            used = view.occupied[:, slot - view.slot, server]
        capacity = view.cluster.capacity[:, server]
        rooms = whole_units(capacity - used, demand)
        if rooms <= 0:
            continue
        total = sum(
            demand[r]
            * posted(price["floor"], price["ceiling"].get(name, price["floor"]), used[r], capacity[r])
            * net(slot, server, r)
            for r, name in enumerate(view.cluster.resources)
            if demand[r] > 0
        )
        offers.append((total, server, rooms))
    units = [total for total, _, rooms in sorted(offers) for _ in range(rooms)]
    return units[:most]


def slot_cost(workers: int, worker_units: list[float], ps_units: list[float], ratio: Fraction) -> float:
    servers = math.ceil(workers * ratio)
    if workers > len(worker_units) or servers > len(ps_units):
        return INFINITE
    return sum(worker_units[:workers]) + sum(ps_units[:servers])


def value_of(job: Job, slot: int, mode: str) -> float:
    """What it is worth that `slot` is the last one used."""
    return float(job.value(float(slot - job.first_slot) if mode == "paper" else slot + 1 - job.arrival))


def answer(
    job: Job, view: View, worker_price: dict, ps_price: dict, mode: str, net: Net = whole_price
) -> Answer | None:
    """The completion slot with the largest value less price, the first of equals, if that is above zero."""
    worker, ps = job.worker_types[0], job.ps_types[0]
    exchange = 16 * Fraction(repr(job.gradient_mb)) / Fraction(repr(worker.mbps))
    seconds = Fraction(repr(worker.seconds)) + Fraction(repr(ps.seconds)) + exchange
    per_chunk = job.minibatches * seconds / Fraction(repr(view.cluster.slot_seconds))
    work = max(1, math.ceil(job.epochs * job.chunks * per_chunk))
    ratio = Fraction(repr(worker.mbps)) / Fraction(repr(ps.mbps))
    most = job.max_workers
    row = [0.0] + [INFINITE] * work
    choices: list[list[int]] = []
    best: Answer | None = None
    for slot in range(view.slot, view.horizon):
        worker_units = unit_costs(view, slot, worker.demand, view.cluster.hosts_workers, worker_price, most, net)
        ps_units = unit_costs(view, slot, ps.demand, view.cluster.hosts_ps, ps_price, math.ceil(most * ratio), net)
        costs = [slot_cost(count, worker_units, ps_units, ratio) for count in range(most + 1)]
        following, choice = [INFINITE] * (work + 1), [0] * (work + 1)
        for done in range(work + 1):
            for count in range(min(done, most) + 1):
                total = costs[count] + row[done - count]
                if total < following[done]:
                    following[done], choice[done] = total, count
        row = following
        choices.append(choice)
        if row[work] == INFINITE:
            continue
        price = math.floor(row[work] * 1e6 + 0.5) / 1e6
        value = value_of(job, slot, mode)
        if value - price > (best.value - best.paid if best else 0.0):
            best = Answer(slot + 1, row[work], price, value, workers_of(choices, work))
    return best


def workers_of(choices: list[list[int]], work: int) -> tuple[int, ...]:
    counts, rest = [], work
    for choice in reversed(choices):
        counts.append(choice[rest])
        rest -= choice[rest]
    return tuple(reversed(counts))
