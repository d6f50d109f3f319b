"""What each job can pay for a slot, and the largest size that this buys where it is less than the policy gave.

The price of a smaller size is estimated from what the policy's own numbers cost: with fewer workers there are as many
parameter servers for each of them, rounded down, and the same part of the price is the payer's own. So a size seldom
costs more than estimated, and never much less. The policy then decides again with that size as the job's limit, and
what it gives is priced anew.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from scheduling.core.currency import MICRO
from scheduling.core.types import Booking, FloatArray, Job, Reason, View

ROUNDING = 1e-3 / MICRO  # credits; the ledger's smallest amount is a thousand times as large
NEVER = "rent_never"


@dataclass(frozen=True)
class Size:
    """Numbers of workers and parameter servers, with their estimated price. `most_ps` is the most parameter servers
    that the job may have with these workers."""

    workers: int
    ps: int
    most_ps: int
    price: float


@dataclass(frozen=True)
class Short:
    """A job whose booking costs more than it can pay: `limit` leaves it only `credits`. `size` is the largest size that
    it can pay, None where there is none. `least` is the smallest size, None where the booking has it already."""

    booking: Booking
    limit: Reason
    credits: float
    size: Size | None
    least: Size | None

    @property
    def reason(self) -> Reason:
        """Return why the job gets nothing."""
        least = {} if self.least is None or self.limit.code == NEVER else {"least_price": self.least.price}
        return replace(self.limit, numbers={"price": self.booking.paid, **self.limit.numbers, **least})


@dataclass(frozen=True)
class SlotLimit:
    """What a job may have in the slot, since it cannot pay for its `first` booking by the policy."""

    first: Booking
    short: Short
    size: Size

    def keeps(self, booking: Booking) -> bool:
        """Return whether the booking is within the limit. A policy that keeps a job at its numbers ignores limits."""
        return booking.workers <= self.size.workers and booking.ps <= self.size.most_ps

    def of(self, job: Job) -> Job:
        """Return the job with these limits, as the policy gets it."""
        most_ps = self.size.most_ps if job.max_ps is None else min(job.max_ps, self.size.most_ps)
        return replace(job, max_workers=self.size.workers, max_ps=most_ps)

    def reason(self, booking: Booking) -> Reason:
        """Return why the job runs with less than the policy gave it at first."""
        numbers = {"workers": booking.workers, "ps": booking.ps, "price": booking.paid}
        numbers |= {"asked": self.first.workers, "asked_ps": self.first.ps, "asked_price": self.first.paid}
        return Reason("smaller_size", numbers | {"left": self.short.credits, "limit": self.short.limit.code})


def shortages(
    view: View, bookings: Sequence[Booking], rates: FloatArray, first: Container[int] = ()
) -> dict[int, Short]:
    """Return the jobs that cannot pay for the slot, in the order in which a tenant's money goes to its jobs: to those
    of `first`, which have no other size, before all others, and else to the earlier ones."""
    funds = np.full(len(view.cluster.tenants), np.inf) if view.funds is None else view.funds.copy()
    spent, missing = view.spent.copy(), {}
    for booking in sorted(bookings, key=lambda each: (each.job not in first, view.jobs[each.job].arrival, each.job)):
        job, price = view.jobs[booking.job], booking.paid
        means, limit = _least_means(view, job, float(funds[job.tenant]), float(spent[job.tenant]))
        if price > max(means, 0.0) + ROUNDING:
            sizes = [] if job.number in first else [*smaller_sizes(job, booking, rates, view.cluster.least_payment)]
            size = next((each for each in sizes if each.price <= means + ROUNDING), None)
            least = sizes[-1] if sizes else None
            missing[job.number] = Short(booking, limit, max(means, 0.0), size, least)
            price = size.price if size else 0.0
        funds[job.tenant] -= price
        spent[job.tenant] += price
    return missing


def _least_means(view: View, job: Job, funds: float, spent: float) -> tuple[float, Reason]:
    """Return (credits, reason) of the limit that leaves the job the least to pay for the slot."""
    tenant = view.cluster.tenants[job.tenant]
    rent = job.rent or tenant.rent
    if rent == "never":
        return 0.0, Reason("rent_never")
    before = view.paid.get(job.number, 0.0)
    means = [(funds, Reason("low_balance", {"left": max(0.0, funds)}))]
    if rent == "budget" and tenant.budget is not None:
        rest = tenant.budget - spent
        means.append((rest, Reason("over_budget", {"left": max(0.0, rest)})))
    if job.max_price is not None:
        limit = Reason("over_max_price", {"max_price": job.max_price, "spent": before})
        means.append((job.max_price - before, limit))
    return min(means[::-1], key=lambda each: each[0])  # among equals the job's limit, then the budget


def smaller_sizes(job: Job, booking: Booking, rates: FloatArray, least_payment: float = 0.0) -> Iterator[Size]:
    """Yield the sizes smaller than the booking, the largest first: fewer workers down to the job's least number, then
    fewer parameter servers for these. None costs less than the least that can be paid."""
    worker = float(job.worker_types[booking.worker_type].demand @ rates)
    server = float(job.ps_types[booking.ps_type].demand @ rates)
    part, workers, ps, least = booking.paid / booking.cost, booking.workers, booking.ps, job.min_workers
    least_ps = job.least_ps
    for fewer in range(workers - 1, least - 1, -1):
        servers = max(least_ps, ps * fewer // workers)
        price = max(least_payment, (fewer * worker + servers * server) * part)
        yield Size(fewer, servers, max(least_ps, ceil(ps * fewer / workers)), price)
    fewer = min(workers, least)
    for servers in range(max(least_ps, ps * fewer // workers) - 1, 0, -1):
        yield Size(fewer, servers, servers, max(least_payment, (fewer * worker + servers * server) * part))
