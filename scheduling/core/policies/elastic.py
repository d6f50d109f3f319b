"""An elastic pool: another policy gives every job its numbers for one slot, and each slot is paid at posted prices.

The price of a slot is what the gang takes of each server times the operator's prices. It goes to the owners of the
server's units in proportion to what they have there; the part that would be the payer's own is not charged. A job
whose slot its funds, budget or limit do not cover gets none, and the others are decided again without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from scheduling.core.scenario.fields import Section
from scheduling.core.types import (
    OWN,
    REJECTED,
    SHARED,
    WAITING,
    Booking,
    Cluster,
    FloatArray,
    Job,
    Plan,
    Policy,
    Reason,
    Refusal,
    View,
)

SINGLE_SLOTS = frozenset(
    {"dl2", "dominant_resource_fairness", "dorm", "gandiva_fair", "offline_rl", "optimus", "rrh", "srtf", "tetris"}
)
MOST_ROUNDS = 8  # decisions without those who cannot pay, before what they leave is left idle


class NotOneSlot(RuntimeError):
    """The policy of an elastic pool booked more than the coming slot."""


@dataclass(frozen=True, eq=False)
class Elastic:
    """`policy` decides single slots; `prices` are credits for a unit of a resource during a slot."""

    name: ClassVar[str] = "elastic"
    policy: Policy
    prices: Mapping[str, float]

    def decide(self, view: View) -> Plan:
        """The policy's plan with its prices, for those who can pay theirs."""
        asked, unpaid = view, dict[int, Refusal]()
        rates = np.array([self.prices.get(name, 0.0) for name in view.cluster.resources])
        shares = owners_shares(view.cluster)
        for _ in range(MOST_ROUNDS):
            plan = self.policy.decide(asked)
            bookings = [_priced(booking, view, rates, shares) for booking in plan.bookings]
            short = _short_of_money(view, bookings)
            unpaid |= short
            if not short:
                break
            asked = _without(view, unpaid)
        bookings = [booking for booking in bookings if booking.job not in unpaid]
        return replace(plan, bookings=bookings, refusals=_refusals(view, plan, bookings, unpaid))


def owners_shares(cluster: Cluster) -> FloatArray:
    """(resources, owners, servers) the part of each server's units that is each owner's; counts say it for all
    servers alike where there are no cells. What nobody has is the operator's."""
    if cluster.cells is None:
        owned = np.repeat(cluster.shares[:, :, None], len(cluster.servers), axis=2)
    else:
        owned = np.concatenate([cluster.cells, cluster.operator_cells[:, None, :]], axis=1)
    total = owned.sum(axis=1, keepdims=True)
    shares: FloatArray = np.divide(owned, total, out=np.zeros_like(owned), where=total > 0)
    shares[:, -1] += total[:, 0] <= 0
    return shares


def slot_costs(booking: Booking, job: Job, rates: FloatArray, servers: int) -> FloatArray:
    """(resources, servers) credits for what a booking of one slot takes."""
    worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
    taken = np.zeros((len(rates), servers))
    for row in booking.allocation:
        taken[:, row.server] += row.workers * worker + row.ps * ps
    costs: FloatArray = taken * rates[:, None]
    return costs


def _priced(booking: Booking, view: View, rates: FloatArray, shares: FloatArray) -> Booking:
    """The booking with what it costs and who is paid."""
    if (booking.start, booking.end) != (view.slot, view.slot + 1):
        raise NotOneSlot(f"job {booking.job}: [{booking.start}, {booking.end}) in slot {view.slot}")
    job = view.jobs[booking.job]
    costs = slot_costs(booking, job, rates, shares.shape[2])
    payouts = np.einsum("rs,ros->o", costs, shares)
    payouts[job.tenant] = 0.0
    paid = float(payouts.sum())
    amounts = {"payouts": payouts, "slot_payouts": payouts[None, :]} if paid > 0 else {}
    at_home = paid <= 0 < costs.sum()
    return replace(booking, cost=float(costs.sum()), paid=paid, phase=OWN if at_home else SHARED, **amounts)


def _short_of_money(view: View, bookings: Sequence[Booking]) -> dict[int, Refusal]:
    """Who cannot pay for the slot, in order of arrival; a tenant's money goes to its earlier jobs first."""
    funds = np.full(len(view.cluster.tenants), np.inf) if view.funds is None else view.funds.copy()
    spent, short = view.spent.copy(), {}
    for booking in sorted(bookings, key=lambda booking: (view.jobs[booking.job].arrival, booking.job)):
        job = view.jobs[booking.job]
        reason = _reason(view, job, booking.paid, float(funds[job.tenant]), float(spent[job.tenant]))
        if reason is not None:
            short[job.number] = Refusal(job.number, reason)
            continue
        funds[job.tenant] -= booking.paid
        spent[job.tenant] += booking.paid
    return short


def _reason(view: View, job: Job, price: float, funds: float, spent: float) -> Reason | None:
    """Why the job cannot pay so much for the slot."""
    tenant = view.cluster.tenants[job.tenant]
    rent = job.rent or tenant.rent
    if price <= 0:
        return None
    if rent == "never":
        return Reason("rent_never", {"price": price})
    before = view.paid.get(job.number, 0.0)
    if job.max_price is not None and before + price > job.max_price:
        return Reason("over_max_price", {"price": price, "max_price": job.max_price, "spent": before})
    if rent == "budget" and tenant.budget is not None and spent + price > tenant.budget:
        return Reason("over_budget", {"price": price, "left": max(0.0, tenant.budget - spent)})
    if price > funds:
        return Reason("low_balance", {"price": price, "left": max(0.0, funds)})
    return None


def _without(view: View, left_out: Mapping[int, Refusal]) -> View:
    kept = [index for index, job in enumerate(view.waiting) if job.number not in left_out]
    return replace(view, waiting=tuple(view.waiting[index] for index in kept), remaining=view.remaining[kept])


def _refusals(
    view: View, plan: Plan, bookings: Sequence[Booking], unpaid: Mapping[int, Refusal]
) -> tuple[Refusal, ...]:
    """One for every job that does not run in the slot, in order. A job that has begun is never refused for good: a
    server that is missing now may come back."""
    said = {refusal.job: refusal for refusal in plan.refusals} | dict(unpaid)
    running = {booking.job for booking in bookings}
    found = []
    for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
        if job.number in running:
            continue
        refusal = said.get(job.number) or Refusal(job.number, Reason("not_its_turn"))
        if refusal.state == REJECTED and remaining < job.work:
            refusal = replace(refusal, state=WAITING)
        found.append(refusal)
    return tuple(found)


def build(fields: Mapping[str, Any], cluster: Cluster, inner: Policy) -> Elastic:
    """The prices of a scenario or a pool around a policy that is already built."""
    section = Section(fields, "policy", ("policy", "prices"))
    prices = section.amounts("prices", cluster.resources, {}, least=0.0, most=1e9)
    return Elastic(inner, {name: prices.get(name, 0.0) for name in cluster.resources})
