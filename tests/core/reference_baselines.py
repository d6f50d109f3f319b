"""FIFO and dominant resource fairness once more, slowly: plain loops over slots, servers and units.

Written from the rules alone; nothing of the placement or the policies of the product is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from scheduling.core.scenario import Scenario
from scheduling.core.types import Job, UnitType

LONGEST = 5000


@dataclass
class Calendar:
    """Free amounts by (slot, server, resource)."""

    scenario: Scenario
    amounts: dict[tuple[int, int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.scenario.preload:
            self.add(row.slot, row.server, row.resource, row.amount)

    def add(self, slot: int, server: int, resource: int, amount: float) -> None:
        key = (slot, server, resource)
        self.amounts[key] = self.amounts.get(key, 0.0) + amount

    def fits(self, unit: UnitType, server: int, start: int, end: int) -> bool:
        capacity = self.scenario.cluster.capacity
        return all(
            self.amounts.get((slot, server, resource), 0.0) + amount <= capacity[resource, server] + 1e-9
            for slot in range(start, end)
            for resource, amount in enumerate(unit.demand)
            if amount > 0
        )

    def take(self, unit: UnitType, server: int, start: int, end: int, sign: int = 1) -> None:
        for slot in range(start, end):
            for resource, amount in enumerate(unit.demand):
                self.add(slot, server, resource, sign * amount)


def deal(
    calendar: Calendar, unit: UnitType, count: int, cursor: int, hosts: list[bool], start: int, end: int
) -> list[int] | None:
    """Servers of the units, each taken on the next server with room; all given back if one finds none."""
    dealt: list[int] = []
    servers = len(hosts)
    for _ in range(count):
        for step in range(servers):
            server = (cursor + step) % servers
            if hosts[server] and calendar.fits(unit, server, start, end):
                calendar.take(unit, server, start, end)
                dealt.append(server)
                cursor = (server + 1) % servers
                break
        else:
            for server in dealt:
                calendar.take(unit, server, start, end, -1)
            return None
    return dealt


def ceiling(x: float) -> int:
    return math.ceil(x - 1e-9 * max(1.0, x))


def need(workers: int, worker: UnitType, ps: UnitType) -> int:
    return max(1, ceiling(workers * worker.mbps / ps.mbps))


def speed(job: Job, worker: UnitType, ps: UnitType, slot_seconds: float, *, together: bool) -> float:
    exchange = 0.0 if together else 2 * job.gradient_mb * 8 / worker.mbps
    return slot_seconds / (worker.seconds + ps.seconds + exchange)


def pairs(job: Job) -> list[tuple[int, int]]:
    return [(w, p) for w in range(len(job.worker_types)) for p in range(len(job.ps_types))]


def gang_in(
    calendar: Calendar, job: Job, size: int, pair: tuple[int, int], cursors: tuple[int, int], start: int, end: int
) -> tuple[list[int], list[int]] | None:
    """Servers of a gang's workers and parameter servers, or None with nothing changed."""
    cluster = calendar.scenario.cluster
    worker, ps = job.worker_types[pair[0]], job.ps_types[pair[1]]
    workers = deal(calendar, worker, size, cursors[0], list(cluster.hosts_workers), start, end)
    if workers is None:
        return None
    servers = deal(calendar, ps, need(size, worker, ps), cursors[1], list(cluster.hosts_ps), start, end)
    if servers is None:
        for server in workers:
            calendar.take(worker, server, start, end, -1)
        return None
    return workers, servers


