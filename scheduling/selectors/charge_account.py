"""What a job pays, worked out step by step: units, posted prices, the own part, and who gets the rest of each slot."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from scheduling.core import policies, records
from scheduling.core.metrics.certificates import realised
from scheduling.core.policies.elastic import Elastic
from scheduling.core.prices import scarcity
from scheduling.core.settlement import MICRO, ROUNDING
from scheduling.core.types import SHARED, Booking, FloatArray, Plan, View
from scheduling.models import Award, Interval, Lane, LaneClock, Pool, ResourceKind, TrainingJob
from tenants.models import Tenant

UNREADABLE = (zlib.error, ValueError, KeyError, TypeError, StopIteration)
OPERATOR_ID, OPERATOR = 0, "Operator"
MOST_AWARDS = 50  # in an elastic pool a job has one for each slot, and each is worked out from an interval


@dataclass(frozen=True)
class Factor:
    """units x price = amount, of one resource in one slot. Credits."""

    label: str
    units: float
    price: float

    @property
    def amount(self) -> float:
        return self.units * self.price


@dataclass(frozen=True)
class SlotAccount:
    """`factors` are empty where the interval does not say at which prices it sold. Parts are micro-credits."""

    slot: int
    at: datetime
    factors: tuple[Factor, ...]
    parts: tuple[tuple[str, int], ...]
    is_settled: bool

    @property
    def gross(self) -> float:
        return sum(factor.amount for factor in self.factors)

    @property
    def paid(self) -> int:
        return sum(amount for _, amount in self.parts)

    @property
    def own_part(self) -> int:
        return round(self.gross * MICRO) - self.paid if self.factors else 0


@dataclass(frozen=True)
class AwardAccount:
    """`interval` None: answered at once, by the instant lane. Amounts with a point are credits, the others micro."""

    award: Award
    interval: int | None
    elapsed: float | None  # slots from its arrival to its end
    value: float
    floor: float
    cost: float
    slots: tuple[SlotAccount, ...]

    @property
    def paid(self) -> int:
        return sum(slot.paid for slot in self.slots)

    @property
    def got(self) -> float:
        return self.value - self.award.paid / MICRO

    @property
    def own_part(self) -> int:
        return round(self.cost * MICRO) - self.award.paid

    @property
    def difference(self) -> int:
        return self.award.paid - self.paid

    @property
    def has_factors(self) -> bool:
        return any(slot.factors for slot in self.slots)

    @property
    def by_owner(self) -> tuple[tuple[str, int], ...]:
        sums: dict[str, int] = {}
        for slot in self.slots:
            for name, amount in slot.parts:
                sums[name] = sums.get(name, 0) + amount
        return tuple(sums.items())


def charge_account(job: TrainingJob) -> tuple[AwardAccount, ...]:
    """The job's awards, oldest first, of many the newest; none for a job that was never served. Needs a scope in which
    they are seen."""
    awards = list(Award.objects.filter(job=job).select_related("interval").order_by("-pk")[:MOST_AWARDS])[::-1]
    if not awards:
        return ()
    clock = LaneClock.objects.filter(pool=job.pool_id, lane=Lane.BATCH).first()
    owners = {owner for award in awards for slot in award.charges for owner, _ in slot}
    names = {pk: tenant.name for pk, tenant in Tenant.objects.in_bulk([pk for pk in owners if pk]).items()}
    names[OPERATOR_ID] = OPERATOR
    labels = list(ResourceKind.objects.filter(pool=job.pool_id).values_list("label", flat=True))
    settled = clock.settled_slot if clock else -1
    return tuple(_account(job.pool, award, names, labels, settled) for award in awards)


def _account(pool: Pool, award: Award, names: Mapping[int, str], labels: Sequence[str], settled: int) -> AwardAccount:
    found = _decided(award.interval, award.job_id) if award.interval else None
    costs = _factors(*found, labels) if found else {}
    elapsed = None if found is None else found[2].end - found[0].jobs[award.job_id].arrival
    slots = tuple(
        SlotAccount(
            slot=slot,
            at=pool.slot_start(slot),
            factors=costs.get(slot, ()),
            parts=tuple((names[owner], amount) for owner, amount in charged),
            is_settled=slot <= settled,
        )
        for slot, charged in enumerate(award.charges, award.start)
    )
    value = realised(found[0].jobs[award.job_id], found[2]) if found else float(award.value or 0.0)
    number = award.interval.number if award.interval else None
    return AwardAccount(award, number, elapsed, value, float(award.floor or 0.0), float(award.cost or 0.0), slots)


def _decided(interval: Interval, job_id: int) -> tuple[View, Plan, Booking, dict[str, Any]] | None:
    """None where the stored bytes can no longer be read: verification says so."""
    try:
        view = records.view_from(zlib.decompress(bytes(interval.view)))
        plan = records.plan_from(zlib.decompress(bytes(interval.plan)))
        booking = next(booking for booking in plan.bookings if booking.job == job_id)
        return view, plan, booking, json.loads(bytes(interval.policy))
    except UNREADABLE:
        return None


def _factors(
    view: View, plan: Plan, booking: Booking, policy: Mapping[str, Any], labels: Sequence[str]
) -> dict[int, tuple[Factor, ...]]:
    """Slot -> units x posted price by resource, where these make up the gross price of the booking."""
    if booking.phase != SHARED or not booking.cost:
        return {}
    prices = _posted_before(view, plan, booking, policy)
    if prices is None:
        return {}
    amounts = _amounts(view, booking)
    if abs(float((amounts * prices).sum()) - booking.cost) > ROUNDING * max(1.0, booking.cost):
        return {}
    return {
        booking.start + place: tuple(
            Factor(label, float(amounts[index, place]), float(prices[index, place]))
            for index, label in enumerate(labels)
            if amounts[index, place]
        )
        for place in range(booking.end - booking.start)
    }


def _posted_before(view: View, plan: Plan, booking: Booking, policy: Mapping[str, Any]) -> FloatArray | None:
    """(resources, slots of the booking) price floor + price base ^ (rented / for sale) - 1, as posted when it was the
    job's turn (G6); or the operator's prices of use. None for a policy that posts its prices in another way."""
    if policy["name"] == Elastic.name:
        return np.array([[policy["prices"][name]] for name in view.cluster.resources])
    settings = policies.build(dict(policy), view.cluster, ())
    in_force = getattr(settings, "in_force", None)
    window = next((one for one in plan.windows if one.start <= booking.start and booking.end <= one.end), None)
    if in_force is None or window is None or getattr(settings, "price_counts", "") != "pool":
        return None
    astraea = in_force(view)
    turn = {job.number: place for place, job in enumerate(view.waiting)}
    rented = np.zeros_like(window.rented)
    for other in plan.bookings:
        if other.phase == SHARED and turn[other.job] < turn[booking.job] and other.start >= window.start:
            inside = slice(other.start - window.start, other.end - window.start)
            if other.end <= window.end:
                rented[:, inside] += _amounts(view, other)
    base = np.array([astraea.theta[name] for name in view.cluster.resources])[:, None]
    floor = np.array([astraea.price_floor[name] for name in view.cluster.resources])[:, None]
    prices = floor + scarcity(base, rented, window.idle.sum(axis=1))
    return np.asarray(prices[:, booking.start - window.start : booking.end - window.start])


def _amounts(view: View, booking: Booking) -> FloatArray:
    """(resources, slots) units that the booking takes."""
    job = view.jobs[booking.job]
    worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
    amounts = np.zeros((len(view.cluster.resources), booking.end - booking.start))
    for row in booking.allocation:
        inside = slice(row.start - booking.start, row.end - booking.start)
        amounts[:, inside] += (row.workers * worker + row.ps * ps)[:, None]
    return amounts
