"""Read one interval as one tenant may see it: its own bids, prices, units for sale, its payouts, and the chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scheduling.core.policies.astraea.renting.offers import KAPPAS
from scheduling.core.stored_jobs import document_and_jobs
from scheduling.core.types import Job
from scheduling.market.reads.anonymous import awards_seen
from scheduling.market.reads.explain import reason_of_length
from scheduling.market.reads.payments import IntervalPayments, payments_of_intervals, settled_to
from scheduling.market.reads.stored_intervals import contents_of
from scheduling.market.reads.windows import Published, published_of, slots_dealt
from scheduling.models import Interval, Pool, ResourceKind, TrainingJob
from scheduling.reasons import reason_sentence
from tenants.access import Refused
from tenants.ledger.amounts import micro
from tenants.ledger.sums import EarnedFrom, earned_by_award
from tenants.models import Tenant

UNKNOWN_INTERVAL = Refused("unknown_interval", "There is no such interval.")
PAGE = 20
MOST_BIDS = 100  # shown on a page; programs get all of them


@dataclass(frozen=True)
class Bid:
    """One of the tenant's jobs that waited when the interval was decided, and what became of it there."""

    job_id: int
    name: str
    floor: int | None  # micro-credits that it would be worth alone; None if the interval does not name its floor
    state: str  # awarded, or the state that the interval left it in
    text: str
    paid: int
    value: int


@dataclass(frozen=True)
class OfferedResource:
    """One resource over the whole window, in unit-slots. Prices are micro-credits for one unit-slot."""

    label: str
    offered: float
    sold: float
    mine: float
    my_sold: float
    lowest: int
    highest: int


@dataclass(frozen=True)
class SlotPrices:
    slot: int
    at: datetime
    resources: tuple[tuple[str, int, float, float], ...]  # label, price, units sold, units offered


@dataclass(frozen=True)
class Payout:
    """What one borrower paid the tenant for slots of the window."""

    borrower: str
    lane: str
    workers: int
    ps: int
    slots: int
    part: float
    amount: int

    @property
    def percent(self) -> float:
        return 100 * self.part


@dataclass(frozen=True)
class PriceTry:
    """A multiple of the usual value of a unit-slot, its score in micro-credits, and whether it was posted."""

    kappa: float
    score: int
    posted: bool


@dataclass(frozen=True)
class IntervalView:
    interval: Interval
    policy: str
    starts_at: datetime | None
    ends_at: datetime | None
    decided_at: datetime
    before: int | None
    after: int | None
    view_digest: str
    plan_digest: str
    view_bytes: int
    plan_bytes: int
    bids: tuple[Bid, ...]
    offers: tuple[OfferedResource, ...]
    slots: tuple[SlotPrices, ...]
    labels: tuple[str, ...]
    payouts: tuple[Payout, ...]
    payments: IntervalPayments | None
    tries: tuple[PriceTry, ...]  # tries for the window's price, where it is searched

    @property
    def bids_shown(self) -> tuple[Bid, ...]:
        return self.bids[:MOST_BIDS]

    @property
    def earned(self) -> int:
        return sum(row.amount for row in self.payouts)

    @property
    def paid(self) -> int:
        return sum(bid.paid for bid in self.bids)


@dataclass(frozen=True)
class IntervalRow:
    number: int
    slot: int
    decided_at: datetime
    starts_at: datetime | None
    ends_at: datetime | None
    jobs_waiting: int
    jobs_awarded: int
    payments: IntervalPayments | None


