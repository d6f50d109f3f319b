"""The slow reference of the guarantee's second edition: renewed plans, a searched price, a dividend (rules K).

Plain loops from the rules alone, on top of the other slow references; sums are exact (`math.fsum`). First the world of
one tenant alone, which can also be run by itself from the tenant's own jobs and the boundaries; then the market.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scheduling.core.types import (
    REJECTED,
    Booking,
    Cluster,
    Floor,
    Job,
    Plan,
    Reason,
    Refusal,
    Settlement,
    View,
)
from tests.core.reference_astraea import Market, ReferenceAstraea, allocation, occupied_by
from tests.core.reference_search import ENOUGH, Offer, Schedule, Search, amounts, gangs, length, own_servers, worth
from tests.core.reference_terms import boundary, by_resource, quantile, value_densities

KAPPAS = (0, 0.03, 0.06, 0.1, 0.15, 0.22, 0.33, 0.5, 0.75, 1.1, 1.6, 2.4)


# -- the world of one tenant alone -----------------------------------------------------------------------------------


@dataclass
class AloneWorld:
    """K1 to K3. Slots are those of the cluster; `fixed` are the schedules that nothing moves any more."""

    cluster: Cluster
    tenant: int
    workers: str = "range"
    least_used: bool = False
    fixed: dict[int, tuple[Job, Floor]] = field(default_factory=dict)
    waiting: dict[int, Job] = field(default_factory=dict)  # W
    drafts: dict[int, Floor] = field(default_factory=dict)
    alone: dict[int, float] = field(default_factory=dict)  # by job that has started or was dropped

    def boundary(self, start: int, first_end: int, end: int, collected: Iterable[Job]) -> None:
        """One boundary. `first_end`: of the first window; `end`: of the last that is decided at this boundary."""
        self.start, self.first_end = start, first_end
        for job in collected:
            self.waiting[job.number] = job
        for job in list(self.waiting.values()):
            slots, _ = self.shortest_run(job)
            if worth(job.value, start + slots - job.arrival) <= 1e-9:
                self.forget(job, 0.0)
        first, second = self.with_old_drafts(), self.from_nothing()
        if first is None or total(second) > total(first) + 1e-9 * max(1.0, total(first)):
            first = second
        self.drafts = first
        for number, draft in list(self.drafts.items()):
            if draft.start < end:
                self.fixed[number] = (self.waiting[number], replace(draft, draft=False))
                self.forget(self.waiting[number], draft.value)
        for job in list(self.waiting.values()):
            if job.number not in self.drafts and self.best(job, []) is None:  # not even if all its cells were free
                self.forget(job, 0.0)

    def forget(self, job: Job, value: float) -> None:
        self.alone[job.number] = value
        del self.waiting[job.number]
        self.drafts.pop(job.number, None)

    def shortest_run(self, job: Job) -> tuple[int, int]:
        """(dmin, nmin): over all allowed counts and placements, and the fewest workers that take so long."""
        seconds, hosts = self.cluster.slot_seconds, int(self.cluster.hosts_workers.sum())
        return min((length(job, seconds, *gang, hosts), gang[1]) for gang in gangs(job, self.workers))

    def with_old_drafts(self) -> dict[int, Floor] | None:
        """Draft A; None where an old draft has no room any more, or its time has passed (K7)."""
        drafts = dict(self.drafts)
        if any(draft.start < self.start for draft in drafts.values()) or not self.have_room(drafts):
            return None
        new = [job for job in self.waiting.values() if job.number not in drafts]
        for job in sorted(new, key=lambda job: (-job.priority, job.arrival, job.number)):
            self.add(job, drafts)
        return drafts

    def from_nothing(self) -> dict[int, Floor]:
        """Draft B. Densities are compared to nine digits."""

        def density(job: Job) -> float:
            slots, workers = self.shortest_run(job)
            return float(f"{worth(job.value, self.start + slots - job.arrival) / (slots * workers):.8e}")

        drafts: dict[int, Floor] = {}
        order = sorted(self.waiting.values(), key=lambda job: (-job.priority, -density(job), job.arrival, job.number))
        for job in order:
            self.add(job, drafts)
        return drafts

    def add(self, job: Job, drafts: dict[int, Floor]) -> None:
        floor = self.best(job, [*self.fixed.values(), *((self.waiting[n], draft) for n, draft in drafts.items())])
        if floor is not None:
            drafts[job.number] = floor

    def best(self, job: Job, reserved: Sequence[tuple[Job, Floor]]) -> Floor | None:
        """The best positive schedule on the own cells at no price."""
        booked = self.booked(reserved)
        cells, last = self.cluster.cells, max([self.start, *(floor.end for _, floor in reserved)])
        assert cells is not None
        early = range(self.start, self.first_end)
        crowded = {
            s: math.fsum(booked[r, t, s] for r in range(len(self.cluster.resources)) for t in early)
            for s in range(len(self.cluster.servers))
        }
        offer = Offer(
            starts=range(self.start, last + 2),
            last_end=math.inf,
            free=lambda r, t, s: float(cells[r, self.tenant, s]) - booked[r, t, s],
            share=lambda r, t: float(ENOUGH),
            price=lambda r, t: 0.0,
            charge=lambda r, t: 0.0,
            most_paid=math.inf,
            value_from=job.arrival,
            crowding=(lambda s: crowded[s]) if self.least_used else (lambda s: 0.0),
            servers=own_servers(cells, self.tenant),
        )
        schedule = Search(self.cluster, self.workers).best(job, offer)
        if schedule is None or schedule.value <= 0:
            return None
        return Floor(
            job.number, schedule.value, schedule.start, schedule.end, allocation(schedule), *schedule.pair, True
        )

    def booked(self, reserved: Iterable[tuple[Job, Floor]]) -> dict[tuple[int, int, int], float]:
        sums: dict[tuple[int, int, int], float] = defaultdict(float)
        for job, floor in reserved:
            for r, t, s, amount in occupied_by(job, floor):
                sums[r, t, s] += amount
        return sums

    def have_room(self, drafts: Mapping[int, Floor]) -> bool:
        """Whether all old drafts fit the cells as they are now, beside what has started."""
        cells = self.cluster.cells
        assert cells is not None
        for draft in drafts.values():
            for row in draft.allocation:
                hosts_workers, hosts_ps = self.cluster.hosts_workers[row.server], self.cluster.hosts_ps[row.server]
                if (row.workers and not hosts_workers) or (row.ps and not hosts_ps):
                    return False
        reserved = [*self.fixed.values(), *((self.waiting[number], draft) for number, draft in drafts.items())]
        booked = self.booked(reserved)
        drafted = self.booked([(self.waiting[number], draft) for number, draft in drafts.items()])
        return all(booked[r, t, s] <= cells[r, self.tenant, s] + 1e-9 for r, t, s in drafted)


def total(drafts: Mapping[int, Floor]) -> float:
    return math.fsum(draft.value for draft in drafts.values())


# -- the market ------------------------------------------------------------------------------------------------------


class ReferenceRenewal(ReferenceAstraea):
    """Guarantee mode with any of the three settings, by the book."""

    name = "reference of renewal"

    def __init__(self, settings: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> None:
        super().__init__(settings, cluster, jobs)
        figures = value_densities(cluster, jobs, self.settings["workers"])
        usual = [quantile(numbers, 0.5) if numbers else 0.0 for numbers in figures]
        self.medians = by_resource(settings.get("unit_value"), cluster, usual)

    def decide(self, view: View) -> Plan:
        clock = self.settings["clock"]
        if view.open_rents and clock != "geometric" and clock["restart"]:
            windows, memory = open_epoch(clock, view, self.settings)
        else:
            windows, memory = boundary(self.settings, view)
        if not windows:
            return Plan(memory=memory)
        collected = [job for job in view.waiting if job.arrival < view.slot]
        market = RenewalMarket(self, view, collected, windows)
        for start, end in windows:
            market.round(start, end)
        answers = (market.bookings, market.refusals, market.new_floors, market.windows)
        return Plan(*answers, memory=memory, settlements=market.settlements)


def open_epoch(
    clock: Mapping[str, Any], view: View, settings: Mapping[str, Any]
) -> tuple[list[tuple[int, int]], dict[str, Any]]:
    """K5: while a rent is open the epoch goes on, whoever waits."""
    memory = dict(view.memory)
    assert memory["next"] is not None
    assert memory["next"] >= view.slot
    if memory["next"] > view.slot:
        return [], memory
    limit = math.inf if settings["intervals"] is None else settings["intervals"]
    windows = [(view.slot, view.slot + memory["size"])] if memory["decided"] < limit else []
    memory["next"] += memory["size"]
    memory["size"] = min(2 * memory["size"], clock["cap"])
    memory["decided"] += 1
    return windows, memory


class RenewalMarket(Market):
    """One boundary."""

    world = AloneWorld

    def __init__(
        self, policy: ReferenceRenewal, view: View, collected: list[Job], windows: list[tuple[int, int]]
    ) -> None:
        self.decided_until = windows[-1][1]
        self.span = windows[0]
        self.medians = policy.medians
        self.searched = policy.settings.get("price", "posted") == "searched"
        self.beta = float(policy.settings.get("dividend", 0.0))
        self.kappa: float | None = None
        self.score: list[float] = []  # its parts, one for each sale
        self.settlements: list[Settlement] = []
        super().__init__(policy, view, collected)

    def first_window(self) -> tuple[int, int]:
        return self.span[0], self.span[1] - self.span[0]

    # -- K1 to K4 --------------------------------------------------------------------------------------------------

    def plan_floors(self) -> None:
        """Renewed plans first; then the floors that are kept, on what all reservations leave."""
        new = [job for job in self.pending if job.number not in self.floors]
        for job in new:
            if self.too_large(job):
                self.refusals.append(Refusal(job.number, Reason("larger_than_window"), REJECTED))
                self.pending.remove(job)
        new = [job for job in new if job in self.pending]
        before = dict(self.floors)
        for tenant in range(len(self.cluster.tenants)):
            renews = self.cluster.tenants[tenant].plan == "renew"
            self.renew(tenant, [job for job in new if job.tenant == tenant and renews])
        keepers = [job for job in new if self.cluster.tenants[job.tenant].plan == "keep"]
        for job in sorted(keepers, key=lambda job: (-job.priority, job.arrival, job.number)):
            self.floors[job.number] = self.floor_plan(job)
        changed = [number for number, floor in self.floors.items() if before.get(number) != floor]
        self.new_floors = [self.floors[number] for number in sorted(changed)]
        self.settle()

    def renew(self, tenant: int, collected: list[Job]) -> None:
        jobs, world = self.view.jobs, self.world(self.cluster, tenant)
        world.workers = self.settings["workers"]
        world.least_used = self.settings["server_choice"] == "least_used"
        for number, floor in self.floors.items():
            if jobs[number].tenant != tenant:
                continue
            if not floor.draft:
                world.fixed[number] = (jobs[number], floor)
                continue
            world.waiting[number] = jobs[number]
            if floor.allocation:
                world.drafts[number] = floor
        world.boundary(self.span[0], self.span[1], self.decided_until, collected)
        for number in world.alone:
            self.floors[number] = world.fixed[number][1] if number in world.fixed else Floor(number)
        for number in world.waiting:
            self.floors[number] = world.drafts.get(number, Floor(number, draft=True))

    def settle(self) -> None:
        for rent in self.view.open_rents:
            floor = self.floors[rent.job]
            if floor.draft:
                continue
            refund = max(0.0, floor.value - (rent.value - rent.paid))
            assert refund <= rent.paid * (1 + 1e-9)  # K11
            payouts = [0.0] * len(self.owners) if rent.payouts is None else [float(x) for x in rent.payouts]
            back = [refund * payout / rent.paid if refund else 0.0 for payout in payouts]
            self.settlements.append(Settlement(rent.job, floor.value, refund, np.array(back)))

    # -- K8 --------------------------------------------------------------------------------------------------------

    def sell_pool(self) -> None:
        if not self.searched:
            self.offer_all()
            return
        tried = []
        for kappa in KAPPAS:
            trial = self.as_it_is()
            trial.kappa = float(kappa)
            trial.offer_all()
            tried.append((math.fsum(trial.score), trial))
        top = max(score for score, _ in tried)
        equal = [(score, trial) for score, trial in tried if score >= top - 1e-9 * max(1.0, abs(top))]
        self.__dict__.update(equal[-1][1].__dict__)
        self.scores = tuple(score for score, _ in tried)

    def offer_all(self) -> None:
        """The whole of phase two at the prices that are posted now."""
        super().sell_pool()

    def as_it_is(self) -> RenewalMarket:
        """The same state, to try something in."""
        other = copy.copy(self)
        for name in ("added", "homes", "sold", "spent", "bookings", "awards", "pending"):
            setattr(other, name, copy.copy(getattr(self, name)))
        other.score = []
        return other

    def pool_price(self, r: int, t: int) -> float:
        if self.kappa is None:
            return super().pool_price(r, t)
        return self.price_floor[r] + self.kappa * self.medians[r]

    def publish(self) -> None:
        super().publish()
        if self.searched:
            self.windows[-1] = replace(self.windows[-1], kappa=self.kappa, scores=self.scores)
            self.kappa = None

    # -- 10.3 ------------------------------------------------------------------------------------------------------

    def gain_parts(self, job: Job, best: Schedule, sellers: Mapping[tuple[int, int], list[int]]) -> list[float]:
        """What each owner gets of the gain, besides the price; the payer's own part is nobody's."""
        gain = best.value - best.paid - (self.kept_otherwise(job) or 0.0)
        if not self.beta or gain <= 0:
            return [0.0 for _ in self.owners]
        weights = []
        for owner in self.owners:
            parts = [
                amount * self.part(owner, r, t, sellers)
                for t in range(best.start, best.end)
                for r, amount in enumerate(amounts(job, best.pair, best.workers, best.ps))
            ]
            weights.append(math.fsum(parts))
        if not any(weights):
            return [0.0 for _ in self.owners]
        everything = math.fsum(weights)
        return [self.beta * gain * w / everything if owner != job.tenant else 0.0 for owner, w in enumerate(weights)]

    def sold_to(self, job: Job, booking: Booking, need: float) -> None:
        own = 0.0 if booking.payouts is None else float(booking.payouts[job.tenant])
        self.score += [booking.value, -need]
        if not self.beta:
            self.score += [booking.paid, -own]
