"""The slow reference, second half: the rounds and the money of the batch auction, in both modes.

Plain dictionaries and lists, everything looked up again whenever it is needed. It answers the same question as the
policy (`decide(view) -> plan`), from the rules alone; tests compare the two on thousands of tiny markets. One long
file on purpose: it is read from top to bottom beside the rules.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduling.core.types import (
    CENTRALIZED,
    EXPIRED,
    OWN,
    REJECTED,
    SHARED,
    Allocation,
    Booking,
    Cluster,
    Floor,
    Job,
    Plan,
    Reason,
    Refusal,
    View,
    Window,
)
from tests.core.reference_search import (
    ENOUGH,
    Offer,
    Schedule,
    Search,
    amounts,
    gangs,
    length,
    own_servers,
    type_pairs,
    worth,
)
from tests.core.reference_terms import GUARANTEE, PAPER, boundary, by_resource, usual_price_floor, usual_theta


class ReferenceAstraea:
    """The batch auction by the book."""

    name = "reference"

    def __init__(self, settings: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> None:
        overrides = {key: value for key, value in settings.items() if key not in ("name", "mode")}
        preset = PAPER if settings.get("mode") == "paper" else GUARANTEE
        self.settings: dict[str, Any] = {**preset, **overrides}
        self.theta = by_resource(overrides.get("theta"), cluster, usual_theta(cluster, jobs, self.settings["workers"]))
        floor = usual_price_floor(cluster, jobs, self.settings["workers"]) if preset is GUARANTEE else 0.0
        self.price_floor = by_resource(overrides.get("price_floor"), cluster, floor)
        self.search = Search(cluster, self.settings["workers"])

    def decide(self, view: View) -> Plan:
        windows, memory = boundary(self.settings, view)
        if not windows:
            return Plan(memory=memory)
        collected = [job for job in view.waiting if job.arrival < view.slot]
        market = Market(self, view, collected)
        for start, end in windows:
            market.round(start, end)
        answers = (market.bookings, market.refusals, market.new_floors, market.windows)
        return Plan(*answers, memory=memory)


class Market:
    """One boundary: who owns, uses, sells and buys what. Dictionaries are keyed (resource, slot[, server])."""

    beta = 0.0  # the dividend: none here

    def __init__(self, policy: ReferenceAstraea, view: View, collected: list[Job]) -> None:
        self.settings, self.theta, self.price_floor = policy.settings, policy.theta, policy.price_floor
        self.search, self.view, self.cluster = policy.search, view, view.cluster
        self.resources, self.servers = range(len(self.cluster.resources)), range(len(self.cluster.servers))
        self.owners = range(len(self.cluster.tenants) + 1)  # the operator is the last
        self.operator = len(self.cluster.tenants)
        self.added: dict[tuple[int, int, int], float] = defaultdict(float)  # placed at this boundary
        self.homes: dict[tuple[int, int, int, int], float] = defaultdict(float)  # (tenant, ...) own use at home
        self.sold: dict[tuple[int, int], float] = defaultdict(float)
        self.spent = [float(x) for x in view.spent]
        self.floors = dict(view.floors)
        self.bookings: list[Booking] = []
        self.refusals: list[Refusal] = []
        self.new_floors: list[Floor] = []
        self.windows: list[Window] = []
        self.crossing: dict[tuple[int, int], float] = defaultdict(float)
        for booking in view.active if self.settings["floor"] else ():
            if booking.phase == OWN:
                self.remember_home(view.jobs[booking.job], booking, self.crossing)
        self.pending = self.still_worth_it(collected)
        if self.settings["floor"]:
            self.plan_floors()

    # -- before the rounds ---------------------------------------------------------------------------------------

    def still_worth_it(self, collected: list[Job]) -> list[Job]:
        """Jobs that no pair of types suits are rejected, hopeless ones expire (G8, reading 3 of section 9)."""
        pending = []
        for job in collected:
            if not type_pairs(job):
                self.refusals.append(Refusal(job.number, Reason("shared_resource"), REJECTED))
                continue
            best = worth(job.value, self.view.slot + min(self.lengths(job)) - job.arrival)
            if self.settings["value_from"] == "arrival" and best <= 0:
                self.refusals.append(Refusal(job.number, Reason("not_worth_it", {"best_value": best}), EXPIRED))
                continue
            pending.append(job)
        return pending

    def lengths(self, job: Job) -> list[int]:
        seconds, hosts = self.cluster.slot_seconds, self.search.hosts
        return [length(job, seconds, *gang, hosts) for gang in gangs(job, self.settings["workers"])]

    def plan_floors(self) -> None:
        """G2: each new job's schedule in the world in which its owner is alone; kept for good."""
        new = [job for job in self.pending if job.number not in self.floors]
        for job in sorted(new, key=lambda job: (-job.priority, job.arrival, job.number)):
            if self.too_large(job):
                self.refusals.append(Refusal(job.number, Reason("larger_than_window"), REJECTED))
                self.pending.remove(job)
            else:
                self.floors[job.number] = floor = self.floor_plan(job)
                self.new_floors.append(floor)

    def too_large(self, job: Job) -> bool:
        """Reading 18 of section 9: fits neither home, at any length, nor an empty cluster within the longest window."""
        cells, capacity = self.cluster.cells, self.cluster.capacity
        assert cells is not None
        home = self.alone_offer(job, [0], lambda r, t, s: float(cells[r, job.tenant, s]))
        cap = math.inf if self.settings["clock"] == "geometric" else self.settings["clock"]["cap"]
        cluster = self.alone_offer(job, [0], lambda r, t, s: float(capacity[r, s]), last_end=cap)
        return not any(self.search.all(job, home)) and not any(self.search.all(job, cluster))

    def alone_offer(
        self,
        job: Job,
        starts: Sequence[int],
        free: Callable[[int, int, int], float],
        last_end: float = math.inf,
        value_from: float = -1.0,
        crowding: Callable[[int], float] = lambda s: 0.0,
        servers: tuple[int, ...] | None = None,
    ) -> Offer:
        """Everything free of charge."""
        return Offer(
            starts=starts,
            last_end=last_end,
            free=free,
            share=lambda r, t: float(ENOUGH),
            price=lambda r, t: 0.0,
            charge=lambda r, t: 0.0,
            most_paid=math.inf,
            value_from=value_from,
            crowding=crowding,
            servers=servers,
        )

    def floor_plan(self, job: Job) -> Floor:
        reserved: dict[tuple[int, int, int], float] = defaultdict(float)
        first, size = self.first_window()
        last = first
        for number, floor in self.floors.items():
            if self.view.jobs[number].tenant == job.tenant:
                last = max(last, floor.end)
                for r, t, s, amount in occupied_by(self.view.jobs[number], floor):
                    reserved[r, t, s] += amount
        cells = self.cluster.cells
        assert cells is not None
        crowding = {
            s: sum(reserved[r, t, s] for r in self.resources for t in range(first, first + size)) for s in self.servers
        }
        offer = self.alone_offer(
            job,
            range(first, last + 1),
            lambda r, t, s: float(cells[r, job.tenant, s]) - reserved[r, t, s],
            value_from=job.arrival,
            crowding=crowding.__getitem__ if self.settings["server_choice"] == "least_used" else lambda s: 0.0,
            servers=own_servers(cells, job.tenant),
        )
        best = self.search.best(job, offer)
        if best is None or best.surplus <= 0:
            return Floor(job.number)
        return Floor(job.number, best.value, best.start, best.end, allocation(best), *best.pair)

    def first_window(self) -> tuple[int, int]:
        """Where the first window that is decided now begins, and its slots."""
        [(start, end), *_] = boundary(self.settings, self.view)[0]
        return start, end - start

    # -- one round -----------------------------------------------------------------------------------------------

    def round(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.awards: dict[int, Booking] = {}  # of phase one, still standing
        if self.settings["floor"]:
            self.award_floors()
        else:
            for job in list(self.pending):
                self.offer_own_share(job)
        self.freeze_pool()
        self.sell_pool()
        self.bookings.extend(self.awards.values())
        self.publish()

    def sell_pool(self) -> None:
        """Phase two: those left and, with upgrades, those just served, in order of arrival."""
        queue = list(self.pending)
        if self.settings["upgrade"]:
            queue += [self.view.jobs[number] for number in self.awards]
        for job in sorted(queue, key=lambda job: (job.arrival, job.number)):
            self.offer_pool(job)

    def award_floors(self) -> None:
        """G3: floors that start in this window, exactly as planned."""
        for job in list(self.pending):
            floor = self.floors[job.number]
            if floor.value > 0 and self.start <= floor.start < self.end:
                ideal = worth(job.value, floor.end - self.start)
                booking = Booking(
                    job=job.number,
                    start=floor.start,
                    end=floor.end,
                    allocation=floor.allocation,
                    work=float(job.work),
                    workers=sum(row.workers for row in floor.allocation),
                    ps=sum(row.ps for row in floor.allocation),
                    worker_type=floor.worker_type,
                    ps_type=floor.ps_type,
                    phase=OWN,
                    placement=CENTRALIZED if len(floor.allocation) == 1 else "distributed",
                    value=floor.value,
                    ideal=ideal,
                    floor=floor.value,
                )
                self.award(job, booking)

    def offer_own_share(self, job: Job) -> None:
        """Phase one by counts (R13, R19): what the tenant's quota leaves, on any server, steered by a price."""
        price = self.own_price(job.tenant)
        offer = Offer(
            starts=range(self.start, self.end),
            last_end=self.end,
            free=self.free,
            share=lambda r, t: float(self.cluster.quota[r, job.tenant]) - self.used(job.tenant, r, t),
            price=price,
            charge=price,
            most_paid=math.inf,
            value_from=self.value_from(job),
            crowding=self.crowding,
        )
        best = self.search.best(job, offer)
        if best is not None and best.surplus > 0:
            booking = self.booked(job, best, OWN, shadow_cost=best.cost)
            self.award(job, booking)

    def award(self, job: Job, booking: Booking) -> None:
        self.awards[job.number] = booking
        self.pending.remove(job)
        self.place(job, booking, +1)
        self.remember_home(job, booking, None)

    def own_price(self, tenant: int) -> Callable[[int, int], float]:
        if self.settings["own_price"] == "zero":
            return lambda r, t: 0.0
        counted = self.allocated if self.settings["own_price"] == "shadow" else lambda r, t: self.used(tenant, r, t)
        return lambda r, t: scarcity(self.theta[r], counted(r, t), self.total(r))

    def freeze_pool(self) -> None:
        """G6, R13, R21: what every owner has for sale in each slot, as it stands after phase one."""
        self.idle: dict[tuple[int, int, int], float] = {}  # (owner, resource, slot)
        self.pool: dict[tuple[int, int], float] = {}
        self.sold.clear()
        for r in self.resources:
            for t in range(self.start, self.end):
                for owner in self.owners:
                    self.idle[owner, r, t] = self.idle_units(owner, r, t)
                self.pool[r, t] = sum(self.idle[owner, r, t] for owner in self.owners)

    def idle_units(self, owner: int, r: int, t: int) -> float:
        if self.settings["floor"]:
            return self.idle_cells(owner, r, t)
        if owner == self.operator:
            return self.total(r) - float(self.cluster.quota[r].sum())
        return float(self.cluster.quota[r, owner]) - self.used(owner, r, t)

    def idle_cells(self, owner: int, r: int, t: int) -> float:
        """On servers that host anything; the others' units cannot be sold."""
        idle = 0.0
        for s in self.servers:
            if not (self.cluster.hosts_workers[s] or self.cluster.hosts_ps[s]):
                continue
            if owner == self.operator:
                idle += float(self.cluster.capacity[r, s] - self.cluster.cells[r, :, s].sum())
            elif self.cluster.tenants[owner].lend == "lend":
                idle += float(self.cluster.cells[r, owner, s]) - self.homes[owner, r, t, s]
        return idle

    def offer_pool(self, job: Job) -> None:
        limit = self.most_to_pay(job)
        if limit is None:
            return
        price = {(r, t): self.pool_price(r, t) for r in self.resources for t in range(self.start, self.end)}
        sellers = {(r, t): self.sellers(r, t, price[r, t]) for r, t in price}
        net = self.settings["payment"] == "net"

        def charge(r: int, t: int) -> float:
            own = self.part(job.tenant, r, t, sellers) if net else 0.0
            return price[r, t] * (1.0 - own)

        offer = Offer(
            starts=range(self.start, self.end),
            last_end=self.end,
            free=lambda r, t, s: self.for_sale(r, t, s, sellers[r, t]),
            share=lambda r, t: self.pool[r, t],
            price=lambda r, t: price[r, t],
            charge=charge,
            most_paid=limit,
            value_from=self.value_from(job),
            crowding=self.crowding,
            besides=(lambda schedule: math.fsum(self.gain_parts(job, schedule, sellers))) if self.beta else None,
        )
        best = self.search.best(job, offer)
        if best is None or best.surplus <= 0:
            return
        least = self.kept_otherwise(job)
        if least is not None and best.surplus <= least + 1e-9 * max(1.0, least):
            return
        self.sell(job, best, price, sellers)

    def kept_otherwise(self, job: Job) -> float | None:
        """G5: what renting must beat."""
        if self.settings["floor"]:
            return self.floors[job.number].value
        return self.awards[job.number].value if job.number in self.awards else None

    def most_to_pay(self, job: Job) -> float | None:
        """G9: None where the job may not rent at all."""
        limit = math.inf if job.max_price is None else job.max_price
        if not self.settings["floor"]:
            return limit
        tenant = self.cluster.tenants[job.tenant]
        rent = job.rent or tenant.rent
        if rent == "never":
            return None
        if rent == "budget" and tenant.budget is not None:
            limit = min(limit, tenant.budget - self.spent[job.tenant])
        return limit

    def pool_price(self, r: int, t: int) -> float:
        """R14 or G6, and the floor price; posted before the job's own use."""
        if self.settings["price_counts"] == "cluster":
            return self.price_floor[r] + scarcity(self.theta[r], self.allocated(r, t), self.total(r))
        others = sum(self.booked_before(r, t, s) for s in self.servers) - self.crossing[r, t]
        return self.price_floor[r] + scarcity(self.theta[r], others + self.sold[r, t], self.pool[r, t])

    def sellers(self, r: int, t: int, price: float) -> list[int]:
        """Owners whose idle units are for sale at this price."""
        if not self.settings["floor"]:
            return list(self.owners)
        sellers = [self.operator]
        for u, tenant in enumerate(self.cluster.tenants):
            if tenant.lend == "lend" and price >= float(tenant.reserve_price[r]) - 1e-12:
                sellers.append(u)
        return sellers

    def part(self, owner: int, r: int, t: int, sellers: Mapping[tuple[int, int], list[int]]) -> float:
        """R21: an owner's part of what is paid for one resource in one slot."""
        offered = sum(self.idle[u, r, t] for u in sellers[r, t])
        return self.idle[owner, r, t] / offered if owner in sellers[r, t] and offered > 0 else 0.0

    def for_sale(self, r: int, t: int, s: int, sellers: list[int]) -> float:
        """Units on one server that are physically free and that somebody sells."""
        if self.pool[r, t] <= 0 or sum(self.idle[u, r, t] for u in sellers) <= 0:
            return 0.0
        free = self.free(r, t, s)
        if self.settings["floor"]:
            cells = self.cluster.cells
            assert cells is not None
            for u in self.owners:
                if u not in sellers:
                    free -= float(cells[r, u, s]) - self.homes[u, r, t, s]
        return max(0.0, free)

    def sell(
        self,
        job: Job,
        best: Schedule,
        price: Mapping[tuple[int, int], float],
        sellers: Mapping[tuple[int, int], list[int]],
    ) -> None:
        gained = self.gain_parts(job, best, sellers)
        need, dividend = self.kept_otherwise(job) or 0.0, math.fsum(gained)
        payouts = list(gained)
        for t in range(best.start, best.end):
            for r, amount in enumerate(amounts(job, best.pair, best.workers, best.ps)):
                for owner in self.owners:
                    if owner != job.tenant or self.settings["payment"] == "gross":
                        payouts[owner] += price[r, t] * amount * self.part(owner, r, t, sellers)
                self.sold[r, t] += amount
        if award := self.awards.pop(job.number, None):  # an upgrade leaves its home cells to later jobs
            self.place(job, award, -1)
            for r, t, s, amount in occupied_by(job, award):
                self.homes[job.tenant, r, t, s] -= amount
        else:
            self.pending.remove(job)
        money = {"cost": best.cost, "paid": best.paid + dividend, "dividend": dividend, "payouts": np.array(payouts)}
        booking = self.booked(job, best, SHARED, **money)
        self.spent[job.tenant] += booking.paid
        self.sold_to(job, booking, need)
        self.place(job, booking, +1)
        self.bookings.append(booking)

    def gain_parts(self, job: Job, best: Schedule, sellers: Mapping[tuple[int, int], list[int]]) -> list[float]:
        """What each owner gets besides the price: nothing here."""
        return [0.0 for _ in self.owners]

    def sold_to(self, job: Job, booking: Booking, need: float) -> None:
        """A sale was made, to a job that had so much without it."""

    def publish(self) -> None:
        """Posted prices once all is sold, what was for sale, and what was sold."""
        slots = range(self.start, self.end)
        prices = [[self.pool_price(r, t) for t in slots] for r in self.resources]
        idle = [[[self.idle[u, r, t] for t in slots] for u in self.owners] for r in self.resources]
        rented = [[self.sold[r, t] for t in slots] for r in self.resources]
        self.windows.append(Window(self.start, self.end, np.array(prices), np.array(idle), np.array(rented)))

    # -- who uses what -------------------------------------------------------------------------------------------

    def booked_before(self, r: int, t: int, s: int) -> float:
        """Occupied before this boundary's decisions."""
        slot, tail = t - self.view.slot, self.view.tail
        if slot < self.view.occupied.shape[1]:
            return float(self.view.occupied[r, slot, s])
        return 0.0 if tail is None else float(tail[r, s])

    def free(self, r: int, t: int, s: int) -> float:
        return float(self.cluster.capacity[r, s]) - self.booked_before(r, t, s) - self.added[r, t, s]

    def allocated(self, r: int, t: int) -> float:
        return sum(self.booked_before(r, t, s) + self.added[r, t, s] for s in self.servers)

    def used(self, tenant: int, r: int, t: int) -> float:
        """Units of the tenant's own that its own jobs use: phase one of this round, and runs that cross into it."""
        return sum(self.homes[tenant, r, t, s] for s in self.servers)

    def total(self, r: int) -> float:
        return float(sum(self.cluster.capacity[r]))

    def crowding(self, s: int) -> float:
        if self.settings["server_choice"] != "least_used":
            return 0.0
        slots = range(self.start, self.end)
        return sum(self.booked_before(r, t, s) + self.added[r, t, s] for r in self.resources for t in slots)

    def place(self, job: Job, booking: Booking, sign: int) -> None:
        for r, t, s, amount in occupied_by(job, booking):
            self.added[r, t, s] += sign * amount

    def remember_home(self, job: Job, booking: Booking, crossing: dict[tuple[int, int], float] | None) -> None:
        for r, t, s, amount in occupied_by(job, booking):
            self.homes[job.tenant, r, t, s] += amount
            if crossing is not None:
                crossing[r, t] += amount

    def value_from(self, job: Job) -> float:
        return job.arrival if self.settings["value_from"] == "arrival" else float(self.start)

    def booked(self, job: Job, best: Schedule, phase: str, **money: Any) -> Booking:
        return Booking(
            job=job.number,
            start=best.start,
            end=best.end,
            allocation=allocation(best),
            work=float(job.work),
            workers=best.workers,
            ps=best.ps,
            worker_type=best.pair[0],
            ps_type=best.pair[1],
            phase=phase,
            placement=best.placement,
            value=best.value,
            ideal=worth(job.value, best.end - self.start),
            floor=self.floors[job.number].value if self.settings["floor"] else 0.0,
            **money,
        )


def occupied_by(job: Job, run: Booking | Floor) -> list[tuple[int, int, int, float]]:
    """(resource, slot, server, amount) of a booking or a floor."""
    rows = []
    for row in run.allocation:
        for r, amount in enumerate(amounts(job, (run.worker_type, run.ps_type), row.workers, row.ps)):
            rows += [(r, t, row.server, amount) for t in range(row.start, row.end) if amount]
    return rows


def allocation(schedule: Schedule) -> tuple[Allocation, ...]:
    return tuple(Allocation(s, schedule.start, schedule.end, y, z) for s, y, z in schedule.rows)


def scarcity(theta: float, used: float, total: float) -> float:
    """R14."""
    return float(theta ** (used / total) - 1.0) if total > 0 else 0.0
