"""Check that payments add up: what all tenants paid in an interval's slots, and to whom, read from the book itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Subquery, Value
from django.db.models.functions import Coalesce

from scheduling.models import Interval, LaneClock, Pool
from scheduling.models.jobs import Lane
from tenants.ledger.sums import NOTHING_PAID, Payments, payments_under
from tenants.scoping import scope_disabled

LATEST = 5  # intervals


@dataclass(frozen=True)
class IntervalPayments:
    """Payments for the slots [start, settled_to) of an interval's window, of both lanes."""

    number: int
    start: int
    end: int
    settled_to: int  # the first slot that is not paid yet
    starts_at: datetime
    ends_at: datetime
    payments: int
    paid: int
    to_me: int
    to_others: int
    to_operator: int
    difference: int

    @property
    def settled_slots(self) -> int:
        return max(self.settled_to - self.start, 0)

    @property
    def slots(self) -> int:
        return self.end - self.start


def slot_prefix(pool_id: int, slot: int) -> str:
    """Return the prefix of the keys of all settlements of one slot."""
    return f"settle:{pool_id}:{slot}:"


def settled_to(pool: Pool) -> int:
    """Return the first slot that is not paid yet."""
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    return (clock.settled_slot if clock else -1) + 1


def payments_of_intervals(
    *, pool: Pool, spans: Sequence[tuple[int, int, int]], tenant_id: int, until: int
) -> list[IntervalPayments]:
    """Read the payments in these windows. `spans` has number, first slot and end of each; `until` is the first slot
    that is not paid yet. Takes one query, in time proportional to the settlements in these slots."""
    slots = [slot for _, start, end in spans for slot in range(start, min(end, until))]
    with scope_disabled("whether payments and payouts are equal is a sum over all payers and owners"):
        prefixes = [slot_prefix(pool.pk, slot) for slot in slots]
        sums = payments_under(prefixes=prefixes, tenant_id=tenant_id) if slots else []
    by_slot = dict(zip(slots, sums, strict=True))
    return [_of(pool, span, until, by_slot) for span in spans]


def payments_of_latest(*, pool: Pool, tenant_id: int) -> list[IntervalPayments]:
    """Read the payments of the last intervals whose slots have been paid, at least in part; the newest first."""
    clock = LaneClock.objects.filter(pool=pool.pk, lane=Lane.BATCH).values("settled_slot")[:1]
    rows = Interval.objects.filter(pool=pool).annotate(settled=Coalesce(Subquery(clock), Value(-1)))
    payments = rows.filter(window_start__lte=F("settled")).order_by("-window_end")
    spans = list(payments.values_list("number", "window_start", "window_end", "settled")[:LATEST])
    until = spans[0][3] + 1 if spans else 0
    windows = [(number, start, end) for number, start, end, _ in spans if start is not None and end is not None]
    return payments_of_intervals(pool=pool, spans=windows, tenant_id=tenant_id, until=until)


def _of(pool: Pool, span: tuple[int, int, int], until: int, by_slot: dict[int, Payments]) -> IntervalPayments:
    number, start, end = span
    sums = [by_slot.get(slot, NOTHING_PAID) for slot in range(start, end)]
    return IntervalPayments(
        number=number,
        start=start,
        end=end,
        settled_to=min(end, until),
        starts_at=pool.slot_start(start),
        ends_at=pool.slot_start(end),
        payments=sum(each.payments for each in sums),
        paid=sum(each.paid for each in sums),
        to_me=sum(each.to_tenant for each in sums),
        to_others=sum(each.to_others for each in sums),
        to_operator=sum(each.to_operator for each in sums),
        difference=sum(each.difference for each in sums),
    )
