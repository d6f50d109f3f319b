"""The slow reference, what is settled before a round: the presets, the clock, and the usual prices of a scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.core.types import CENTRALIZED, Cluster, Job, View
from tests.core.reference_search import gangs, length, servers_needed, worth

PAPER = {
    "rounds": 1,
    "clock": "geometric",
    "intervals": None,
    "workers": "range",
    "server_choice": "lowest_index",
    "own_price": "shadow",
    "floor": False,
    "price_counts": "cluster",
    "payment": "gross",
    "value_from": "round_start",
    "upgrade": False,
}
GUARANTEE = PAPER | {
    "clock": {"first": 1, "cap": 32, "restart": True},
    "own_price": "zero",
    "floor": True,
    "price_counts": "pool",
    "payment": "net",
    "value_from": "arrival",
    "upgrade": True,
}


def boundary(settings: Mapping[str, Any], view: View) -> tuple[list[tuple[int, int]], dict[str, Any]]:
    """The windows to decide at this slot, none between boundaries, and what the clock must remember."""
    clock, now = settings["clock"], view.slot
    limit = math.inf if settings["intervals"] is None else settings["intervals"]
    if clock == "geometric":
        batch, rounds = now.bit_length() - 1, settings["rounds"]
        if now < 2 or now != 2**batch or batch > limit:
            return [], {}
        return [((rounds + i) * now, (rounds + i + 1) * now) for i in range(rounds)], {}
    if not clock["restart"]:
        at, size, number = clock["first"], clock["first"], 1
        while at < now:
            at, size, number = at + size, min(2 * size, clock["cap"]), number + 1
        return ([(at, at + size)] if at == now and number <= limit else []), {}
    return restarting(clock, view, limit)


def restarting(clock: Mapping[str, Any], view: View, limit: float) -> tuple[list[tuple[int, int]], dict[str, Any]]:
    """L2: the epoch ends where nothing that arrived before the boundary waits; the next job to wait opens another."""
    memory = dict(view.memory) or {"next": None, "size": 0, "decided": 0}
    if memory["next"] is not None and memory["next"] < view.slot:
        memory["next"] = None  # nobody asked at that boundary, so nothing waited there
    windows: list[tuple[int, int]] = []
    if memory["next"] == view.slot:
        if any(job.arrival < view.slot for job in view.waiting):
            if memory["decided"] < limit:
                windows = [(view.slot, view.slot + memory["size"])]
            memory["next"] += memory["size"]
            memory["size"] = min(2 * memory["size"], clock["cap"])
            memory["decided"] += 1
        else:
            memory["next"] = None
    if memory["next"] is None and view.waiting:
        first = min(job.arrival for job in view.waiting)
        memory["next"], memory["size"] = math.ceil(first) + clock["first"], clock["first"]
    return windows, memory


def by_resource(setting: Any, cluster: Cluster, usual: float | list[float]) -> list[float]:
    """A number for all, one for each resource, or the usual ones."""
    if isinstance(setting, Mapping):
        return [float(setting[name]) for name in cluster.resources]
    number = usual if setting is None else setting
    return [float(x) for x in number] if isinstance(number, list) else [float(number)] * len(cluster.resources)


def value_densities(cluster: Cluster, jobs: Sequence[Job], workers: str) -> list[list[float]]:
    """Per resource, the positive values per unit and slot of each job's shortest schedule."""
    densities: list[list[float]] = [[] for _ in cluster.resources]
    for job in jobs:
        options = []
        for pair, count, placement in gangs(job, workers):
            slots = length(job, cluster.slot_seconds, pair, count, placement, int(cluster.hosts_workers.sum()))
            options.append((slots, count, placement != CENTRALIZED, pair))
        if not options:
            continue
        slots, count, distributed, pair = min(options)
        ps = min(servers_needed(job, pair, count), job.max_ps or 10**9) if distributed else 1
        for demand, number in ((job.worker_types[pair[0]].demand, count), (job.ps_types[pair[1]].demand, ps)):
            for r, amount in enumerate(demand):
                density = worth(job.value, slots) / (number * slots * amount) if amount > 0 else 0.0
                if density > 0:
                    densities[r].append(density)
    return densities


def quantile(numbers: list[float], q: float) -> float:
    """Linear between the two nearest ranks."""
    ranked = sorted(numbers)
    place = q * (len(ranked) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (place - low) * (ranked[high] - ranked[low])


def usual_theta(cluster: Cluster, jobs: Sequence[Job], workers: str) -> list[float]:
    densities = value_densities(cluster, jobs, workers)
    return [max(2.0, 1.0 + 0.8 * quantile(numbers, 0.9)) if numbers else 2.0 for numbers in densities]


def usual_price_floor(cluster: Cluster, jobs: Sequence[Job], workers: str) -> list[float]:
    densities = value_densities(cluster, jobs, workers)
    return [0.01 * quantile(numbers, 0.5) if numbers else 0.0 for numbers in densities]
