"""An auditor: knows a published plan and the rules of pricing, and computes again what everybody should pay.

From the schedule alone it rebuilds how much was allocated, used at home and for sale in each slot, takes the sales
in their order, and compares. It knows nothing of how schedules are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.types import OWN, SHARED, Booking, Floor, Job, Plan, View


@dataclass(frozen=True)
class Terms:
    """The settings that matter for prices; thetas and floor prices per resource."""

    settings: dict[str, Any]
    theta: np.ndarray
    price_floor: np.ndarray


def taken_by(job: Job, run: Booking | Floor, start: int, end: int, servers: int) -> np.ndarray:
    """(resources, end - start, servers) what a booking or a floor takes in the slots [start, end)."""
    worker, ps = job.worker_types[run.worker_type].demand, job.ps_types[run.ps_type].demand
    amounts = np.zeros((len(worker), end - start, servers))
    for row in run.allocation:
        slots = slice(max(row.start, start) - start, max(min(row.end, end), start) - start)
        amounts[:, slots, row.server] += (row.workers * worker + row.ps * ps)[:, None]
    return amounts


def occupied(view: View, start: int, end: int) -> np.ndarray:
    """(resources, end - start, servers) taken before the plan."""
    beyond = view.tail if view.tail is not None else np.zeros_like(view.cluster.capacity)
    amounts = np.repeat(beyond[:, None, :], end - start, axis=1)
    occupancy = view.occupied[:, start - view.slot : end - view.slot]
    amounts[:, : occupancy.shape[1]] = occupancy
    return amounts


class Audit:
    """One window of one plan. `flaws` lists every amount that is not what the rules say."""

    def __init__(self, terms: Terms, view: View, plan: Plan, window: tuple[int, int]) -> None:
        self.terms, self.view, self.plan = terms, view, plan
        self.start, self.end = window
        cluster = view.cluster
        self.total = cluster.total
        self.before = occupied(view, *window)
        self.allocated = self.before.sum(axis=2)  # (resources, slots)
        self.homes = np.zeros((len(cluster.tenants), *self.before.shape))  # own use at home, or within the share
        self.sold = np.zeros_like(self.allocated)
        self.flaws = list(self._audit())

    def _audit(self) -> Iterator[str]:
        here = [booking for booking in self.plan.bookings if self.start <= booking.start < self.end]
        ordered = sorted(here, key=lambda b: (self.view.jobs[b.job].arrival, b.job))
        if self.terms.settings["floor"]:
            self._remember_crossing()
        for booking in ordered:
            if booking.phase == OWN:
                yield from self._own(booking)
        self._set_upgraded_homes(ordered)
        self.idle = self._idle()
        for booking in ordered:
            if booking.phase == SHARED:
                yield from self._shared(booking)
        yield from self._published()

    def _take(self, booking: Booking | Floor) -> np.ndarray:
        job = self.view.jobs[booking.job]
        return taken_by(job, booking, self.start, self.end, self.before.shape[2])

    def _remember_crossing(self) -> None:
        self.crossing = np.zeros_like(self.allocated)
        for booking in self.view.active:
            if booking.phase == OWN:
                self.homes[self.view.jobs[booking.job].tenant] += self._take(booking)
                self.crossing += self._take(booking).sum(axis=2)

    def _own(self, booking: Booking) -> Iterator[str]:
        job = self.view.jobs[booking.job]
        mine = self.homes[job.tenant].sum(axis=2)
        counted = {"zero": None, "shadow": self.allocated, "own": mine}[self.terms.settings["own_price"]]
        amounts = self._take(booking)
        if not self.terms.settings["floor"]:
            shadow = (
                0.0 if counted is None else (self._scarcity(counted, self.total[:, None]) * amounts.sum(axis=2)).sum()
            )
            yield from unequal(f"shadow cost of job {booking.job}", booking.shadow_cost, shadow)
        yield from unequal(f"price of job {booking.job} at home", booking.paid, 0.0)
        self.homes[job.tenant] += amounts
        self.allocated += amounts.sum(axis=2)

    def _set_upgraded_homes(self, ordered: list[Booking]) -> None:
        """A job that rents instead of a home schedule of this window held its cells when the pool was counted."""
        floors = {**self.view.floors, **{floor.job: floor for floor in self.plan.floors}}
        for booking in ordered:
            floor = floors.get(booking.job)
            if booking.phase == SHARED and floor and floor.value > 0 and self.start <= floor.start < self.end:
                self.homes[self.view.jobs[booking.job].tenant] += self._take(floor)

    def _idle(self) -> np.ndarray:
        """(resources, owners, slots) for sale after phase one."""
        cluster = self.view.cluster
        idle = np.repeat(cluster.shares[:, :, None], self.end - self.start, axis=2)
        idle[:, :-1] -= self.homes.sum(axis=3).transpose(1, 0, 2)
        if self.terms.settings["floor"]:
            for u, tenant in enumerate(cluster.tenants):
                idle[:, u] *= tenant.lend == "lend"
            closed = ~(cluster.hosts_workers | cluster.hosts_ps)
            of_owners = np.concatenate([cluster.cells, cluster.operator_cells[:, None]], axis=1)[:, :, None]
            of_owners = np.repeat(of_owners, self.end - self.start, axis=2)
            of_owners[:, :-1] -= self.homes.transpose(1, 0, 2, 3)
            lends = [tenant.lend == "lend" for tenant in cluster.tenants] + [True]
            idle -= (of_owners[..., closed].sum(axis=3)) * np.array(lends)[None, :, None]
        return idle

    def _prices(self) -> np.ndarray:
        """(resources, slots) posted for the next sale."""
        floor = self.terms.price_floor[:, None]
        if self.terms.settings["price_counts"] == "cluster":
            return floor + self._scarcity(self.allocated, self.total[:, None])
        others = self.before.sum(axis=2) - self.crossing
        return floor + self._scarcity(others + self.sold, self.idle.sum(axis=1))

    def _scarcity(self, used: np.ndarray, total: np.ndarray) -> np.ndarray:
        share = np.where(total > 0, used / np.where(total > 0, total, 1.0), 0.0)
        return self.terms.theta[:, None] ** share - 1.0

    def _shared(self, booking: Booking) -> Iterator[str]:
        job, settings = self.view.jobs[booking.job], self.terms.settings
        prices, amounts = self._prices(), self._take(booking).sum(axis=2)
        offered = self.idle.copy()
        if settings["floor"]:
            for u, tenant in enumerate(self.view.cluster.tenants):
                offered[:, u] *= prices >= tenant.reserve_price[:, None] - 1e-12
        everything = offered.sum(axis=1, keepdims=True)
        parts = np.divide(offered, everything, out=np.zeros_like(offered), where=everything > 0)
        payouts = (parts * (prices * amounts)[:, None, :]).sum(axis=(0, 2))
        cost = (prices * amounts).sum()
        yield from unequal(f"cost of job {booking.job}", booking.cost, cost)
        if settings["payment"] == "net":
            payouts[job.tenant] = 0.0
        yield from unequal(f"payment of job {booking.job}", booking.paid, payouts.sum())
        for owner, amount in enumerate(payouts):
            yield from unequal(f"payout of job {booking.job} to {owner}", float(booking.payouts[owner]), amount)
        if np.any(amounts > self.idle.sum(axis=1) + 1e-9):
            yield f"job {booking.job} took more than the pool"
        self.sold += amounts
        self.allocated += amounts

    def _published(self) -> Iterator[str]:
        """What the plan publishes of this window, in guarantee mode."""
        for window in self.plan.windows if self.terms.settings["floor"] else ():
            if (window.start, window.end) == (self.start, self.end):
                if not np.allclose(window.idle, self.idle, atol=1e-9):
                    yield "the published idle units are not those of the schedule"
                if not np.allclose(window.rented, self.sold, atol=1e-9):
                    yield "the published rented units are not those of the schedule"
                if not np.allclose(window.prices, self._prices(), atol=1e-9):
                    yield "the published prices are not those of the schedule"


def unequal(what: str, claim: float, truth: float) -> Iterator[str]:
    if abs(claim - truth) > 1e-6 * max(1.0, abs(truth)):
        yield f"{what}: {claim}, recomputed {truth}"
