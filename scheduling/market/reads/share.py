"""Read the page My share: what a tenant owns and how it is used now, who rents it, what it earns, and what is
missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.cluster import PoolOverview
from scheduling.market.reads.anonymous import AwardSeen, awards_seen, earned_from
from scheduling.market.reads.forgone import Forgone, forgone_in, used_by_own_jobs
from scheduling.market.reads.payments import payments_of_intervals
from scheduling.market.reads.period import PeriodMoney, money_since
from scheduling.market.reads.share_units import UnitsNow, holdings_in, units_now
from scheduling.market.reads.windows import Published, WindowSpan, intervals_between, published_of
from scheduling.models import ALIVE, CHARGES, Award, Lane, LaneClock, Lend, Pool, RentState, TenantPolicy, earns
from scheduling.sharing import sharing_of
from tenants.common.zones import day_of, midnight
from tenants.ledger.amounts import micro
from tenants.ledger.sums import earned_by_award
from tenants.models import Tenant
from tenants.scoping import scope_disabled

MOST_WINDOWS = 2_000  # windows of one day
SHOWN_INTERVALS = 8


@dataclass(frozen=True)
class Renter:
    """One job that pays the tenant, without its name. `rate` is what it pays in the running slot."""

    name: str
    lane: str
    state: str  # running, booked, given up, ended
    workers: int
    ps: int
    starts_at: datetime
    ends_at: datetime
    part: float
    rate: int
    earned: int
    to_come: int

    @property
    def percent(self) -> float:
        return 100 * self.part


@dataclass(frozen=True)
class Put:
    """Unit-slots of one resource that were put up for rent. `price` is the mean posted price in micro-credits."""

    label: str
    offered: float
    sold: float
    price: int


@dataclass(frozen=True)
class Contribution:
    """What the tenant put up for rent in one interval, in unit-slots, and what it earned by that."""

    number: int
    starts_at: datetime
    ends_at: datetime
    resources: tuple[Put, ...]  # in the order of the pool's
    amount: int
    settled: bool


@dataclass(frozen=True)
class MoneyNow:
    """The money of the reader's tenant; it is not read for people who may not see money. Today and this month are those
    of the reader's zone."""

    today: PeriodMoney
    month: PeriodMoney
    held: int
    forgone: Forgone | None  # None where no interval of today says what was for sale: only auctions say so
    renters: tuple[Renter, ...]
    provisional: int  # the tenant's parts of open rents, of which some may be returned to the renters
    on_hold: bool  # the market is held, and no rent is settled until that ends
    contributions: tuple[Contribution, ...]

    @property
    def earned(self) -> int:
        return sum(row.earned for row in self.renters)

    @property
    def to_come(self) -> int:
        return sum(row.to_come for row in self.renters)

    @property
    def rate(self) -> int:
        return sum(row.rate for row in self.renters)


@dataclass(frozen=True)
class PoolPart:
    """The tenant's part of what is for sale in the running slot."""

    label: str
    mine: float
    offered: float
    sold: float

    @property
    def my_sold(self) -> float:
        return self.sold * self.mine / self.offered if self.offered else 0.0


@dataclass(frozen=True)
class ShareView:
    slot: int
    units: UnitsNow
    pool_parts: tuple[PoolPart, ...]  # none where no interval says what is for sale in the slot
    span: WindowSpan | None
    back_at: datetime | None  # when the last lent units come back
    paid_until: datetime | None  # when the last of the present renters has paid, also for units that it gave up
    next_at: datetime  # when a change of the instructions can first take effect
    policy: TenantPolicy
    money: MoneyNow | None


def share_view(*, tenant: Tenant, pool: Pool, at: datetime, money: bool, overview: PoolOverview) -> ShareView:
    """Read the page. Needs the tenant's scope. `overview` is that of the pool."""
    slot = pool.slot_at(at)
    holdings = holdings_in(pool, slot, near=tenant.pk)
    units = units_now(tenant_id=tenant.pk, pool=pool, slot=slot, holdings=holdings, overview=overview)
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first() or LaneClock(pool=pool, lane=Lane.BATCH)
    policy = sharing_of(tenant, pool)
    first = pool.slot_at(midnight(day_of(at)))
    windows = published_of(intervals_between(pool, max(first, 0), slot + 1, most=MOST_WINDOWS), tenant.pk)
    span = next((_span(pool, window) for window in windows if window.start <= slot < window.end), None)
    paying = _paying(pool, slot, tenant.pk)
    return ShareView(
        slot=slot,
        units=units,
        pool_parts=_pool_parts(units, windows, slot),
        span=span,
        back_at=max((pool.slot_start(award.used_until) for award in paying if award.used_until > slot), default=None),
        paid_until=max((pool.slot_start(award.end) for award in paying), default=None),
        next_at=pool.slot_start(max(clock.frontier, slot + 1)),
        policy=policy,
        money=_money(tenant, pool, at, windows, span, paying, clock, policy, units) if money else None,
    )


def _paying(pool: Pool, slot: int, tenant_id: int) -> list[Award]:
    """Return the awards whose span contains the slot and that pay the tenant in any of their slots. An award that was
    given up is among them, since it pays to its end."""
    with scope_disabled("an owner may know what it earns from others; not by whom"):
        rows = Award.objects.filter(pool=pool, state__in=ALIVE, start__lte=slot, end__gt=slot)
        rows = rows.alias(brings=earns(tenant_id)).filter(brings=True)
        return [award for award in rows.order_by("pk") if earned_from(award, tenant_id)]


