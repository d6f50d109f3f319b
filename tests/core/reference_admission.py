"""Instant admission once more, slowly: OASiS and PD-ORS in plain loops over slots, servers, units and amounts of work.

Written from the rules alone (O1 to O12, P1 to P6, C10, C12, C16), by another hand than `reference_oasis` and
`reference_pdors`. Nothing of the policies, their prices or their placement is used. The mode `paper` is the rules as
they stand; in `market` net prices and values at the end count. Amounts of work are exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from scheduling.core.scenario import Scenario
from scheduling.core.types import Booking, Job, UnitType
from scheduling.core.value import Sigmoid

WORKER, PS = 0, 1
MICRO = 10**6
NOTHING = 1e-9

Counts = tuple[tuple[int, int, int], ...]  # (server, workers, parameter servers)


def exact(number: float) -> Fraction:
    """The number as it is written, and not as it is stored."""
    return Fraction(Decimal(repr(float(number))))


def half_up(credits: float) -> float:
    return math.floor(credits * MICRO + 0.5) / MICRO


def rounded_up(credits: float) -> float:
    return math.ceil(credits * MICRO - 1e-3) / MICRO  # a thousandth of the smallest amount is a float's error


@dataclass(frozen=True)
class Offer:
    """The best completion of a job: the slot after its last one, what it costs, and what it leaves."""

    end: int
    price: float
    gain: float


@dataclass
class Desk:
    """What is in use by (slot, server, resource), and at which bounds units are sold: (floor, ceilings by resource) for
    workers and for parameter servers."""

    scenario: Scenario
    bounds: tuple[tuple[float, Mapping[str, float]], tuple[float, Mapping[str, float]]]
    market: bool
    in_use: dict[tuple[int, int, int], float] = field(default_factory=dict)

    @property
    def servers(self) -> range:
        return range(len(self.scenario.cluster.servers))

    @property
    def resources(self) -> range:
        return range(len(self.scenario.cluster.resources))

    def hosts(self, kind: int, server: int) -> bool:
        cluster = self.scenario.cluster
        return bool((cluster.hosts_workers, cluster.hosts_ps)[kind][server])

    def free(self, slot: int, server: int, resource: int) -> float:
        return float(self.scenario.cluster.capacity[resource, server]) - self.in_use.get((slot, server, resource), 0.0)

    def price(self, kind: int, slot: int, server: int, resource: int) -> float:
        """O6: L (U / L) to the power of used over capacity, of one amount."""
        capacity = float(self.scenario.cluster.capacity[resource, server])
        if capacity <= 0:
            return 0.0
        floor, ceilings = self.bounds[kind]
        ceiling = ceilings[self.scenario.cluster.resources[resource]]
        used = self.in_use.get((slot, server, resource), 0.0) / capacity
        return math.exp((1 - used) * math.log(floor) + used * math.log(ceiling))

    def owners_parts(self, resource: int, server: int) -> list[float]:
        """C12: what each owner gets of a payment for a resource of a server. The tenants that have cells share what is
        paid for the cells on it, by all that each of them has; the rest is the operator's. Where quotas are counts, all
        owners share by what they have."""
        cluster = self.scenario.cluster
        capacity, quota = cluster.capacity[resource], cluster.quota[resource]
        if cluster.cells is None:
            owned = [float(units) for units in quota] + [float(capacity.sum() - quota.sum())]
            return [units / sum(owned) for units in owned]
        home = float(cluster.cells[resource, :, server].sum()) / float(capacity[server])
        parts = [home * float(units) / float(quota.sum()) if home else 0.0 for units in quota]
        return [*parts, 1 - home]

    def cost(self, unit: UnitType, kind: int, slot: int, server: int, *, tenant: int) -> float:
        """Of one unit, in a market without the part that comes back to its tenant."""
        total = 0.0
        for r in self.resources:
            if (amount := float(unit.demand[r])) > 0:
                paid = amount * self.price(kind, slot, server, r)
                own = self.owners_parts(r, server)[tenant] if self.market and paid else 0.0  # C16
                total += paid * (1 - own)
        return total

    def room(self, unit: UnitType, slot: int, server: int, most: int) -> int:
        """O5; a unit that takes nothing always has room."""
        count = most
        for r in self.resources:
            if unit.demand[r] > 0:
                count = min(count, math.floor(self.free(slot, server, r) / float(unit.demand[r]) + NOTHING))
        return max(count, 0)

    def value(self, job: Job, end: int) -> float:
        """In a market counted from the arrival to the end, in the papers from the first slot to the last."""
        elapsed = end - job.arrival if self.market else float(end - 1 - math.ceil(job.arrival))
        if isinstance(job.value, Sigmoid):
            exponent = job.value.decay * (elapsed - job.value.target)
            return 0.0 if exponent > 700 else job.value.priority / (1 + math.exp(exponent))
        return float(job.value(elapsed))

    def best(self, job: Job, costs: Iterable[tuple[int, float]]) -> Offer | None:
        """O11, C10: the first completion that leaves most, its price rounded once and before the choice."""
        best_offer: Offer | None = None
        for end, cost in costs:
            price = rounded_up(cost) if self.market else half_up(cost)
            if not self.market and job.max_price is not None and price > job.max_price:
                continue
            gain = self.value(job, end) - price
            if gain > (0.0 if best_offer is None else best_offer.gain):
                best_offer = Offer(end, price, gain)
        return best_offer

    def take(self, job: Job, booking: Booking) -> None:
        worker, ps = job.worker_types[booking.worker_type], job.ps_types[booking.ps_type]
        for row in booking.allocation:
            for slot in range(row.start, row.end):
                for r in self.resources:
                    amount = row.workers * float(worker.demand[r]) + row.ps * float(ps.demand[r])
                    key = (slot, row.server, r)
                    self.in_use[key] = self.in_use.get(key, 0.0) + amount

    def bill(self, job: Job, booking: Booking) -> tuple[float, float, list[float]]:
        """What a booking costs at the prices before it: all of it, without the payer's own part, and by owner."""
        units = job.worker_types[booking.worker_type], job.ps_types[booking.ps_type]
        whole, net, owners = 0.0, 0.0, [0.0 for _ in self.scenario.cluster.owners]
        for row in booking.allocation:
            for slot in range(row.start, row.end):
                for kind, count in enumerate((row.workers, row.ps)):
                    net += count * self.cost(units[kind], kind, slot, row.server, tenant=job.tenant)
                    for r in self.resources:
                        paid = count * float(units[kind].demand[r]) * self.price(kind, slot, row.server, r)
                        whole += paid
                        if paid:
                            owners = [
                                had + paid * part
                                for had, part in zip(owners, self.owners_parts(r, row.server), strict=True)
                            ]
        return whole, net, owners


