"""Read the whole market at a moment, for the staff: every pool, owner, queue, engine and balance.

Every query is bounded by the pools, servers, tenants and jobs that are alive; none grows with the market's age. There
are eight per pool, whatever is in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Min, Q

from scheduling.cluster import PoolOverview, pool_overview
from scheduling.engines.base import DOWN
from scheduling.market.reads import OwnerShare, holdings_in, owners_now, prices_now
from scheduling.models import AFTER_OTHERS, Interval, JobState, Pool, Server, ServerState, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.money import tenant_funds
from scheduling.operator import EngineState, PoolClock, pool_states
from tenants.ledger.postings import TenantBalances
from tenants.ledger.sums import book_difference, earned_since
from tenants.models import Tenant
from tenants.scoping import scope_disabled

MOST_OWNERS, MOST_QUEUES, MOST_SERVERS = 5, 5, 8  # lines of a table; the rest is one line, or a number
MOST_INTERVALS = 3  # intervals of each pool
LATE = timedelta(seconds=30)  # a decision later than this after its boundary was late


@dataclass(frozen=True)
class OwnerLine:
    """One owner. `name` None is the sum of all owners without a line."""

    name: str | None
    slug: str
    share: OwnerShare


@dataclass(frozen=True)
class PoolUseNow:
    """The use of a pool's first resource, and its price in the running slot. `whole` is the sum of all lines."""

    state: PoolClock
    overview: PoolOverview
    label: str
    lines: tuple[OwnerLine, ...]
    whole: OwnerShare
    price: float | None  # price of the batch lane; None if none is posted

    @property
    def running(self) -> float:
        return self.whole.used + self.whole.lent

    @property
    def part(self) -> float | None:
        return self.running / self.whole.units if self.whole.units else None


@dataclass(frozen=True)
class QueueLine:
    pool: str
    tenant: str
    slug: str
    waiting: int
    held: int  # jobs that wait for other jobs
    booked: int  # awarded, but not begun
    running: int
    oldest: datetime | None


@dataclass(frozen=True)
class PoolQueue:
    """Queues of all pools. `others` is the number of tenants with jobs but without a line."""

    lines: tuple[QueueLine, ...]
    others: int
    waiting: int
    running: int
    oldest: datetime | None


@dataclass(frozen=True)
class IntervalLine:
    """One interval. `lag` is the seconds from the boundary to the decision. `seconds` is the length of its window, or
    None without one."""

    pool: Pool
    number: int
    boundary: datetime
    starts_at: datetime | None
    ends_at: datetime | None
    seconds: int | None
    lag: float
    waiting: int
    awarded: int
    paid: int

    @property
    def is_late(self) -> bool:
        return self.lag > LATE.total_seconds()


@dataclass(frozen=True)
class ServerTrouble:
    """A server that cannot be sold as usual, or that its engine reports as down."""

    id: int
    name: str
    pool: str
    pool_slug: str
    state: str
    word: str  # the engine's word for its state; empty if it reports no trouble
    since: datetime | None
    why: str


@dataclass(frozen=True)
class MoneyLine:
    name: str
    slug: str
    funds: TenantBalances
    earned_today: int


@dataclass(frozen=True)
class BookNow:
    """The book. `difference` is the sum of all balances, which is 0 unless the book is broken. `others` are the tenants
    without a line, as one line."""

    lines: tuple[MoneyLine, ...]
    others: MoneyLine | None
    whole: MoneyLine
    difference: int


def pools_now(at: datetime, tenants: Mapping[int, Tenant]) -> list[PoolUseNow]:
    return [_pool_use(state, tenants) for state in pool_states(at)]


def _pool_use(state: PoolClock, tenants: Mapping[int, Tenant]) -> PoolUseNow:
    overview = pool_overview(state.pool)
    if not overview.totals:
        return PoolUseNow(state, overview, "", (), OwnerShare(0), None)
    holdings = holdings_in(state.pool, state.slot)
    price = prices_now(state.pool, state.slot, overview.kinds)[0].price
    first = overview.totals[0]
    shares = owners_now(holdings=holdings, overview=overview, resource=first.resource)
    ordered = sorted(shares, key=lambda share: (-share.units, -share.rented, share.tenant_id))
    top, rest = ordered[:MOST_OWNERS], ordered[MOST_OWNERS:]
    lines = [_owner_line(share, tenants) for share in top]
    if rest:
        lines.append(OwnerLine(None, "", _summed(rest)))
    return PoolUseNow(state, overview, first.label, tuple(lines), _summed(shares), price)


def _owner_line(share: OwnerShare, tenants: Mapping[int, Tenant]) -> OwnerLine:
    tenant = tenants.get(share.tenant_id)
    return OwnerLine("Operator" if tenant is None else tenant.name, tenant.slug if tenant else "", share)


def _summed(shares: Sequence[OwnerShare]) -> OwnerShare:
    whole = OwnerShare(0)
    for share in shares:
        whole = whole.plus(share)
    return whole


