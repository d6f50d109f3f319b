"""Gandiva_fair once more, slowly: fractions for the shares, plain loops over servers and units for the places."""

from __future__ import annotations

from fractions import Fraction

from scheduling.core.scenario import Scenario
from scheduling.core.types import Job
from tests.core.reference_baselines import Calendar, deal, pairs

Rows = list[tuple[int, int, list[int]]]  # slot, workers, servers
Gang = tuple[int, tuple[int, int]]  # workers, types


def units_on(calendar: Calendar, job: Job, gang: Gang, slot: int, order: list[list[int]]) -> list[int] | None:
    """Take the gang on the servers of each kind in order, or nothing; the servers of all its units."""
    cluster = calendar.scenario.cluster
    spots = []
    for kind, count in enumerate((gang[0], 1)):
        unit = (job.worker_types, job.ps_types)[kind][gang[1][kind]]
        hosts = (cluster.hosts_workers, cluster.hosts_ps)[kind]
        for _ in range(count):
            spot = next((s for s in order[kind] if hosts[s] and calendar.fits(unit, s, slot, slot + 1)), None)
            if spot is None:
                for old, server in spots:
                    calendar.take(old, server, slot, slot + 1, -1)
                return None
            calendar.take(unit, spot, slot, slot + 1)
            spots.append((unit, spot))
    return [server for _, server in spots]


def place(calendar: Calendar, job: Job, gang: Gang, slot: int) -> list[int] | None:
    servers = list(range(len(calendar.scenario.cluster.servers)))
    for server in servers:
        units = units_on(calendar, job, gang, slot, [[server], [server]])
        if units is not None:
            return units
    return units_on(calendar, job, gang, slot, [servers, servers]) or dealt_round(calendar, job, gang, slot)


def dealt_round(calendar: Calendar, job: Job, gang: Gang, slot: int) -> list[int] | None:
    """Take the gang unit by unit, each on the next server with room, or nothing."""
    cluster, units = calendar.scenario.cluster, (job.worker_types[gang[1][0]], job.ps_types[gang[1][1]])
    workers = deal(calendar, units[0], gang[0], 0, list(cluster.hosts_workers), slot, slot + 1)
    if workers is None:
        return None
    servers = deal(calendar, units[1], 1, 0, list(cluster.hosts_ps), slot, slot + 1)
    if servers is None:
        for server in workers:
            calendar.take(units[0], server, slot, slot + 1, -1)
        return None
    return workers + servers


def gang_of(scenario: Scenario, job: Job, workers: int) -> Gang | None:
    size = max(job.min_workers, min(workers, job.max_workers))
    while size >= job.min_workers:
        for pair in pairs(job):
            bare = Calendar(Scenario(scenario.cluster, (), scenario.slots, {}))
            if place(bare, job, (size, pair), 0) is not None:
                return size, pair
        size = max(size // 2, job.min_workers) if size > job.min_workers else 0
    return None


def rate(scenario: Scenario, job: Job, gang: Gang, servers: list[int]) -> float:
    worker, ps = job.worker_types[gang[1][0]], job.ps_types[gang[1][1]]
    seconds = worker.seconds + ps.seconds
    if len(set(servers)) > 1:
        seconds += 2 * job.gradient_mb * 8 / worker.mbps * max(1.0, gang[0] * worker.mbps / ps.mbps)
    return gang[0] * scenario.cluster.slot_seconds / seconds


def entitled(requests: dict[int, int], tickets: dict[int, Fraction], total: Fraction) -> dict[int, Fraction]:
    """Raise all who want more by the same level until one has what it asked for, again and again."""
    shares = dict.fromkeys(requests, Fraction(0))
    for having in (True, False):
        group = [u for u in requests if (tickets[u] > 0) == having]
        while True:
            want = [u for u in group if shares[u] < requests[u]]
            rest = total - sum(shares.values())
            if not want or rest <= 0:
                break
            weight = {u: tickets[u] if having else Fraction(1) for u in want}
            step = min(
                [(requests[u] - shares[u]) / weight[u] for u in want] + [rest / sum(weight.values(), Fraction(0))]
            )
            for u in want:
                shares[u] += step * weight[u]
    return shares


def run(scenario: Scenario, workers: int, within: str) -> dict[int, Rows]:
    """By job: when it ran, with how many workers, on which servers."""
    cluster, calendar = scenario.cluster, Calendar(scenario)
    gangs = {job.number: gang_of(scenario, job, workers) for job in scenario.jobs}
    rest = {job.number: float(job.work) for job in scenario.jobs}
    served = {job.number: 0 for job in scenario.jobs}
    ran: dict[int, Rows] = {job.number: [] for job in scenario.jobs}
    passes: dict[int, Fraction] = {}
    for slot in range(scenario.slots):
        waiting = sorted(
            (job for job in scenario.jobs if job.arrival <= slot and rest[job.number] > 0 and gangs[job.number]),
            key=lambda job: (job.arrival, job.number),
        )
        if not any(job.arrival <= slot and rest[job.number] > 0 for job in scenario.jobs):
            continue
        queues = {u: [job for job in waiting if job.tenant == u] for u in sorted({job.tenant for job in waiting})}
        named = {
            r
            for job in waiting
            for unit in job.worker_types
            for r in range(len(cluster.resources))
            if unit.demand[r] > 0
        }
        named = {r for r in named if cluster.capacity[r].sum() > 0}
        tickets = {
            u: sum(
                (Fraction(float(cluster.quota[r, u])) / Fraction(float(cluster.capacity[r].sum())) for r in named),
                Fraction(0),
            )
            / max(1, len(named))
            for u in queues
        }
        wanted = {u: sum(gangs[job.number][0] for job in queue) for u, queue in queues.items()}
        part = Fraction(1)
        for r in range(len(cluster.resources)):
            need = sum(
                Fraction(gangs[job.number][0]) * Fraction(float(job.worker_types[gangs[job.number][1][0]].demand[r]))
                for job in waiting
            )
            busy = sum(calendar.amounts.get((slot, s, r), 0.0) for s in range(len(cluster.servers)))
            if need > 0:
                part = min(part, Fraction(float(cluster.capacity[r].sum() - busy)) / need)
        shares = entitled(wanted, tickets, part * sum(wanted.values()))
        owed = {u: passes.get(u, Fraction(0)) - shares[u] for u in queues}
        if within == "stride":
            for queue in queues.values():
                queue.sort(key=lambda job: (served[job.number], job.arrival, job.number))
        open_ = {u: list(queue) for u, queue in queues.items()}
        while any(open_.values()):
            u = min(
                (u for u in open_ if open_[u]),
                key=lambda u: (tickets[u] <= 0, round(float(owed[u] / (tickets[u] or 1)), 9), u),
            )
            job = open_[u].pop(0)
            servers = place(calendar, job, gangs[job.number], slot)
            if servers is None:
                continue
            size = gangs[job.number][0]
            owed[u] += size
            served[job.number] += size
            done = rate(scenario, job, gangs[job.number], servers)
            rest[job.number] = rest[job.number] - done if done < rest[job.number] - 1e-9 * job.work else 0.0
            ran[job.number].append((slot, size, sorted(set(servers))))
        for having in (True, False):
            group = [u for u in owed if (tickets[u] > 0) == having]
            weights = {u: tickets[u] if having else Fraction(1) for u in group}
            if group:
                mean = sum((owed[u] for u in group), Fraction(0)) / sum(weights.values(), Fraction(0))
                for u in group:
                    owed[u] -= mean * weights[u]
        passes = owed
    return ran
