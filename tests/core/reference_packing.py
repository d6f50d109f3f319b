"""Shortest remaining time first and Tetris once more, slowly: plain loops over jobs, servers and units."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduling.core.scenario import Scenario
from scheduling.core.types import Job, UnitType
from tests.core.reference_baselines import Calendar, deal, pairs

NEVER = -1e300


def rate(job: Job, types: tuple[int, int], workers: int, ps: int, slot_seconds: float, *, together: bool) -> float:
    """Mini-batches a slot; too little bandwidth of parameter servers makes the exchange longer."""
    worker, server = job.worker_types[types[0]], job.ps_types[types[1]]
    exchange = 2 * job.gradient_mb * 8 / worker.mbps * max(1.0, workers * worker.mbps / (ps * server.mbps))
    return workers * slot_seconds / (worker.seconds + server.seconds + (0.0 if together else exchange))


@dataclass
class Grant:
    types: tuple[int, int]
    workers: list[int] = field(default_factory=list)
    ps: list[int] = field(default_factory=list)


def evenly(
    calendar: Calendar, job: Job, size: int, types: tuple[int, int], cursors: list[int], slot: int
) -> Grant | None:
    """A gang of so many workers, round robin."""
    cluster = calendar.scenario.cluster
    worker, server = job.worker_types[types[0]], job.ps_types[types[1]]
    ps = size if job.max_ps is None else min(size, job.max_ps)
    first = deal(calendar, worker, size, cursors[0], list(cluster.hosts_workers), slot, slot + 1)
    if first is None:
        return None
    second = deal(calendar, server, ps, cursors[1], list(cluster.hosts_ps), slot, slot + 1)
    if second is None:
        for each in first:
            calendar.take(worker, each, slot, slot + 1, -1)
        return None
    return Grant(types, first, second)


def bare(scenario: Scenario) -> Calendar:
    return Calendar(Scenario(scenario.cluster, (), scenario.slots, {}))


def shortest_slot(
    scenario: Scenario, calendar: Calendar, waiting: list[Job], remaining: dict[int, float], workers: int, slot: int
) -> dict[int, Grant]:
    queue = []
    for job in waiting:
        size = max(job.min_workers, min(workers, job.max_workers))
        while size >= job.min_workers:
            feasible = [t for t in pairs(job) if evenly(bare(scenario), job, size, t, [0, 0], 0) is not None]
            if feasible:
                ps = size if job.max_ps is None else min(size, job.max_ps)
                seconds = remaining[job.number] / rate(job, feasible[0], size, ps, 1.0, together=False)
                queue.append((float(f"{seconds:.9g}"), job.arrival, job.number, size, feasible[0]))
                break
            size = max(size // 2, job.min_workers) if size > job.min_workers else 0
    cursors, held = [0, 0], {}
    for _, _, number, size, types in sorted(queue):
        grant = evenly(calendar, scenario.jobs[number], size, types, cursors, slot)
        if grant is not None:
            held[number] = grant
            cursors = [(row[-1] + 1) % len(scenario.cluster.servers) for row in (grant.workers, grant.ps)]
    return held


class Packer:
    """One slot of Tetris."""

    def __init__(
        self, scenario: Scenario, calendar: Calendar, remaining: dict[int, float], most: int, slot: int
    ) -> None:
        self.scenario, self.calendar, self.slot, self.most = scenario, calendar, slot, most
        self.cluster, self.remaining = scenario.cluster, remaining
        self.total = self.cluster.capacity.sum(axis=1)
        self.mean = 1.0

    def free(self, server: int) -> list[float]:
        booked = self.calendar.amounts
        capacity = self.cluster.capacity[:, server]
        return [amount + 1e-9 - booked.get((self.slot, server, r), 0.0) for r, amount in enumerate(capacity)]

    def fit(self, units: list[UnitType], server: int) -> float:
        parts = zip(self.free(server), self.total, *(unit.demand for unit in units), strict=True)
        return sum(free / total * sum(amounts) / total for free, total, *amounts in parts if total > 0) / self.mean

    def holds(self, units: list[UnitType], server: int) -> bool:
        amounts = zip(self.free(server), *(unit.demand for unit in units), strict=True)
        return all(free >= sum(demand) for free, *demand in amounts)

    def servers(self, units: list[UnitType], kinds: str) -> list[int]:
        hosts = {"w": self.cluster.hosts_workers, "p": self.cluster.hosts_ps}
        names = range(len(self.cluster.servers))
        return [s for s in names if all(hosts[kind][s] for kind in kinds) and self.holds(units, s)]

    def best(self, units: list[UnitType], kinds: str, server: int) -> int | None:
        servers = self.servers(units, kinds)
        if server in servers:
            return server
        return max(servers, key=lambda s: (round(self.fit(units, s), 9), -s), default=None)

    def take(self, unit: UnitType, server: int, sign: int = 1) -> None:
        self.calendar.take(unit, server, self.slot, self.slot + 1, sign)

    def fill(self, job: Job, grant: Grant) -> Grant:
        worker, ps = job.worker_types[grant.types[0]], job.ps_types[grant.types[1]]
        server = -1
        cap = max(job.min_workers, min(job.max_workers, self.most))
        while len(grant.workers) < cap:
            if len(grant.ps) >= (cap if job.max_ps is None else min(cap, job.max_ps)):
                first, second = self.best([worker], "w", server), -1
            else:
                first = second = self.best([worker, ps], "wp", server)
                if first is None and (first := self.best([worker], "w", server)) is not None:
                    self.take(worker, first)
                    second = self.best([ps], "p", -1)
                    self.take(worker, first, -1)
            if first is None or second is None:
                break
            self.take(worker, first)
            grant.workers.append(first)
            if second >= 0:
                self.take(ps, second)
                grant.ps.append(second)
            server = first
        return grant

    def run(self, waiting: list[Job], weight: float) -> dict[int, Grant]:
        ways = [
            (job, types)
            for job in waiting
            for types in pairs(job)
            if evenly(bare(self.scenario), job, job.min_workers, types, [0, 0], 0) is not None
        ]
        if not ways:
            return {}
        hurry = {}
        for job, types in ways:
            cap = max(job.min_workers, min(job.max_workers, self.most))
            ps = cap if job.max_ps is None else min(cap, job.max_ps)
            hurry[job.number, types] = rate(job, types, cap, ps, 1.0, together=False) / self.remaining[job.number]
        mean = sum(hurry.values()) / len(hurry)
        count = len(self.cluster.servers)
        units = {(job.number, types): [job.worker_types[types[0]], job.ps_types[types[1]]] for job, types in ways}
        fits = [self.fit(units[job.number, types], s) for job, types in ways for s in range(count)]
        self.mean = sum(fits) / len(fits) or 1.0
        held: dict[int, Grant] = {}
        while ways:
            best, best_way = NEVER, None
            for job, types in ways:
                for s in self.servers(units[job.number, types], "wp"):
                    fit = self.fit(units[job.number, types], s)
                    score = round(fit + weight * hurry[job.number, types] / mean, 9)
                    if score > best:
                        best, best_way = score, (job, types)
            if best_way is None:
                best_way = max(ways, key=lambda way: hurry[way[0].number, way[1]])
            job, types = best_way
            grant = self.fill(job, Grant(types))
            if len(grant.workers) < job.min_workers:
                for unit, servers in zip(units[job.number, types], (grant.workers, grant.ps), strict=True):
                    for server in servers:
                        self.take(unit, server, -1)
                ways.remove(best_way)
                least = None
                if not any(way[0] is job for way in ways):
                    least = evenly(self.calendar, job, job.min_workers, types, [0, 0], self.slot)
                if least is None:
                    continue
                grant = self.fill(job, least)
            held[job.number] = grant
            ways = [way for way in ways if way[0] is not job]
        return held


def run(scenario: Scenario, name: str, workers: int, weight: float = 1.0) -> dict[int, list[tuple[object, ...]]]:
    """By job: (slot, types, servers of workers, servers of parameter servers) for every slot in which it runs."""
    calendar = Calendar(scenario)
    remaining = {job.number: float(job.work) for job in scenario.jobs}
    ran: dict[int, list[tuple[object, ...]]] = {job.number: [] for job in scenario.jobs}
    for slot in range(scenario.slots):
        ready = [job for job in scenario.jobs if job.arrival <= slot and remaining[job.number] > 0]
        waiting = sorted(ready, key=lambda job: (job.arrival, job.number))
        if name == "srtf":
            held = shortest_slot(scenario, calendar, waiting, remaining, workers, slot)
        else:
            held = Packer(scenario, calendar, remaining, workers, slot).run(waiting, weight)
        for number, grant in held.items():
            job = scenario.jobs[number]
            together = len(grant.ps) == 1 and set(grant.workers) == set(grant.ps)
            sizes = (len(grant.workers), len(grant.ps))
            done = rate(job, grant.types, *sizes, scenario.cluster.slot_seconds, together=together)
            remaining[number] = remaining[number] - done if done < remaining[number] - 1e-9 * job.work else 0.0
            ran[number].append((slot, grant.types, sorted(grant.workers), sorted(grant.ps)))
    return ran