def queue_now(pools: Sequence[Pool], tenants: Mapping[int, Tenant]) -> PoolQueue:
    """Return the queues of all pools and tenants in one query, the longest queue first."""
    is_held = Q(state=JobState.QUEUED, not_before__gte=AFTER_OTHERS)
    waits = Q(state=JobState.QUEUED, not_before__lt=AFTER_OTHERS)
    with scope_disabled("the staff sees how many jobs of every tenant wait and run"):
        live = TrainingJob.objects.filter(state__in=LIVE_STATES).order_by()
        counts = live.values_list("pool_id", "tenant_id").annotate(
            waiting=Count("pk", filter=waits),
            held=Count("pk", filter=is_held),
            booked=Count("pk", filter=Q(state=JobState.AWARDED)),
            running=Count("pk", filter=Q(state=JobState.RUNNING)),
            oldest=Min("submitted_at", filter=waits),
        )
        rows = list(counts)
    names = {pool.pk: pool.name for pool in pools}
    lines = [
        QueueLine(names.get(pool_id, ""), tenants[tenant_id].name, tenants[tenant_id].slug, *rest)
        for pool_id, tenant_id, *rest in rows
        if tenant_id in tenants
    ]
    lines.sort(key=lambda line: (-line.waiting, -line.running, line.tenant))
    return PoolQueue(
        lines=tuple(lines[:MOST_QUEUES]),
        others=len(lines[MOST_QUEUES:]),
        waiting=sum(line.waiting for line in lines),
        running=sum(line.running for line in lines),
        oldest=min((line.oldest for line in lines if line.oldest), default=None),
    )


def intervals_latest(pools: Sequence[Pool]) -> list[IntervalLine]:
    """List the latest intervals of each pool, newest first, without their inputs and answers."""
    lines = []
    for pool in pools:
        rows = Interval.objects.filter(pool=pool).order_by("-number")
        columns = ("number", "slot", "window_start", "window_end", "decided_at", "jobs_waiting", "jobs_awarded", "paid")
        for number, slot, start, end, decided_at, waiting, awarded, paid in rows.values_list(*columns)[:MOST_INTERVALS]:
            boundary = pool.slot_start(slot)
            if pool.is_elastic:
                start, end = slot, slot + 1  # nothing is sold ahead there: it decides the slot that begins
            lines.append(
                IntervalLine(
                    pool=pool,
                    number=number,
                    boundary=boundary,
                    starts_at=None if start is None else pool.slot_start(start),
                    ends_at=None if end is None else pool.slot_start(end),
                    seconds=None if start is None or end is None else (end - start) * pool.slot_seconds,
                    lag=max((decided_at - boundary).total_seconds(), 0.0),
                    waiting=waiting,
                    awarded=awarded,
                    paid=paid,
                )
            )
    return lines


def troubles(engines: Sequence[EngineState]) -> list[ServerTrouble]:
    """List servers that are not in service or are down, the lost ones first, in one query."""
    down = {(each.name, name): word for each in engines for name, word in each.servers.items() if word.state == DOWN}
    is_down = Q(pool__engine__in={engine for engine, _ in down}, name__in={name for _, name in down})
    servers = Server.objects.filter(~Q(state=ServerState.IN_SERVICE) | is_down).select_related("pool").order_by("name")
    order = [ServerState.LOST, ServerState.IN_SERVICE, ServerState.DRAINING]
    rows = []
    for server in servers:
        word = down.get((server.pool.engine, server.name))
        if server.state == ServerState.IN_SERVICE and word is None:
            continue  # the server that is down has this name, but belongs to another engine
        rows.append(
            ServerTrouble(
                id=server.pk,
                name=server.name,
                pool=server.pool.name,
                pool_slug=server.pool.slug,
                state=server.state,
                word=word.state if word else "",
                since=word.since if word else None,
                why=word.reason if word else "",
            )
        )
    return sorted(rows, key=lambda row: (order.index(ServerState(row.state)), row.pool, row.name))


def money_now(at: datetime, tenants: Mapping[int, Tenant]) -> BookNow:
    """Return each tenant's balances, the largest sums held first, and what it earned since midnight UTC."""
    funds = tenant_funds()
    with scope_disabled("the staff sees what every tenant earned"):
        earned = earned_since(tenant_ids=list(funds), day=at.astimezone(UTC).date())
        difference = book_difference()
    lines = [
        MoneyLine(tenants[pk].name, tenants[pk].slug, balances, earned.get(pk, 0))
        for pk, balances in funds.items()
        if pk in tenants
    ]
    lines.sort(key=lambda line: (-line.funds.held, -line.funds.available, line.name))
    top, rest = lines[:MOST_OWNERS], lines[MOST_OWNERS:]
    others = _money_sum("The others", rest) if rest else None
    return BookNow(tuple(top), others, _money_sum("All tenants", lines), difference)


def _money_sum(name: str, lines: Sequence[MoneyLine]) -> MoneyLine:
    columns: defaultdict[str, int] = defaultdict(int)
    for line in lines:
        for column in ("available", "held", "earned"):
            columns[column] += getattr(line.funds, column)
    balances = TenantBalances(columns["available"], columns["held"], columns["earned"])
    return MoneyLine(name, "", balances, sum(line.earned_today for line in lines))