def interval_view(*, tenant: Tenant, pool: Pool, number: int, money: bool, jobs: bool) -> IntervalView | None:
    """Read one interval, or None if there is none. Needs the tenant's scope. `money` and `jobs` say whether the reader
    may see these parts; otherwise they are not read."""
    interval = Interval.objects.filter(pool=pool, number=number).first()
    if interval is None:
        return None
    is_archived = interval.is_archived
    contents = None if is_archived else contents_of(interval)
    view, plan = (contents.view, contents.plan) if contents else (b"", b"")
    kinds = list(ResourceKind.objects.filter(pool=pool))
    windows, span = published_of([interval], tenant.pk), slots_dealt(pool, interval)
    after = Interval.objects.filter(pool=pool, number=number + 1).values_list("number", flat=True).first()
    policy = json.loads(bytes(interval.policy))
    longest = policy["clock"].get("cap") if isinstance(policy.get("clock"), dict) else None
    return IntervalView(
        interval=interval,
        policy=str(policy["name"]),
        starts_at=pool.slot_start(span[0]) if span else None,
        ends_at=pool.slot_start(span[1]) if span else None,
        decided_at=interval.decided_at,
        before=number - 1 if number > 1 else None,
        after=after,
        view_digest=hashlib.sha256(view).hexdigest(),
        plan_digest=hashlib.sha256(plan).hexdigest(),
        view_bytes=len(view),
        plan_bytes=len(plan),
        bids=tuple(_bids(tenant, pool, view, json.loads(plan), longest)) if jobs and not is_archived else (),
        offers=tuple(_offered(kind, index, windows) for index, kind in enumerate(kinds)),
        slots=tuple(_slots(pool, windows, kinds)),
        labels=tuple(kind.label for kind in kinds),
        payouts=tuple(_payouts(tenant, pool, span)) if money and span else (),
        payments=_paid(tenant, pool, [(number, *span)])[0] if money and span else None,
        tries=tuple(_tries(windows)),
    )


def interval_list(*, tenant: Tenant, pool: Pool, below: int | None, money: bool) -> list[IntervalRow]:
    """Return one page of intervals, the newest first. For the next page, `below` is the number of the last one."""
    rows = Interval.objects.filter(pool=pool).order_by("-number").defer("view", "plan", "policy", "windows")
    intervals = list((rows.filter(number__lt=below) if below else rows)[:PAGE])
    spans = {row.number: span for row in intervals if (span := slots_dealt(pool, row)) is not None}
    paid = _paid(tenant, pool, [(number, *span) for number, span in spans.items()]) if money else []
    by_number = {row.number: row for row in paid}
    return [
        IntervalRow(
            row.number,
            row.slot,
            row.decided_at,
            pool.slot_start(spans[row.number][0]) if row.number in spans else None,
            pool.slot_start(spans[row.number][1]) if row.number in spans else None,
            row.jobs_waiting,
            row.jobs_awarded,
            by_number.get(row.number),
        )
        for row in intervals
    ]


def _bids(tenant: Tenant, pool: Pool, stored: bytes, plan: Mapping[str, Any], longest: int | None) -> list[Bid]:
    """Return the tenant's own jobs in the stored view and plan, in the order of the queue. `longest` is the length in
    slots of the longest interval that there will be."""
    view, jobs = document_and_jobs(stored)
    tenants = [row["name"] for row in view["cluster"]["tenants"]]
    index = tenants.index(str(tenant.pk)) if str(tenant.pk) in tenants else None
    numbers = [number for number in view["waiting"] if jobs[number].tenant == index]
    names = dict(TrainingJob.objects.filter(pk__in=numbers).values_list("pk", "name"))
    bookings = {row["job"]: row for row in plan["bookings"]}
    refusals = {row["job"]: row for row in plan["refusals"]}
    floors = {row["job"]: row["value"] for row in [*view["floors"], *plan["floors"]]}
    return [
        _bid(pool, jobs[number], names[number], bookings.get(number), refusals.get(number), floors.get(number), longest)
        for number in numbers
        if number in names
    ]