def fifo(scenario: Scenario, usual: int) -> dict[int, tuple[int, int, list[int], list[int]] | str]:
    """By job: (start, end, servers of workers, servers of parameter servers), or "rejected"; others wait."""
    calendar, cluster = Calendar(scenario), scenario.cluster
    queue = sorted(scenario.jobs, key=lambda job: (job.arrival, job.number))
    fate: dict[int, tuple[int, int, list[int], list[int]] | str] = {}
    cursors = (0, 0)
    for slot in range(scenario.slots):
        while queue and queue[0].arrival <= slot:
            job = queue[0]
            size = max(job.min_workers, min(usual, job.max_workers))
            waits = False
            placed = None
            while size >= job.min_workers and placed is None and not waits:
                for pair in pairs(job):
                    worker, ps = job.worker_types[pair[0]], job.ps_types[pair[1]]
                    if job.max_ps is not None and need(size, worker, ps) > job.max_ps:
                        continue
                    slow = speed(job, worker, ps, cluster.slot_seconds, together=False)
                    end = slot + max(1, ceiling(job.work / (slow * size)))
                    placed = gang_in(calendar, job, size, pair, cursors, slot, end)
                    if placed is not None:
                        break
                    bare = Calendar(Scenario(cluster, (), scenario.slots, {}))
                    if gang_in(bare, job, size, pair, (0, 0), 0, 1) is not None:
                        waits = True
                        break
                else:
                    size = max(size // 2, job.min_workers) if size > job.min_workers else 0
            if waits:
                break
            queue.pop(0)
            if placed is None:
                fate[job.number] = "rejected"
                continue
            workers, servers = placed
            cursors = ((workers[-1] + 1) % len(cluster.servers), (servers[-1] + 1) % len(cluster.servers))
            together = len(servers) == 1 and set(workers) == set(servers)
            fast = speed(job, worker, ps, cluster.slot_seconds, together=together)
            sooner = slot + max(1, ceiling(job.work / (fast * size)))
            for unit, units in ((worker, workers), (ps, servers)):
                for server in units:
                    calendar.take(unit, server, sooner, end, -1)
            fate[job.number] = (slot, sooner, sorted(workers), sorted(servers))
    return fate


def fair_slot(
    scenario: Scenario, calendar: Calendar, waiting: list[Job], slot: int
) -> dict[int, tuple[tuple[int, int], list[int], list[int]]]:
    """Progressive filling of one slot: by job (types, servers of workers, servers of parameter servers)."""
    cluster = scenario.cluster
    held: dict[int, tuple[tuple[int, int], list[int], list[int]]] = {}
    growing = list(waiting)
    cursors = [0, 0]

    def share(job: Job) -> float:
        if job.number not in held:
            return 0.0
        pair, workers, servers = held[job.number]
        worker, ps = job.worker_types[pair[0]], job.ps_types[pair[1]]
        total = cluster.capacity.sum(axis=1)
        return max(
            (worker.demand[r] * len(workers) + ps.demand[r] * len(servers)) / total[r]
            for r in range(len(total))
            if total[r] > 0
        )

    def grow(job: Job) -> bool:
        pair, workers, servers = held.get(job.number, (None, [], []))
        more = 1 if workers else job.min_workers
        if len(workers) + more > job.max_workers:
            return False
        for way in [pair] if pair else pairs(job):
            worker, ps = job.worker_types[way[0]], job.ps_types[way[1]]
            needed = need(len(workers) + more, worker, ps)
            if job.max_ps is not None and needed > job.max_ps:
                continue
            first = deal(calendar, worker, more, cursors[0], list(cluster.hosts_workers), slot, slot + 1)
            if first is None:
                continue
            second = deal(calendar, ps, needed - len(servers), cursors[1], list(cluster.hosts_ps), slot, slot + 1)
            if second is None:
                for server in first:
                    calendar.take(worker, server, slot, slot + 1, -1)
                continue
            cursors[0] = (first[-1] + 1) % len(cluster.servers)
            if second:
                cursors[1] = (second[-1] + 1) % len(cluster.servers)
            held[job.number] = (way, workers + first, servers + second)
            return True
        return False

    while growing:
        job = min(growing, key=lambda job: (share(job), job.arrival, job.number))
        if not grow(job):
            growing.remove(job)
    return held


def fair(scenario: Scenario) -> dict[int, list[tuple[int, list[int], list[int]]]]:
    """By job: (slot, servers of workers, servers of parameter servers) for every slot in which it runs."""
    calendar = Calendar(scenario)
    remaining = {job.number: float(job.work) for job in scenario.jobs}
    ran: dict[int, list[tuple[int, list[int], list[int]]]] = {job.number: [] for job in scenario.jobs}
    for slot in range(scenario.slots):
        waiting = [job for job in scenario.jobs if job.arrival <= slot and remaining[job.number] > 0]
        held = fair_slot(scenario, calendar, waiting, slot)
        for number, (pair, workers, servers) in held.items():
            job = scenario.jobs[number]
            together = len(servers) == 1 and set(workers) == set(servers)
            worker, ps = job.worker_types[pair[0]], job.ps_types[pair[1]]
            done = len(workers) * speed(job, worker, ps, scenario.cluster.slot_seconds, together=together)
            remaining[number] = remaining[number] - done if done < remaining[number] - 1e-9 * job.work else 0.0
            ran[number].append((slot, sorted(workers), sorted(servers)))
    return ran
