"""The slow reference, first half: every schedule a job could have, one after the other, and the best of them.

Written from the rules of the market alone, in plain loops over (types, workers, start, placement, slots, servers), so
that it can be checked by reading. Nothing here is shared with the policies: not the speeds, not the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from scheduling.core.types import CENTRALIZED, DISTRIBUTED, Cluster, Job, UnitType, Value
from scheduling.core.value import Convex, Deadline, Linear, Sigmoid

TIE = 1e-9
ENOUGH = 10**6  # more units than any job asks for


def worth(value: Value, elapsed: float) -> float:
    """The four value functions, each from its formula."""
    match value:
        case Linear(slope, base):
            return slope * elapsed + base
        case Convex(scale, power):
            return (scale / elapsed) ** power
        case Sigmoid(priority, decay, target):
            exponent = decay * (elapsed - target)
            return 0.0 if exponent > 700 else priority / (1.0 + math.exp(exponent))
        case Deadline(base, deadline):
            return base if elapsed <= deadline else 0.0
    raise TypeError(f"no formula for {value}")


def rounded_up(x: float) -> int:
    return math.ceil(x - 1e-9 * max(1.0, abs(x)))


def minibatch_seconds(job: Job, pair: tuple[int, int], workers: int, placement: str, hosts: int = ENOUGH) -> float:
    """R6: of one worker. Without parameter servers the exchange is a ring over as many servers as there are for the
    workers (`hosts` have room for any): where they go is not known yet."""
    worker, ps = job.worker_types[pair[0]], job.ps_types[pair[1]]
    seconds = worker.seconds + ps.seconds
    if placement == DISTRIBUTED:
        exchange = 2.0 * job.gradient_mb * 8.0 / worker.mbps
        ring = max(1, min(workers, hosts))
        seconds += exchange * (ring - 1) / ring if job.all_reduce else exchange
    return seconds


def length(
    job: Job, slot_seconds: float, pair: tuple[int, int], workers: int, placement: str, hosts: int = ENOUGH
) -> int:
    """R6, R7: slots a gang needs for the whole job."""
    seconds = minibatch_seconds(job, pair, workers, placement, hosts)
    minibatches = job.epochs * job.chunks * job.minibatches
    return max(1, rounded_up(minibatches * seconds / (slot_seconds * workers)))


def servers_needed(job: Job, pair: tuple[int, int], distant_workers: int) -> int:
    """R9: parameter servers whose bandwidth serves so many workers on other machines."""
    if job.all_reduce:
        return 0
    return max(1, rounded_up(distant_workers * job.worker_types[pair[0]].mbps / job.ps_types[pair[1]].mbps))


def type_pairs(job: Job) -> list[tuple[int, int]]:
    """Pairs of a worker and a parameter-server type that draw on different resources."""
    pairs = []
    for w, worker in enumerate(job.worker_types):
        for p, ps in enumerate(job.ps_types):
            if not any(a > 0 and b > 0 for a, b in zip(worker.demand, ps.demand, strict=True)):
                pairs.append((w, p))
    return pairs


def worker_counts(job: Job, workers: str) -> list[int]:
    """R8."""
    return [job.max_workers] if workers == "exact" else list(range(job.min_workers, job.max_workers + 1))


def gangs(job: Job, workers: str) -> Iterator[tuple[tuple[int, int], int, str]]:
    """Every (type pair, worker count, placement) the job allows."""
    for pair in type_pairs(job):
        for count in worker_counts(job, workers):
            yield pair, count, CENTRALIZED
            if count >= 2:
                yield pair, count, DISTRIBUTED


@dataclass(frozen=True)
class Offer:
    """What a job may choose from. Every field is a function of (resource, slot) or (resource, slot, server)."""

    starts: Iterable[int]
    last_end: float  # no run ends later
    free: Callable[[int, int, int], float]  # units free on a server
    share: Callable[[int, int], float]  # units the job may use in the whole cluster
    price: Callable[[int, int], float]  # gross, per unit
    charge: Callable[[int, int], float]  # what is subtracted from the value: the price, or net of the payer's part
    most_paid: float  # limit on the sum of charges
    value_from: float  # time from which elapsed slots are counted
    crowding: Callable[[int], float]  # occupied units of a server, where the least used goes first
    besides: Callable[[Schedule], float] | None = None  # what is paid besides the charges
    servers: tuple[int, ...] | None = None  # where the gang may be; None: on any


def own_servers(cells: Any, tenant: int) -> tuple[int, ...]:
    """Those on which the tenant has cells (resources, tenants, servers): R9 to R11 hold on them alone at home."""
    return tuple(s for s in range(cells.shape[2]) if any(cells[r, tenant, s] > 0 for r in range(cells.shape[0])))


def remembered(offer: Offer) -> Offer:
    """The same offer, asked once for each slot and server: nothing changes while one job chooses."""
    names = ("free", "share", "price", "charge", "crowding")
    return replace(offer, **{name: cache(getattr(offer, name)) for name in names})


@dataclass(frozen=True)
class Schedule:
    """A feasible run: rows are (server, workers, parameter servers)."""

    pair: tuple[int, int]
    placement: str
    start: int
    end: int
    workers: int
    ps: int
    rows: tuple[tuple[int, int, int], ...]
    value: float
    cost: float
    paid: float
    surplus: float

    @property
    def kind(self) -> tuple[tuple[int, int], str, int]:
        return self.pair, self.placement, self.workers

    def rank(self) -> tuple[int, int, bool, tuple[int, int]]:
        """R17 among equal surpluses."""
        return self.start, self.workers, self.placement == DISTRIBUTED, self.pair


class Search:
    """All schedules of one job on a cluster."""

    def __init__(self, cluster: Cluster, workers: str) -> None:
        self.slot_seconds = cluster.slot_seconds
        self.hosts_workers = [bool(x) for x in cluster.hosts_workers]
        self.hosts_ps = [bool(x) for x in cluster.hosts_ps]
        self.servers = range(len(cluster.servers))
        self.hosts = sum(self.hosts_workers)
        self.workers = workers

    def best(self, job: Job, offer: Offer) -> Schedule | None:
        """The schedule of largest surplus, or None where there is none at all; whether it pays is asked elsewhere."""
        offer = remembered(offer)
        most = offer.most_paid + 1e-9
        schedules = list(self.all(job, offer))
        if offer.besides is None:
            schedules = [schedule for schedule in schedules if schedule.paid <= most]
        else:
            smallest = self.smallest_gangs(job)
            schedules = [
                each for each in schedules if each.paid + offer.besides(each) <= most and each.kind in smallest
            ]
        if not schedules:
            return None
        top = max(schedule.surplus for schedule in schedules)
        tied = [schedule for schedule in schedules if schedule.surplus >= top - TIE * max(1.0, abs(top))]
        return min(tied, key=Schedule.rank)

    def smallest_gangs(self, job: Job) -> set[tuple[tuple[int, int], str, int]]:
        """Of the gangs of a pair and placement that take equally long, those with the fewest workers. A larger one pays
        a larger price, but it may pay less with the dividend, of which its owner's part is not charged."""
        fewest: dict[tuple[tuple[int, int], str, int], int] = {}
        for pair, workers, placement in gangs(job, self.workers):
            key = (pair, placement, length(job, self.slot_seconds, pair, workers, placement))
            fewest[key] = min(workers, fewest.get(key, workers))
        return {(pair, placement, workers) for (pair, placement, _), workers in fewest.items()}

    def all(self, job: Job, offer: Offer) -> Iterator[Schedule]:
        fit = cache(units)  # runs overlap, and nothing changes while one job chooses
        for pair, workers, placement in gangs(job, self.workers):
            slots = length(job, self.slot_seconds, pair, workers, placement, self.hosts)
            for start in offer.starts:
                if start + slots <= offer.last_end:
                    rows = self.rows(job, offer, fit, pair, workers, placement, range(start, start + slots))
                    if rows:
                        yield self.priced(job, offer, pair, placement, rows, start, start + slots)

    def rows(
        self,
        job: Job,
        offer: Offer,
        fit: Callable[..., int],
        pair: tuple[int, int],
        workers: int,
        placement: str,
        run: range,
    ) -> list[tuple[int, int, int]]:
        """R9-R11, R13: where a gang would run in the slots `run`; empty if it cannot."""
        worker, ps = demand_of(job.worker_types[pair[0]]), demand_of(job.ps_types[pair[1]])
        own_workers = min(fit(worker, offer.share, t) for t in run)
        own_ps = min(min(fit(ps, offer.share, t) for t in run), job.max_ps or ENOUGH)
        if workers > own_workers:
            return []
        free_workers, free_ps = [], []
        hosts_ps = self.hosts_workers if job.all_reduce else self.hosts_ps
        for s in self.servers:
            here = min(fit(worker, offer.free, t, s) for t in run)
            free_workers.append(here if self.hosts_workers[s] else 0)
            here = min(fit(ps, offer.free, t, s) for t in run)
            free_ps.append(min(here, own_ps) if hosts_ps[s] else 0)
        servers = self.servers if offer.servers is None else offer.servers
        if placement == CENTRALIZED:
            fitting = [s for s in servers if free_workers[s] >= workers and free_ps[s] >= 1]
            ps = 0 if job.all_reduce else 1
            return [(min(fitting, key=lambda s: (offer.crowding(s), s)), workers, ps)] if fitting else []
        return self.spread(job, offer, pair, workers, free_workers, free_ps)

    def spread(
        self,
        job: Job,
        offer: Offer,
        pair: tuple[int, int],
        workers: int,
        free_workers: list[int],
        free_ps: list[int],
    ) -> list[tuple[int, int, int]]:
        """R9, R10: all parameter servers on the server that needs fewest, the other workers wherever least is free."""
        qualified = []
        for s in self.servers if offer.servers is None else offer.servers:
            beside = min(workers - 1, free_workers[s])
            need = servers_needed(job, pair, workers - beside)
            elsewhere = sum(free_workers[other] for other in self.servers if other != s)
            if need <= free_ps[s] and elsewhere >= workers - beside:
                qualified.append((need, offer.crowding(s), s, beside))
        if not qualified:
            return []
        need, _, host, beside = min(qualified)
        rows = [(host, beside, need)] if beside or need else []
        rest = workers - beside
        others = [s for s in self.servers if s != host and free_workers[s] > 0]
        for s in sorted(others, key=lambda s: (free_workers[s], offer.crowding(s), s)):
            count = min(rest, free_workers[s])
            if count > 0:
                rows.append((s, count, 0))
                rest -= count
        return rows

    def priced(
        self,
        job: Job,
        offer: Offer,
        pair: tuple[int, int],
        placement: str,
        rows: list[tuple[int, int, int]],
        start: int,
        end: int,
    ) -> Schedule:
        """R15: the price is summed over the slots of the run."""
        workers, ps = sum(row[1] for row in rows), sum(row[2] for row in rows)
        cost = paid = 0.0
        for t in range(start, end):
            for r, amount in enumerate(amounts(job, pair, workers, ps)):
                if amount > 0:
                    cost += offer.price(r, t) * amount
                    paid += offer.charge(r, t) * amount
        value = worth(job.value, end - offer.value_from)
        return Schedule(pair, placement, start, end, workers, ps, tuple(rows), value, cost, paid, value - paid)


def demand_of(unit: UnitType) -> tuple[tuple[int, float], ...]:
    """The resources that one unit takes, and how much of each."""
    return tuple((r, float(amount)) for r, amount in enumerate(unit.demand) if amount > 0)


def units(demand: tuple[tuple[int, float], ...], free: Callable[..., float], *where: int) -> int:
    """How many whole units fit into what is free there of each resource they take."""
    return min((math.floor(free(r, *where) / amount + 1e-9) for r, amount in demand), default=ENOUGH)


def amounts(job: Job, pair: tuple[int, int], workers: int, ps: int) -> list[float]:
    """Per resource, what so many workers and parameter servers take."""
    worker, server = job.worker_types[pair[0]].demand, job.ps_types[pair[1]].demand
    return [float(workers * a + ps * b) for a, b in zip(worker, server, strict=True)]