def _provisional(pool: Pool, tenant_id: int) -> int:
    """Return the micro-credits that this owner gets from open rents if nothing of them is returned."""
    with scope_disabled("an owner may know what it earns from others; not by whom"):
        rents = Award.objects.filter(pool=pool, rent=RentState.OPEN).alias(earns=earns(tenant_id)).filter(earns=True)
        rents = rents.only("start", "end", "state", "cut_at", "pays_from", "adjusted", *CHARGES)
        return sum(
            part
            for rent in rents
            for slot, part in zip(range(rent.start, rent.paid_until), rent.parts_of(tenant_id), strict=False)
            if slot not in rent.missed
        )


def _span(pool: Pool, window: Published) -> WindowSpan:
    return WindowSpan(pool.pk, window.number, window.start, window.end)


def _pool_parts(units: UnitsNow, windows: Sequence[Published], slot: int) -> tuple[PoolPart, ...]:
    window = next((window for window in windows if window.start <= slot < window.end), None)
    if window is None:
        return ()
    at = slot - window.start
    return tuple(
        PoolPart(total.label, *(float(array[index, at]) for array in (window.mine, window.offered, window.sold)))
        for index, total in enumerate(units.totals)
    )


def _money(
    tenant: Tenant,
    pool: Pool,
    at: datetime,
    windows: Sequence[Published],
    span: WindowSpan | None,
    paying: Sequence[Award],
    clock: LaneClock,
    policy: TenantPolicy,
    units: UnitsNow,
) -> MoneyNow:
    day = day_of(at)
    begins = midnight(day)
    (today, month), now = money_since(tenant_id=tenant.pk, starts=[begins, midnight(day.replace(day=1))], at=at)
    first, last = max(pool.slot_at(begins), 0), pool.slot_at(at) + 1
    keeps = policy.lend == Lend.KEEP
    used = used_by_own_jobs(pool=pool, tenant_id=tenant.pk, first=first, last=last) if keeps else None
    quota = [float(total.units) for total in units.totals]
    return MoneyNow(
        today=today,
        month=month,
        held=now.held,
        forgone=forgone_in(windows=windows, first=first, last=last, quota=quota, used=used) if windows else None,
        renters=tuple(_renters(tenant, pool, at, span, paying, clock)),
        provisional=_provisional(pool, tenant.pk),
        on_hold=clock.held,
        contributions=tuple(_contributions(tenant, pool, windows, [total.label for total in units.totals], clock)),
    )


def _renters(
    tenant: Tenant, pool: Pool, at: datetime, span: WindowSpan | None, paying: Sequence[Award], clock: LaneClock
) -> list[Renter]:
    """Return the awards that pay in the running interval: those that run now, and those that ended since it began."""
    slot = pool.slot_at(at)
    since = pool.slot_start((span.start if span else slot) + 1)
    earned = {
        row.award_id: row.amount
        for row in earned_by_award(tenant_id=tenant.pk, start=since, end=at + timedelta(seconds=pool.slot_seconds))
        if row.award_id and row.kind == "settle"
    }
    alive = {award.pk: award for award in paying}
    awards = awards_seen(tenant_id=tenant.pk, award_ids=[*earned, *alive])
    here = [award for award in awards.values() if award.pool_id == pool.pk]
    here.sort(key=lambda award: (award.award_id not in alive, award.start, award.award_id))
    renters = [
        _renter(award, alive.get(award.award_id), number, tenant.pk, pool, slot, earned.get(award.award_id, 0), clock)
        for number, award in enumerate(here, 1)
    ]
    return [row for row in renters if row.earned or row.to_come or row.rate]


def _renter(
    award: AwardSeen,
    row: Award | None,
    number: int,
    tenant_id: int,
    pool: Pool,
    slot: int,
    earned: int,
    clock: LaneClock,
) -> Renter:
    rate = sum(amount for owner, amount in row.owed[slot - row.start] if owner == tenant_id) if row else 0
    return Renter(
        name="your own job" if award.is_own else f"renter {number}",
        lane=award.lane,
        state="ended" if row is None else "given up" if row.used_until <= slot else row.state,
        workers=award.workers,
        ps=award.ps,
        starts_at=pool.slot_start(award.start),
        ends_at=pool.slot_start(award.end),
        part=award.part,
        rate=rate,
        earned=earned,
        to_come=earned_from(row, tenant_id, since=row.unpaid_since(clock.settled_slot)) if row else 0,
    )


def _put(label: str, window: Published, index: int) -> Put:
    offered, sold = float(window.mine[index].sum()), float(window.my_sold[index].sum())
    return Put(label, offered, sold, micro(float(window.prices[index].mean())))


def _contributions(
    tenant: Tenant, pool: Pool, windows: Sequence[Published], labels: Sequence[str], clock: LaneClock
) -> list[Contribution]:
    """Return the contributions by interval, the newest first. A window that is not over yet shows what has been paid so
    far."""
    newest = list(windows[:SHOWN_INTERVALS])
    spans = [(window.number, window.start, window.end) for window in newest]
    paid = payments_of_intervals(pool=pool, spans=spans, tenant_id=tenant.pk, until=clock.settled_slot + 1)
    return [
        Contribution(
            number=window.number,
            starts_at=pool.slot_start(window.start),
            ends_at=pool.slot_start(window.end),
            resources=tuple(_put(label, window, index) for index, label in enumerate(labels)),
            amount=payments.to_me,
            settled=payments.settled_to >= window.end,
        )
        for window, payments in zip(newest, paid, strict=True)
    ]
