"""Compute the shapes of the chart of servers over time: x in per cent of the span, y in pixels. This is done on the
server, so that the chart is complete without scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from scheduling.cluster import PoolOverview, ServerView
from scheduling.market.pages.gantt_bars import PS, WORKERS, GanttBar, Words, bars_of, word_of
from scheduling.market.pages.gantt_bars import BarSpan as BarSpan
from scheduling.market.reads.bookings import HOME, LENT, OTHER, RENTED, BookedSlots, BookedUnits
from scheduling.market.reads.market import PriceHistory
from scheduling.market.reads.now import MarketNow
from scheduling.models import Pool

HEAD, ROW = 66, 52  # px
_MOST_TICKS = 8
# In per cent of the narrowest chart, 736 pixels: half of the plate at "now"; before it also the width of a time,
# alone and with its day.
_PLATE_AFTER, _PLATE_BEFORE, _PLATE_BEFORE_WITH_DAY = 4.0, 10.5, 17.0
WORDS = {HOME: "mine, at home", RENTED: "mine, rented", LENT: "lent from my share", OTHER: "others"}


@dataclass(frozen=True)
class PriceStrip:
    slot: int
    x: float
    width: float
    price: float | None
    height: float
    now: bool
    has_label: bool  # there is room for the number

    @property
    def top(self) -> float:
        return 45 - self.height


@dataclass(frozen=True)
class GanttTick:
    x: float
    at: datetime
    has_label: bool  # whether its time is written; not where the plate at "now" would cover it


@dataclass(frozen=True)
class GanttRow:
    name: str
    owners: tuple[tuple[str, bool], ...]  # (name, mine); empty if only the operator owns units
    lost: bool
    y: int
    line: float

    @property
    def free(self) -> tuple[tuple[float, float], tuple[float, float]]:
        return (self.y + WORKERS[0], WORKERS[1]), (self.y + PS[0], PS[1])


@dataclass(frozen=True)
class GanttTableRow:
    server: str
    start: int
    end: int
    starts_at: datetime
    ends_at: datetime
    name: str
    job_id: int | None
    relation: str
    workers: int
    ps: int


@dataclass(frozen=True)
class Chart:
    rows: tuple[GanttRow, ...]
    bars: tuple[GanttBar, ...]
    words: tuple[Words, ...]
    prices: tuple[PriceStrip, ...]
    ticks: tuple[GanttTick, ...]
    table: tuple[GanttTableRow, ...]
    first_at: datetime
    last_at: datetime
    now: float  # per cent
    per_second: float  # per cent
    edge: float | None  # per cent; None outside the span
    edge_at: datetime
    height: int
    more_servers: int
    cut: bool

    @property
    def past_height(self) -> int:
        return self.height - HEAD


def chart(
    *,
    pool: Pool,
    now: MarketNow,
    overview: PoolOverview,
    server_ids: Mapping[str, int],
    bookings: BookedSlots,
    history: PriceHistory,
    span: BarSpan,
    tenant_id: int,
    most_servers: int,
) -> Chart:
    servers = _servers(overview, server_ids, bookings, tenant_id, most_servers)
    rows = tuple(_row(server, index, tenant_id) for index, server in enumerate(servers))
    by_server: defaultdict[int, list[BookedUnits]] = defaultdict(list)
    for booking in bookings.rows:
        by_server[booking.server_id].append(booking)
    at = (now.at - pool.epoch_at).total_seconds() / pool.slot_seconds
    bars = [
        (bar, booking)
        for row, server in zip(rows, servers, strict=True)
        for bar, booking in bars_of(server, row.y, by_server[server_ids[server.name]], span, pool)
    ]
    words = [word_of(bar, booking, span, at) for bar, booking in bars]
    names = {number: name for name, number in server_ids.items()}
    table = [booking for booking in bookings.rows if names.get(booking.server_id) in {row.name for row in rows}]
    return Chart(
        rows=rows,
        bars=tuple(bar for bar, _ in bars),
        words=tuple(word for word in words if word is not None),
        prices=tuple(_prices(history, span, now.slot)),
        ticks=tuple(_ticks(pool, span, span.x(at))),
        table=tuple(_table_row(pool, booking, names) for booking in table),
        first_at=pool.slot_start(span.first),
        last_at=pool.slot_start(span.last),
        now=span.x(at),
        per_second=round(100 / (span.last - span.first) / pool.slot_seconds, 6),
        edge=span.x(now.frontier) if span.first < now.frontier < span.last else None,
        edge_at=now.closes_at,
        height=HEAD + ROW * len(rows),
        more_servers=len(overview.servers) - len(rows),
        cut=bookings.cut,
    )


def _servers(
    overview: PoolOverview, ids: Mapping[str, int], bookings: BookedSlots, tenant_id: int, most: int
) -> list[ServerView]:
    """Return at most `most` servers, in the pool's order. Servers with the reader's cells or bookings are preferred."""
    if len(overview.servers) <= most:
        return list(overview.servers)
    mine = {booking.server_id for booking in bookings.rows if booking.relation != OTHER}

    def foreign(server: ServerView) -> bool:
        owned = any(capacity.units_of(tenant_id) for capacity in server.capacities)
        return not owned and ids[server.name] not in mine

    names = {server.name for server in sorted(overview.servers, key=foreign)[:most]}
    return [server for server in overview.servers if server.name in names]


def _row(server: ServerView, index: int, tenant_id: int) -> GanttRow:
    owners = {cell.tenant_id: cell.name for capacity in server.capacities for cell in capacity.cells}
    named = sorted(((name, owner == tenant_id) for owner, name in owners.items()), key=lambda one: (not one[1], one[0]))
    y = HEAD + ROW * index
    return GanttRow(server.name, tuple(named[:2]), server.state == "lost", y, y + 0.5)


def _prices(history: PriceHistory, span: BarSpan, now: int) -> Iterator[PriceStrip]:
    """Yield the prices of the first resource. The number is written only on some slots, so that there is room for
    it, and always on the highest one to come."""
    slots = [one for one in history.slots if span.first <= one.slot < span.last]
    coming = [one for one in slots if one.slot > now and one.prices]
    highest = max((one.prices[0] or 0.0 for one in slots if one.prices), default=0.0)
    every = max(1, -(-(span.last - span.first) // 16))
    peak = max(coming, key=lambda one: one.prices[0] or 0.0, default=None)
    for one in slots:
        price = one.prices[0] if one.prices else None
        part = (price or 0.0) / highest if highest else 0.0
        height = round(25 * part, 1)
        x = span.x(one.slot)
        away = every if peak is None else abs(one.slot - peak.slot)
        has_label = price is not None and (away == 0 or (away >= every and (one.slot - span.first) % every == 0))
        yield PriceStrip(one.slot, x, round(span.x(one.slot + 1) - x, 3), price, height, one.slot == now, has_label)


def _ticks(pool: Pool, span: BarSpan, now: float) -> Iterator[GanttTick]:
    """Yield the ticks of the time axis. `now` is in per cent, like everything that is drawn."""
    every = max(1, -(-(span.last - span.first) // _MOST_TICKS))
    for slot in range(span.first, span.last, every):
        x, at = span.x(slot), pool.slot_start(slot)
        is_today = timezone.localdate(at) == timezone.localdate()
        before = _PLATE_BEFORE if is_today else _PLATE_BEFORE_WITH_DAY
        yield GanttTick(x, at, has_label=not now - before < x < now + _PLATE_AFTER)


def _table_row(pool: Pool, booking: BookedUnits, names: Mapping[int, str]) -> GanttTableRow:
    return GanttTableRow(
        server=names.get(booking.server_id, ""),
        start=booking.start,
        end=booking.end,
        starts_at=pool.slot_start(booking.start),
        ends_at=pool.slot_start(booking.end),
        name=booking.name or "another tenant",
        job_id=booking.job_id,
        relation=WORDS[booking.relation],
        workers=booking.workers,
        ps=booking.ps,
    )
