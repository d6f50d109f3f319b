"""The prices at which a job got its units, slot by slot: those posted when it was the job's turn. They were decided
with its award and never change. They are computed again from the stored interval."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core import policies, records
from scheduling.core.policies.elastic import Elastic
from scheduling.core.prices import scarcity
from scheduling.core.settlement import ROUNDING
from scheduling.core.stored_jobs import view_shown
from scheduling.core.types import SHARED, Booking, FloatArray, Job, Plan, View
from scheduling.market.reads.stored_intervals import READING_ERRORS, contents_of
from scheduling.models import Interval

UNREADABLE = (*READING_ERRORS, StopIteration)
ROUNDED_UP = "rounded up to the smallest amount"


@dataclass(frozen=True)
class Factor:
    """One term of a price: units x price = amount, for one resource in one slot, in credits."""

    label: str
    units: float
    price: float

    @property
    def amount(self) -> float:
        return self.units * self.price

    @property
    def words(self) -> str:
        """The name of the units, in the plural for several: "workers", "workers with their parameter servers"."""
        if self.units == 1 or self.label == ROUNDED_UP:
            return self.label
        first, behind, rest = self.label.partition(" with its ")
        return f"{first}s" + (f" with their {rest}" if behind else "")


@dataclass(frozen=True, eq=False)
class DecidedAward:
    """The stored view and plan of an interval, and in it the booking of one award."""

    view: View
    plan: Plan
    booking: Booking
    policy: Mapping[str, Any]

    @property
    def job(self) -> Job:
        return self.view.jobs[self.booking.job]

    def factors(self, labels: Sequence[str]) -> dict[int, tuple[Factor, ...]]:
        """Map each slot to its factors, units x posted price by resource (`labels`). Return nothing if they do not add
        up to the gross price of the booking."""
        return _factors(self.view, self.plan, self.booking, self.policy, labels)


def decided_award(interval: Interval, job_id: int, start: int) -> DecidedAward | None:
    """Read the decision about a job's award that begins with this slot. Return None where the stored bytes cannot be
    read; verification reports that."""
    try:
        contents = contents_of(interval)
        view, plan = view_shown(contents.view), records.plan_from(contents.plan)
        booking = next(booking for booking in plan.bookings if (booking.job, booking.start) == (job_id, start))
        return DecidedAward(view, plan, booking, json.loads(contents.policy))
    except UNREADABLE:
        return None


def _factors(
    view: View, plan: Plan, booking: Booking, policy: Mapping[str, Any], labels: Sequence[str]
) -> dict[int, tuple[Factor, ...]]:
    if booking.phase != SHARED or not booking.cost:
        return {}
    prices = _posted_before(view, plan, booking, policy)
    if prices is None:
        return {}
    amounts = _amounts(view, booking)
    gross = (amounts * prices).sum(axis=0)
    due = np.zeros_like(gross) if booking.slot_payouts is None else booking.slot_payouts.sum(axis=1)
    more = np.where(due > gross * (1 + ROUNDING), due - gross, 0.0)  # prices can sum to less than can be paid
    if booking.dividend:  # the payouts then include more than the price
        more = np.zeros_like(gross)
    if abs(float((gross + more).sum()) - booking.cost) > ROUNDING * max(1.0, booking.cost):
        return {}
    return {
        booking.start + place: tuple(
            Factor(label, float(amounts[index, place]), float(prices[index, place]))
            for index, label in enumerate(labels)
            if amounts[index, place]
        )
        + ((Factor(ROUNDED_UP, 1.0, float(more[place])),) if more[place] else ())
        for place in range(booking.end - booking.start)
    }


def _posted_before(view: View, plan: Plan, booking: Booking, policy: Mapping[str, Any]) -> FloatArray | None:
    """Return (resources, slots of the booking): price floor + price base ^ (rented / for sale) - 1, as posted when it
    was the job's turn (G6); in an elastic pool the operator's prices of use. Return None for a policy that posts its
    prices in another way."""
    if policy["name"] == Elastic.name:
        return np.array([[policy["prices"][name]] for name in view.cluster.resources])
    settings = policies.build(dict(policy), view.cluster, ())
    in_force = getattr(settings, "in_force", None)
    window = next((one for one in plan.windows if one.start <= booking.start and booking.end <= one.end), None)
    if in_force is None or window is None or getattr(settings, "price_counts", "") != "pool":
        return None
    if window.kappa is not None:  # the price was searched, and no sale changes it (K8)
        return window.prices[:, booking.start - window.start : booking.end - window.start]
    astraea = in_force(view)
    turn = {job.number: place for place, job in enumerate(view.waiting)}
    rests = dict(zip(turn, view.remaining.tolist(), strict=True))

    def passed(each: Booking) -> tuple[bool, int]:
        """Return the place of a booking in the order of turns: those that finish a job come first, then pieces, each in
        the order of arrival (D7)."""
        return each.work < rests[each.job], turn[each.job]

    rented = np.zeros_like(window.rented)
    for other in plan.bookings:
        if other.phase == SHARED and passed(other) < passed(booking) and other.start >= window.start:
            inside = slice(other.start - window.start, other.end - window.start)
            if other.end <= window.end:
                rented[:, inside] += _amounts(view, other)
    base = np.array([astraea.theta[name] for name in view.cluster.resources])[:, None]
    floor = np.array([astraea.price_floor[name] for name in view.cluster.resources])[:, None]
    prices = floor + scarcity(base, rented, window.idle.sum(axis=1))
    return np.asarray(prices[:, booking.start - window.start : booking.end - window.start])


def _amounts(view: View, booking: Booking) -> FloatArray:
    """Return (resources, slots): the units that the booking takes."""
    job = view.jobs[booking.job]
    worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
    amounts = np.zeros((len(view.cluster.resources), booking.end - booking.start))
    for row in booking.allocation:
        inside = slice(row.start - booking.start, row.end - booking.start)
        amounts[:, inside] += (row.workers * worker + row.ps * ps)[:, None]
    return amounts
