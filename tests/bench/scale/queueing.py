"""Many pools as a queue: how late `workers` workers beside a database of `cores` cores do boundaries. Pure.

A task comes, waits for a worker, computes there, and then needs a core of the database for a while. Its worker is busy
until both are done, also while it waits for the core. In both queues, the task that came first is served first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Task:
    """A task, in seconds: when it comes, and what it takes of a worker and of the database."""

    comes: float
    worker: float
    database: float = 0.0


@dataclass(frozen=True)
class Served:
    """What came of the tasks, in the order in which they came. `waits` are the seconds until each had a worker, and
    `ends` the moments when each was done. The busy seconds are those of all workers and of all cores."""

    waits: tuple[float, ...]
    ends: tuple[float, ...]
    workers_busy: float
    cores_busy: float


def serve(tasks: Iterable[Task], *, workers: int, cores: int) -> Served:
    """Serve the tasks by `workers` workers and `cores` cores, all of which are alike. Nothing is drawn here: the same
    tasks give the same answer."""
    coming = sorted(tasks)
    waits, ends = [0.0] * len(coming), [0.0] * len(coming)
    idle = [0.0] * workers  # since when; a worker at work is not in it
    cores_free = [0.0] * cores
    computed: list[tuple[float, int]] = []  # (when it asks for a core, task), of those at work
    for number, task in enumerate(coming):
        # A worker is free for this task once all who ask for a core before that moment have been given theirs.
        while computed and (not idle or computed[0][0] <= max(idle[0], task.comes)):
            _core(computed, coming, cores_free, idle, ends)
        begins = max(heapq.heappop(idle), task.comes)
        waits[number] = begins - task.comes
        heapq.heappush(computed, (begins + task.worker, number))
    while computed:
        _core(computed, coming, cores_free, idle, ends)
    workers_busy = sum(end - task.comes - wait for end, task, wait in zip(ends, coming, waits, strict=True))
    return Served(tuple(waits), tuple(ends), workers_busy, sum(task.database for task in coming))


def _core(
    computed: list[tuple[float, int]],
    coming: Sequence[Task],
    cores_free: list[float],
    idle: list[float],
    ends: list[float],
) -> None:
    """Give a core to the task that has waited longest for one. Its worker is idle when the task is done."""
    asks, number = heapq.heappop(computed)
    begins = max(asks, heapq.heappop(cores_free))
    ends[number] = begins + coming[number].database
    heapq.heappush(cores_free, ends[number])
    heapq.heappush(idle, ends[number])


def minutes_of(
    pools: int, *, minutes: int, worker: float, database: float, spread: bool, heavy: float = 1.0, every: int = 1
) -> list[Task]:
    """Return the boundaries of `pools` pools with slots of a minute, all at the full minute or evenly spread over it.
    One in `every` costs `heavy` times as much as the others; `worker` and `database` are means over all."""
    plain = every / (every - 1 + heavy)
    return [
        Task(60.0 * minute + (60.0 * pool / pools if spread else 0.0), worker * factor, database * factor)
        for minute in range(minutes)
        for pool in range(pools)
        for factor in [plain * heavy if (pool + minute) % every == 0 else plain]
    ]


def late(served: Served, tasks: Sequence[Task], within: float = 60.0) -> int:
    """Return how many tasks were not done `within` seconds after they came."""
    return sum(1 for end, task in zip(served.ends, sorted(tasks), strict=True) if end - task.comes > within)


def waits_in_theory(rate: float, service: float, servers: int) -> float:
    """Return the mean wait of M/M/c by Erlang's formula C. `service` is the mean seconds of a task."""
    load = rate * service
    terms = [load**n / math.factorial(n) for n in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last) / (servers / service - rate)
