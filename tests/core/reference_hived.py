"""HiveD once more, slowly: amounts in dictionaries, counted anew for every job from all that holds something."""

from __future__ import annotations

from scheduling.core.cells import deal_cells
from scheduling.core.scenario import Scenario
from scheduling.core.types import OWN, SHARED, Job
from tests.core.reference_baselines import ceiling, need, pairs, speed

Amounts = dict[tuple[int, int], float]  # by (server, resource)
Gang = tuple[int, int, tuple[int, int]]  # workers, parameter servers, types
Placed = list[tuple[int, int, int]]  # server, workers, parameter servers
Row = tuple[int, int, str, Placed]


def count(free: Amounts, demand: list[float], server: int) -> int:
    """Whole units, one by one; a demand of nothing has no end."""
    units = 0
    while units < 99 and all(
        free[server, r] - (units + 1) * amount >= -1e-9 * max(1, amount)
        for r, amount in enumerate(demand)
        if amount > 0
    ):
        units += 1
    return units


def size_of_cell(workers: int) -> int:
    size = 1
    while size < workers:
        size *= 2
    return size


def fit(scenario: Scenario, job: Job, gang: Gang, free: Amounts) -> Placed | None:
    cluster, (missing, ps, types) = scenario.cluster, gang
    servers = range(len(cluster.servers))
    worker, server_demand = list(job.worker_types[types[0]].demand), list(job.ps_types[types[1]].demand)
    open_ = {s: count(free, worker, s) if cluster.hosts_workers[s] else 0 for s in servers}
    placed: dict[int, list[int]] = {}
    while missing > 0:
        with_cell = [s for s in servers if open_[s] >= size_of_cell(missing)]
        s = min(with_cell, key=lambda s: (open_[s], s)) if with_cell else max(servers, key=lambda s: (open_[s], -s))
        if open_[s] == 0:
            return None
        placed[s] = [min(missing, open_[s]), 0]
        missing -= placed[s][0]
        open_[s] = 0
    room = dict(free)
    for s, (workers, _) in placed.items():
        for r, amount in enumerate(worker):
            room[s, r] -= workers * amount
    for s in [*sorted(placed), *(s for s in servers if s not in placed)]:
        count_here = min(ps, count(room, server_demand, s)) if cluster.hosts_ps[s] else 0
        if count_here:
            placed.setdefault(s, [0, 0])[1] += count_here
            ps -= count_here
    return [(s, *placed[s]) for s in sorted(placed)] if ps == 0 else None


def sizes(job: Job, usual: int) -> list[Gang]:
    gangs = []
    size = max(job.min_workers, min(usual, job.max_workers))
    while size >= job.min_workers:
        for w, p in pairs(job):
            ps = need(size, job.worker_types[w], job.ps_types[p])
            if job.max_ps is None or ps <= job.max_ps:
                gangs.append((size, ps, (w, p)))
        size = max(size // 2, job.min_workers) if size > job.min_workers else 0
    return gangs


def rate(scenario: Scenario, job: Job, gang: Gang, placed: Placed) -> float:
    types = job.worker_types[gang[2][0]], job.ps_types[gang[2][1]]
    together = len(placed) == 1 and gang[1] == 1
    return gang[0] * speed(job, *types, scenario.cluster.slot_seconds, together=together)


def minus(free: Amounts, job: Job, gang: Gang, placed: Placed) -> Amounts:
    room = dict(free)
    worker, ps = job.worker_types[gang[2][0]].demand, job.ps_types[gang[2][1]].demand
    for s, workers, servers in placed:
        for r in range(len(worker)):
            room[s, r] -= workers * worker[r] + servers * ps[r]
    return room


def run(scenario: Scenario, usual: int, *, opportunistic: bool) -> dict[int, list[Row]]:
    """By job: (start, end, phase, places) of each of its bookings."""
    cluster = scenario.cluster
    cells = deal_cells(cluster.capacity, cluster.quota) if cluster.cells is None else cluster.cells
    keys = [(s, r) for s in range(len(cluster.servers)) for r in range(len(cluster.resources))]
    whole = {(s, r): float(cluster.capacity[r, s]) for s, r in keys}
    home = [{(s, r): float(cells[r, u, s]) for s, r in keys} for u in range(len(cluster.tenants))]
    ran: dict[int, list[Row]] = {job.number: [] for job in scenario.jobs}
    rest = {job.number: float(job.work) for job in scenario.jobs}
    holding: list[tuple[int, Job, Gang, Placed]] = []  # end, job, gang, places, in order of their starts
    queue = sorted(scenario.jobs, key=lambda job: (job.arrival, job.number))
    guests: dict[int, Placed] = {}

    def state(tenant: int | None) -> Amounts:
        """Free units of a home, or of the cluster: cells round what is held up, as far as the home goes."""
        homes, free = [dict(amounts) for amounts in home], dict(whole)
        for _, job, gang, placed in holding:
            homes[job.tenant] = minus(homes[job.tenant], job, gang, placed)
            free = minus(free, job, gang, placed)
            # parts of a gang are rounded up one by one, each from what all parts before it have left
            homes[job.tenant] = minus(homes[job.tenant], job, gang, [(s, -w, -p) for s, w, p in placed])
            worker = list(job.worker_types[gang[2][0]].demand)
            for s, workers, ps in placed:
                homes[job.tenant] = minus(homes[job.tenant], job, gang, [(s, workers, ps)])
                more = min(size_of_cell(workers) - workers if workers else 0, count(homes[job.tenant], worker, s))
                homes[job.tenant] = minus(homes[job.tenant], job, gang, [(s, more, 0)])
                free = minus(free, job, gang, [(s, more, 0)])
        return free if tenant is None else homes[tenant]

    for slot in range(scenario.slots):
        holding[:] = [row for row in holding if row[0] > slot]
        before, guests, blocked, later = guests, {}, set(), []
        for job in [job for job in queue if job.arrival <= slot]:
            own = next((gang for gang in sizes(job, usual) if fit(scenario, job, gang, home[job.tenant])), None)
            gang = own or next((gang for gang in sizes(job, usual) if fit(scenario, job, gang, whole)), None)
            if own is None and (gang is None or not opportunistic):
                queue.remove(job)
                continue
            if own and job.tenant not in blocked:
                placed = fit(scenario, job, own, state(job.tenant))
                if placed:
                    slots = max(1, ceiling(rest[job.number] / rate(scenario, job, own, placed)))
                    holding.append((slot + slots, job, own, placed))
                    ran[job.number].append((slot, slot + slots, OWN, placed))
                    queue.remove(job)
                    continue
                blocked.add(job.tenant)
            later.append((job, gang))
        free = state(None)
        for job, gang in later if opportunistic else []:
            placed = before.get(job.number)
            if placed is None or min(minus(free, job, gang, placed).values()) < -1e-9:
                placed = fit(scenario, job, gang, free)
            if placed is None:
                continue
            free = minus(free, job, gang, placed)
            guests[job.number] = placed
            ran[job.number].append((slot, slot + 1, SHARED, placed))
            done = rate(scenario, job, gang, placed)
            rest[job.number] -= done
            if rest[job.number] <= 1e-9 * job.work:
                queue.remove(job)
    return ran
