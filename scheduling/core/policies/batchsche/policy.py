"""BatchSche: each tenant collects its jobs and deals out its own machines, batch by batch, to the jobs worth most.

Batch l is decided at slot 2**l for a window of 2**l slots into which no earlier run reaches. There each job, in order
of arrival, takes the window, number and types of workers for which value less price is largest, and runs if that is
positive. A resource of which a tenant uses h of C costs theta ** (h / C) - 1 a slot: a dual price, which nobody pays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scheduling.core.cells import deal_cells
from scheduling.core.policies.batchsche.ways import THETA_LEAST, Fit, ServerWindow, Way, usual_theta, ways
from scheduling.core.prices import scarcity
from scheduling.core.scenario.fields import Section
from scheduling.core.speed import most_servers
from scheduling.core.types import (
    CENTRALIZED,
    DISTRIBUTED,
    OWN,
    REJECTED,
    Allocation,
    Booking,
    BoolArray,
    Cluster,
    FloatArray,
    Job,
    Plan,
    Reason,
    Refusal,
    View,
)

TIE = 1e-9  # relative; gains that differ by less are equal


@dataclass(frozen=True)
class BatchSche:
    """The policy. `theta` is by resource. In each batch `rounds` windows are decided; the first begins at slot `rounds`
    times the length of a window."""

    theta: Mapping[str, float]
    rounds: int = 1
    name: ClassVar[str] = "batchsche"

    def decide(self, view: View) -> Plan:
        """Book whole runs on the tenants' own machines. Between batches nothing is booked."""
        length = 2
        while length < view.slot:
            length *= 2
        if view.slot < length:
            late = [Refusal(job.number, _closes_at(length)) for job in view.waiting if job.arrival > view.slot - 1]
            return Plan(refusals=late, frontier=self.rounds * length)
        homes = _Homes(view, np.array([self.theta[name] for name in view.cluster.resources]))
        collected = [job for job in view.waiting if job.arrival < view.slot]
        refusals = [Refusal(job.number, _closes_at(2 * length)) for job in view.waiting[len(collected) :]]
        bookings: list[Booking] = []
        for index in range(self.rounds):
            homes.open((self.rounds + index) * length, length)
            home_bookings = {job.number: booking for job in collected if (booking := homes.book(job)) is not None}
            bookings += home_bookings.values()
            collected = [job for job in collected if job.number not in home_bookings]
        refusals += [homes.refusal(job) for job in collected]
        return Plan(bookings, refusals, frontier=2 * self.rounds * length)


def _closes_at(slot: int) -> Reason:
    return Reason("waiting_for_interval", {"closes_at": slot})