def _bid(
    pool: Pool,
    job: Job,
    name: str,
    booking: Mapping[str, Any] | None,
    refusal: Mapping[str, Any] | None,
    floor: float | None,
    longest: int | None,
) -> Bid:
    alone = None if floor is None else micro(floor)
    if booking is not None:
        where = "at home" if booking["phase"] == "own" else "on rented units"
        slots, workers = booking["end"] - booking["start"], booking["workers"]
        text = f"Awarded {where}: {workers} worker{'s' * (workers != 1)} at most, {slots} slot{'s' * (slots != 1)}."
        paid, value = micro(booking["paid"] or 0), micro(booking["value"] or 0)
        return Bid(job.number, name, alone, "awarded", text, paid, value)
    if refusal is None:
        return Bid(job.number, name, alone, "queued", "Still waits; nothing new.", 0, 0)
    state = "queued" if refusal["state"] == "waiting" else refusal["state"]
    code, numbers = refusal["code"], refusal["numbers"]
    if code == "larger_than_window" and longest is not None:
        reason = reason_of_length(numbers, longest, in_pieces=job.divisible and state == "queued")
        code, numbers = reason.code, reason.numbers
    return Bid(job.number, name, alone, state, reason_sentence(pool, code, numbers), 0, 0)


def _tries(windows: Sequence[Published]) -> Iterator[PriceTry]:
    """Yield the multiples tried for the price of the last window: an interval of a pool that searches its price has
    one.
    """
    for window in windows[-1:]:
        for kappa, score in zip(KAPPAS, window.scores, strict=False):
            yield PriceTry(kappa, micro(score), kappa == window.kappa)


def _offered(kind: ResourceKind, index: int, windows: Sequence[Published]) -> OfferedResource:
    prices = [micro(float(price)) for window in windows for price in window.prices[index]]
    return OfferedResource(
        label=kind.label,
        offered=sum(float(window.offered[index].sum()) for window in windows),
        sold=sum(float(window.sold[index].sum()) for window in windows),
        mine=sum(float(window.mine[index].sum()) for window in windows),
        my_sold=sum(float(window.my_sold[index].sum()) for window in windows),
        lowest=min(prices, default=0),
        highest=max(prices, default=0),
    )


def _units(window: Published, index: int, offset: int) -> tuple[float, float]:
    return float(window.sold[index, offset]), float(window.offered[index, offset])


def _slots(pool: Pool, windows: Sequence[Published], kinds: Sequence[ResourceKind]) -> list[SlotPrices]:
    return [
        SlotPrices(
            window.start + offset,
            pool.slot_start(window.start + offset),
            tuple(
                (kind.label, micro(float(window.prices[index, offset])), *_units(window, index, offset))
                for index, kind in enumerate(kinds)
            ),
        )
        for window in windows
        for offset in range(window.end - window.start)
    ]


def _payouts(tenant: Tenant, pool: Pool, span: tuple[int, int]) -> list[Payout]:
    """Return what the tenant was paid in the interval's slots, from both lanes. A slot is paid at its end, so the
    payment for the last slot carries the time of the window's end."""
    start, end = pool.slot_start(span[0] + 1), pool.slot_start(span[1]) + timedelta(microseconds=1)
    earned = [row for row in earned_by_award(tenant_id=tenant.pk, start=start, end=end) if row.kind == "settle"]
    awards = awards_seen(tenant_id=tenant.pk, award_ids=[row.award_id for row in earned if row.award_id])
    here = [row for row in earned if row.award_id in awards and awards[row.award_id].pool_id == pool.pk]
    return [_payout(row, awards, number) for number, row in enumerate(here, 1)]


def _payout(row: EarnedFrom, awards: Mapping[int, Any], number: int) -> Payout:
    award = awards[row.award_id or 0]
    who = "your own job" if award.is_own else f"renter {number}"
    return Payout(who, award.lane, award.workers, award.ps, row.payments, award.part, row.amount)


def _paid(tenant: Tenant, pool: Pool, spans: Sequence[tuple[int, int, int]]) -> list[IntervalPayments]:
    return payments_of_intervals(pool=pool, spans=spans, tenant_id=tenant.pk, until=settled_to(pool))