def cheapest(slots: range, most: int, options: Iterator[list[tuple[int, float]]]) -> Iterator[tuple[int, float]]:
    """O10: the ends by which so much work (`most`) can be done, with its cheapest cost. For each slot there are options
    (work done, cost), of which one or none is taken. Work may be done that is not there."""
    row = [0.0] + [math.inf] * most
    for slot, choices in zip(slots, options, strict=True):
        before = list(row)
        for rest in range(1, most + 1):
            for done, cost in choices:
                row[rest] = min(row[rest], cost + before[max(0, rest - done)])
        if row[most] < math.inf:
            yield slot + 1, row[most]


# --- OASiS ----------------------------------------------------------------------------------------------------------


def worker_slots(scenario: Scenario, job: Job, worker: UnitType, ps: UnitType) -> int:
    """O3: mini-batches with the gradients there and back, in worker-slots, rounded up once. An update counts, too."""
    exchange = 2 * exact(job.gradient_mb) * 8 / exact(worker.mbps)
    one = (exact(worker.seconds) + exact(ps.seconds) + exchange) / exact(scenario.cluster.slot_seconds)
    return math.ceil(job.epochs * job.chunks * job.minibatches * one)


def filled(desk: Desk, job: Job, unit: UnitType, kind: int, slot: int, count: int) -> float | None:
    """O9: so many units on the cheapest servers."""
    ranked = sorted(
        (desk.cost(unit, kind, slot, server, tenant=job.tenant), server)
        for server in desk.servers
        if desk.hosts(kind, server)
    )
    total = 0.0
    for price, server in ranked:
        here = desk.room(unit, slot, server, count)
        total, count = total + here * price, count - here
    return total if count == 0 else None


def oasis(desk: Desk, job: Job) -> Offer | None:
    """The answer to one job; None: it is refused."""
    slots, best_offer = range(math.ceil(job.arrival), desk.scenario.slots), None
    for worker in job.worker_types:
        for ps in job.ps_types:
            if worker.mbps > ps.mbps:  # O4
                continue

            def options(worker: UnitType = worker, ps: UnitType = ps) -> Iterator[list[tuple[int, float]]]:
                for slot in slots:
                    rows = []
                    for y in range(job.min_workers, min(job.max_workers, job.chunks) + 1):
                        z = math.ceil(y * exact(worker.mbps) / exact(ps.mbps))
                        parts = (
                            filled(desk, job, worker, WORKER, slot, y),
                            filled(desk, job, ps, PS, slot, z),
                        )
                        if None not in parts and (job.max_ps is None or z <= job.max_ps):
                            rows.append((y, sum(part for part in parts if part is not None)))
                    yield rows

            work = worker_slots(desk.scenario, job, worker, ps)
            offer = desk.best(job, cheapest(slots, work, options()))
            if offer is not None and (
                best_offer is None or (offer.gain, -offer.end) > (best_offer.gain, -best_offer.end)
            ):
                best_offer = offer
    return best_offer


# --- PD-ORS ---------------------------------------------------------------------------------------------------------