class _Homes:
    """What the tenants own, and what is in use of it in the window that is being decided."""

    def __init__(self, view: View, theta: FloatArray) -> None:
        self.view, self.cluster, self.theta = view, view.cluster, theta[:, None]
        cells = self.cluster.cells
        self.cells = deal_cells(self.cluster.capacity, self.cluster.quota) if cells is None else cells
        self.servers = [np.flatnonzero(self.cells[:, tenant].any(axis=0)) for tenant in range(self.cells.shape[1])]
        self.empty: dict[int, ServerWindow] = {}  # by tenant, a slot with nothing on its machines

    def open(self, start: int, slots: int) -> None:
        """Open a window in which only what the view holds occupied is in use."""
        self.start, self.slots = start, slots
        self.outbid: dict[int, Reason] = {}  # jobs that found room, and the price that was too high for them
        resources, _, servers = self.cells.shape
        self.use = np.zeros((resources, slots, servers))
        if self.view.tail is not None:
            self.use += self.view.tail[:, None, :]
        occupied = self.view.occupied[:, start - self.view.slot : start - self.view.slot + slots]
        self.use[:, : occupied.shape[1]] = occupied
        self.own: dict[int, FloatArray] = {}  # by tenant (resources, slots, own servers): used by its own jobs

    def refusal(self, job: Job) -> Refusal:
        """Return why a job that was offered the window got nothing. The refusal is final if its owner's machines could
        never hold the job."""
        possible_ways = ways(job, self.cluster.slot_seconds, most_servers(job, self.cluster))
        if not possible_ways:
            return Refusal(job.number, Reason("shared_resource"), REJECTED)
        empty = self._empty(job.tenant)
        if not empty.free.size or not any(Fit(job, way, empty, slots=1).fits[0] for way in possible_ways[::-1]):
            return Refusal(job.number, Reason("no_room", {"asked": job.min_workers}), REJECTED)
        shortest = possible_ways[0].slots
        if shortest > self.slots:
            return Refusal(
                job.number, Reason("larger_than_window", {"needs_slots": shortest, "window_slots": self.slots})
            )
        best = float(job.value(shortest))
        if best <= 0:
            return Refusal(job.number, Reason("not_worth_it", {"best_value": best}))
        if job.number in self.outbid:
            return Refusal(job.number, self.outbid[job.number])
        return Refusal(job.number, Reason("no_room", {"asked": job.min_workers}))

    def book(self, job: Job) -> Booking | None:
        """Book the run in the window with the largest value less price, if that is positive; ties go to the earliest
        start."""
        servers = self.servers[job.tenant]
        if len(servers) == 0:
            return None
        own = self.own.setdefault(job.tenant, np.zeros_like(self.use[:, :, servers]))
        home = self.cells[:, job.tenant, servers]  # (resources, own servers)
        prices = scarcity(self.theta, own.sum(axis=2), home.sum(axis=1)[:, None])  # (resources, slots)
        rest = self.cluster.capacity[:, None, servers] - self.use[:, :, servers]
        free = np.minimum(home[:, None, :] - own, rest)
        window = ServerWindow(free, self._hosts(job.tenant), prices)
        worth = np.asarray(job.value(np.arange(1, self.slots + 1)), dtype=np.float64)
        offers: list[tuple[float, int, Way, Fit]] = []
        best = 0.0
        for way in ways(job, self.cluster.slot_seconds, most_servers(job, self.cluster)):
            if way.slots > self.slots or worth[way.slots - 1] < best - TIE * max(1.0, best):
                break
            fit = Fit(job, way, window)
            costs = fit.costs(job)
            gains = worth[way.slots - 1 :] - costs
            if fit.fits.any():
                numbers = {"price": float(costs[fit.fits].min()), "value": float(worth[way.slots - 1])}
                self.outbid.setdefault(job.number, Reason("outbid", numbers))
            gains = np.where(fit.fits, gains, -np.inf)
            best = max(best, float(gains.max()))
            enough = np.flatnonzero((gains > 0) & (gains >= best - TIE * max(1.0, best)))
            offers += [(float(gains[start]), int(start), way, fit) for start in enough]
        tied = [row for row in offers if row[0] >= best - TIE * max(1.0, best)]
        if not tied:
            return None
        _, start, way, fit = min(tied, key=lambda row: (row[1], row[2].order))
        return self._booked(job, start, way, fit, prices)

    def _hosts(self, tenant: int) -> tuple[BoolArray, BoolArray]:
        """Return (own servers,) whether they host workers, and whether they host parameter servers."""
        servers = self.servers[tenant]
        return self.cluster.hosts_workers[servers], self.cluster.hosts_ps[servers]

    def _empty(self, tenant: int) -> ServerWindow:
        """Return a slot with nothing on the tenant's machines."""
        if tenant not in self.empty:
            home = self.cells[:, tenant, self.servers[tenant]][:, None, :]
            self.empty[tenant] = ServerWindow(home, self._hosts(tenant), np.zeros(home.shape[:2]))
        return self.empty[tenant]

    def _booked(self, job: Job, start: int, way: Way, fit: Fit, prices: FloatArray) -> Booking:
        """Take the units, server by server, and return the booking."""
        worker, ps = job.worker_types[way.types[0]].demand, job.ps_types[way.types[1]].demand
        begin, end = self.start + start, self.start + start + way.slots
        slots = slice(start, start + way.slots)
        servers: list[int] = self.servers[job.tenant].tolist()
        units = sorted(fit.units(start).items())
        rows = tuple(Allocation(servers[place], begin, end, *numbers) for place, numbers in units)
        for place, (workers, count) in units:
            amounts = (workers * worker + count * ps)[:, None]
            self.use[:, slots, servers[place]] += amounts
            self.own[job.tenant][:, slots, place] += amounts
        ps_count = sum(row.ps for row in rows)
        value = float(job.value(end - self.start))
        return Booking(
            job=job.number,
            start=begin,
            end=end,
            allocation=rows,
            work=float(job.work),
            workers=way.workers,
            ps=ps_count,
            worker_type=way.types[0],
            ps_type=way.types[1],
            phase=OWN,
            placement=CENTRALIZED if way.central else DISTRIBUTED,
            value=value,
            ideal=value,
            shadow_cost=float((way.workers * worker + ps_count * ps) @ prices[:, slots].sum(axis=1)),
        )


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> BatchSche:
    """Build BatchSche with the settings of a scenario. A theta that is not given follows from the jobs' values."""
    section = Section(fields, "policy", ("theta", "rounds"))
    amounts = section.amounts("theta", cluster.resources, least=THETA_LEAST) if section.has("theta") else {}
    usual = usual_theta(cluster, jobs) if len(amounts) < len(cluster.resources) else {}
    return BatchSche(
        theta={name: amounts.get(name, usual.get(name, THETA_LEAST)) for name in cluster.resources},
        rounds=section.whole("rounds", BatchSche.rounds, most=1000),
    )
