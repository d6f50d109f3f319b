"""An elastic pool: another policy decides what each job has in a slot, and each slot is paid at posted prices.

The price of a slot is what the gang takes of each server times the operator's prices. It goes to the owners of the
server's units in proportion to what they have there; the payer's own part is not charged. Where a job's funds, budget
or limit do not cover its slot, it gets the largest size that they cover, and nothing if that is less than its least.
The other jobs are decided again each time, so that no room is lost. An unbroken job keeps the gang that it began with:
the policy is asked about the others (`stays.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from scheduling.core.policies.elastic.means import Short, SlotLimit, shortages
from scheduling.core.policies.elastic.prices import owners_shares, priced
from scheduling.core.policies.elastic.stays import remembered, stays_of, without_stays
from scheduling.core.scenario.fields import Section
from scheduling.core.types import REJECTED, WAITING, Booking, Cluster, Plan, Policy, Reason, Refusal, View

MOST_ROUNDS = 8  # decisions about one slot; after the last, the room of jobs that cannot pay stays idle


@dataclass(frozen=True, eq=False)
class Elastic:
    """The policy of an elastic pool: `policy` decides single slots, and `prices` are credits for a unit of a resource
    during a slot."""

    name: ClassVar[str] = "elastic"
    policy: Policy
    prices: Mapping[str, float]

    def decide(self, view: View) -> Plan:
        """Return the policy's plan with prices, with each job as large as it can pay, and with unbroken jobs where they
        are."""
        rates = np.array([self.prices.get(name, 0.0) for name in view.cluster.resources])
        shares = owners_shares(view.cluster)
        limits: dict[int, SlotLimit] = {}
        unpaid: dict[int, Reason] = {}
        stays = stays_of(view)
        for _ in range(MOST_ROUNDS):
            staying = [booking for number, booking in stays.items() if number not in unpaid]
            plan = self.policy.decide(_limited(without_stays(view, staying), limits, unpaid))
            bookings = [priced(booking, view, rates, shares) for booking in (*staying, *plan.bookings)]
            short = shortages(view, bookings, rates, first=stays.keys())
            if not short:
                break
            for number, each in short.items():
                if number in stays:  # no smaller gang goes on with what it has done
                    unpaid[number] = each.reason
                else:
                    _less(number, each, limits, unpaid)
        unpaid |= {number: each.reason for number, each in short.items()}
        payable = [booking for booking in bookings if booking.job not in unpaid]
        smaller = {booking.job: limits[booking.job].reason(booking) for booking in payable if booking.job in limits}
        return replace(
            plan,
            bookings=payable,
            refusals=_refusals(view, plan, payable, limits, unpaid),
            smaller=smaller,
            memory=remembered(view, payable, plan.memory),
        )


def _less(number: int, short: Short, limits: dict[int, SlotLimit], unpaid: dict[int, Reason]) -> None:
    """Set the job's next limit, or note that it gets nothing: where no size is small enough, or the policy ignored the
    limit before."""
    before = limits.get(number)
    if short.size is None or (before is not None and not before.keeps(short.booking)):
        unpaid[number] = short.reason
    else:
        limits[number] = SlotLimit(before.first if before else short.booking, short, short.size)


def _limited(view: View, limits: Mapping[int, SlotLimit], unpaid: Mapping[int, Reason]) -> View:
    """Return the view without the jobs that get nothing, and with the other jobs within their limits."""
    if not limits and not unpaid:
        return view
    places = [index for index, job in enumerate(view.waiting) if job.number not in unpaid]
    jobs = (view.waiting[index] for index in places)
    waiting = tuple(limits[job.number].of(job) if job.number in limits else job for job in jobs)
    return replace(view, waiting=waiting, remaining=view.remaining[places])


def _refusals(
    view: View,
    plan: Plan,
    bookings: Sequence[Booking],
    limits: Mapping[int, SlotLimit],
    unpaid: Mapping[int, Reason],
) -> tuple[Refusal, ...]:
    """Return a refusal for each job that does not run in the slot, in order. A job that has begun is never refused for
    good, as a server that is missing now may come back; that it has begun is said by what it paid where its program
    reports nothing that it did. Nor is a job refused for good because its money limits its size."""
    by_job = {refusal.job: refusal for refusal in plan.refusals}
    by_job |= {number: Refusal(number, reason) for number, reason in unpaid.items()}
    running = {booking.job for booking in bookings}
    refusals = []
    for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
        if job.number in running:
            continue
        refusal = by_job.get(job.number) or Refusal(job.number, Reason("not_its_turn"))
        if refusal.state == REJECTED and job.number in limits:
            refusal = Refusal(job.number, limits[job.number].short.reason)
        if refusal.state == REJECTED and (remaining < job.work or job.number in view.paid):
            refusal = replace(refusal, state=WAITING)
        refusals.append(refusal)
    return tuple(refusals)


def build(fields: Mapping[str, Any], cluster: Cluster, inner: Policy) -> Elastic:
    """Build an elastic policy with the prices of a scenario or a pool around a policy that is already built."""
    section = Section(fields, "policy", ("policy", "prices"))
    prices = section.amounts("prices", cluster.resources, {}, least=0.0, most=1e9)
    return Elastic(inner, {name: prices.get(name, 0.0) for name in cluster.resources})