def sample_slots(scenario: Scenario, job: Job) -> tuple[Fraction, Fraction]:
    """P1: slots that a worker takes for a sample, on one machine and between machines."""
    samples, slot = job.samples, exact(scenario.cluster.slot_seconds)
    assert None not in (samples.seconds, samples.ps_ratio, samples.batch_size, samples.internal_mbps)
    exchange = 2 * exact(job.gradient_mb) * 8 * exact(samples.ps_ratio) / samples.batch_size
    rates = exact(samples.internal_mbps), exact(job.worker_types[0].mbps)
    inside, between = ((exact(samples.seconds) + exchange / rate) / slot for rate in rates)
    return inside, between


def inside_one(desk: Desk, job: Job, slot: int, workers: int, ps: int) -> float:
    """P5: the cheapest machine with room for all."""
    units, best = (job.worker_types[0], job.ps_types[0]), math.inf
    for server in desk.servers:
        needs = [workers * float(units[0].demand[r]) + ps * float(units[1].demand[r]) for r in desk.resources]
        if all(need <= desk.free(slot, server, r) + NOTHING for r, need in zip(desk.resources, needs, strict=True)):
            one, other = (desk.cost(units[kind], kind, slot, server, tenant=job.tenant) for kind in (WORKER, PS))
            best = min(best, workers * one + ps * other)
    return best


def anywhere(desk: Desk, job: Job, slot: int, workers: int, ps: int) -> float:
    """P5, exactly: for every number of units on the servers so far, the cheapest way to have placed them."""
    units = (job.worker_types[0], job.ps_types[0])
    ways = {(0, 0): 0.0}
    for server in desk.servers:
        one, other = (desk.cost(units[kind], kind, slot, server, tenant=job.tenant) for kind in (WORKER, PS))
        more = dict(ways)
        for (w, p), cost in ways.items():
            for a in range(workers - w + 1):
                for b in range(ps - p + 1):
                    needs = [a * float(units[0].demand[r]) + b * float(units[1].demand[r]) for r in desk.resources]
                    if any(need > desk.free(slot, server, r) + NOTHING for r, need in enumerate(needs)):
                        break
                    key = (w + a, p + b)
                    more[key] = min(more.get(key, math.inf), cost + a * one + b * other)
        ways = more
    return ways.get((workers, ps), math.inf)


def greedily(desk: Desk, job: Job, slot: int, workers: int, ps: int) -> float:
    """B4: one kind on the cheapest machines, then the other; the cheaper of the two orders. Of equally dear machines
    workers take the first and parameter servers the last, and the second kind prefers those that hold the first."""
    units, counts, best = (job.worker_types[0], job.ps_types[0]), (workers, ps), math.inf
    for order in ((WORKER, PS), (PS, WORKER)):
        free = {(server, r): desk.free(slot, server, r) for server in desk.servers for r in desk.resources}
        held: set[int] = set()
        total = 0.0
        for kind in order:
            price = {server: desk.cost(units[kind], kind, slot, server, tenant=job.tenant) for server in desk.servers}
            rest, demand = counts[kind], [float(amount) for amount in units[kind].demand]
            for server in sorted(price, key=lambda s: (price[s], s not in held, s if kind == WORKER else -s)):
                while rest and all(free[server, r] + NOTHING >= demand[r] for r in desk.resources):
                    for r in desk.resources:
                        free[server, r] -= demand[r]
                    held.add(server)
                    total, rest = total + price[server], rest - 1
            if rest:
                total = math.inf
        best = min(best, total)
    return best


def pdors(desk: Desk, job: Job) -> Offer | None:
    """The answer to one job, with gangs between machines as the policy's setting says; None: it is refused."""
    between_machines = anywhere if desk.scenario.policy["external"] == "milp" else greedily
    samples, slots = job.samples, range(math.ceil(job.arrival), desk.scenario.slots)
    assert None not in (samples.total, samples.ps_ratio, samples.batch_size)
    inside, between = sample_slots(desk.scenario, job)
    # The common measure of what a worker does in a slot, inside and between: all numbers of it are whole.
    rates = 1 / inside, 1 / between
    measure = Fraction(
        math.gcd(rates[0].numerator * rates[1].denominator, rates[1].numerator * rates[0].denominator),
        rates[0].denominator * rates[1].denominator,
    )
    work = math.ceil(job.epochs * exact(samples.total) / measure)

    def options() -> Iterator[list[tuple[int, float]]]:
        for slot in slots:
            rows = []
            for n in range(job.min_workers, min(samples.batch_size or 0, job.max_workers) + 1):
                s = max(1, math.ceil(n / exact(samples.ps_ratio or 1.0)))
                if job.max_ps is not None and s > job.max_ps:
                    continue
                for rate, cost in zip(
                    rates, (inside_one(desk, job, slot, n, s), between_machines(desk, job, slot, n, s)), strict=True
                ):
                    if cost < math.inf:
                        rows.append((int(n * rate / measure), cost))
            yield rows

    return desk.best(job, cheapest(slots, work, options()))
