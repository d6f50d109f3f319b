"""Verifying the end of a pool's chains: its clocks, the calendar of slots to come, its outages; and that nothing stands
beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from django.db import connection
from django.db.models import Exists, Max, OuterRef

from scheduling.audit.verification.findings import BEFORE_THE_FIRST, Finding, differences
from scheduling.audit.verification.replay import read_or_named
from scheduling.core import records
from scheduling.feed import EventKind
from scheduling.market.calendar import CalendarUnit, UnitReader
from scheduling.market.decide import sold_again
from scheduling.market.reads import REPLAY_ERRORS, contents_of
from scheduling.market.view import pool_frame
from scheduling.models import (
    Award,
    CalendarCell,
    Event,
    FreedUnits,
    InstantAnswer,
    Interval,
    IntervalFairness,
    JobFloor,
    Lane,
    LaneClock,
    Outage,
    Part,
    Pool,
    Pulse,
    Server,
    ServerState,
    TenantFairness,
    TrainingJob,
)

NEARLY = 1e-6  # amounts are sums of decimals, which are added in another order here


def ends_verify(pool_id: int) -> list[Finding]:
    """Run all checks on the end of a pool's chains, as of one moment. Needs the scope of all tenants."""
    pool = Pool.objects.get(pk=pool_id)
    clocks = {clock.lane: clock for clock in LaneClock.objects.filter(pool=pool)}
    batch = clocks.get(Lane.BATCH) or LaneClock(pool=pool, lane=Lane.BATCH)
    checks: Mapping[str, Callable[[], Iterator[Finding]]] = {
        "the clocks": lambda: _clocks_verify(pool, batch, clocks.get(Lane.INSTANT)),
        "the outages": lambda: _outages_verify(pool, batch),
        "the posted prices": lambda: _ticks_verify(pool),
        "the given up units": lambda: _resold_verify(pool),
        "the calendar": lambda: _calendar_verify(pool, batch.settled_slot + 1),
        "the rows beside the chains": lambda: _beside_verify(pool),
    }
    return [finding for what, check in checks.items() for finding in read_or_named(f"{what} of pool {pool_id}", check)]


def _clocks_verify(pool: Pool, batch: LaneClock, instant: LaneClock | None) -> Iterator[Finding]:
    """Check that no lane's clock is ahead of its decisions, or behind them."""
    where = f"the batch lane's clock of pool {pool.pk}"
    last = Interval.objects.filter(pool=pool).order_by("-number").first()
    pulse = Pulse.objects.filter(pool=pool).first()
    if pulse is not None:  # a boundary is settled, then decided, in two transactions, and not before its time
        if not batch.decided_slot - 1 <= batch.settled_slot <= batch.decided_slot:
            slots = f"settled up to slot {batch.settled_slot} and decided up to slot {batch.decided_slot}"
            yield Finding(where, f"it is {slots}, which are not next to each other")
        if batch.decided_slot > pool.slot_at(pulse.alive_at):
            yield Finding(where, f"slot {batch.decided_slot} is decided, and had not begun at its last tick")
    if last is not None and batch.decided_slot < last.slot:
        yield Finding(where, f"it stands at slot {batch.decided_slot}, and interval {last.number} is of {last.slot}")
    paid = (
        Event.objects.filter(pool=pool, kind=EventKind.SLOT_SETTLED)
        .order_by("-pk")
        .values_list("data", flat=True)
        .first()
    )
    if paid is not None and batch.settled_slot < paid["slot"]:
        yield Finding(where, f"slot {paid['slot']} is paid for, and it says {batch.settled_slot}")
    least, most = _frontier(pool, batch, last)
    if not least <= batch.frontier <= most:
        yield Finding(where, f"its frontier is {batch.frontier}, and should be between {least} and {most}")
    if instant is not None:
        where = f"the instant lane's clock of pool {pool.pk}"
        yield from differences(
            where,
            {
                "its settled slot": (instant.settled_slot, -1),
                "its frontier": (instant.frontier, 0),
                "its memory": (instant.memory, {}),
            },
        )
        if instant.decided_slot > batch.decided_slot:
            yield Finding(where, f"its prices are posted from slot {instant.decided_slot} on, which is not decided")


def _frontier(pool: Pool, batch: LaneClock, last: Interval | None) -> tuple[int, int]:
    """Return the least and the most that the frontier can be: what the last plan promised, and the end of the interval
    that is open since, which is no longer than the pool's longest."""
    open_until = max(batch.decided_slot + 1 + pool.clock_cap, 0)
    if last is None:
        return 0, open_until
    try:
        promised = records.plan_from(contents_of(last).plan).frontier
    except REPLAY_ERRORS:
        promised = None
    least = last.slot + 1 if promised is None else promised
    windows = Interval.objects.filter(pool=pool).aggregate(end=Max("window_end"))["end"] or 0
    return least, max(least, windows, open_until)


def _calendar_verify(pool: Pool, first: int) -> Iterator[Finding]:
    """Check that in slots to come each lane holds what its awards hold. No decision reads slots that are over any
    more."""
    awards = list(Award.objects.filter(pool=pool, end__gt=first).order_by("pk"))
    jobs, reader = TrainingJob.objects.in_bulk({award.job_id for award in awards}), UnitReader(pool)
    right: defaultdict[CalendarUnit, dict[str, float]] = defaultdict(lambda: {"batch": 0.0, "instant": 0.0})
    for award in awards:
        if award.job_id in jobs:  # the feed's check names a job that is gone
            for unit, amount in reader.units_of(award, jobs[award.job_id], since=first).items():
                right[unit][award.lane] += amount
    frame, lost = pool_frame(pool), set(Server.objects.filter(pool=pool, state=ServerState.LOST).values_list("pk"))
    capacities = {Part.HOME.value: frame.batch_cluster.capacity, Part.OPERATOR.value: frame.cluster.operator_cells}
    nothing = {"batch": 0.0, "instant": 0.0}
    cells = CalendarCell.objects.filter(pool=pool, slot__gte=first)
    for *place, stored_capacity, batch, instant in cells.values_list(*CalendarUnit._fields, "capacity", *nothing):
        unit = CalendarUnit(*place)
        where = f"the calendar of pool {pool.pk}, {unit.part} part of server {unit.server_id} in slot {unit.slot}"
        held = right.pop(unit, nothing)
        for lane, stored in (("batch", batch), ("instant", instant)):
            if abs(stored - held[lane]) > NEARLY:
                yield Finding(where, f"{lane} is {stored:g}, and its awards hold {held[lane]:g}")
        if (batch or instant) and (unit.server_id,) not in lost:
            index = frame.resource_index[unit.resource_id], frame.server_index[unit.server_id]
            yield from differences(where, {"its capacity": (stored_capacity, float(capacities[unit.part][index]))})
    for unit, held in right.items():
        where = f"the calendar of pool {pool.pk}, {unit.part} part of server {unit.server_id} in slot {unit.slot}"
        if max(held.values()) > NEARLY:
            yield Finding(where, f"it has no row, and awards hold {max(held.values()):g}")


def _outages_verify(pool: Pool, batch: LaneClock) -> Iterator[Finding]:
    """Check that each outage that the clock has passed has one event, with its slots and times."""
    events_by_subject = defaultdict(list)
    for data in (
        Event.objects.filter(pool=pool, kind=EventKind.MARKET_STOPPED).order_by("pk").values_list("data", flat=True)
    ):
        events_by_subject[data.get("end")].append(data)
    for outage in Outage.objects.filter(pool=pool, end__lte=batch.decided_slot + 1).order_by("start"):
        events = events_by_subject.pop(outage.end, [])
        if len(events) != 1:
            yield Finding(str(outage), f"{len(events)} events tell of it")
            continue
        pairs: dict[str, tuple[object, object]] = {"start": (outage.start, events[0].get("start"))}
        for name, moment in (("silent_since", outage.alive_at), ("noticed_at", outage.noticed_at)):
            if name in events[0]:
                pairs[name] = moment, datetime.fromisoformat(events[0][name])
        yield from differences(str(outage), pairs)
    for end in events_by_subject:
        yield Finding(f"pool {pool.pk}", f"the outage up to slot {end} is gone")


_NOBODYS = """
SELECT tick.slot, kind.name
  FROM scheduling_pricetick tick JOIN scheduling_resourcekind kind ON kind.id = tick.resource_id
 WHERE tick.pool_id = %(pool)s AND tick.lane = %(lane)s
   AND CASE WHEN %(elastic)s
            THEN NOT EXISTS (SELECT FROM scheduling_interval WHERE pool_id = %(pool)s AND slot = tick.slot)
            ELSE tick.slot < ALL (SELECT window_start FROM scheduling_interval
                                   WHERE pool_id = %(pool)s AND window_end > tick.slot
                                   ORDER BY window_end LIMIT 1)
             OR NOT EXISTS (SELECT FROM scheduling_interval WHERE pool_id = %(pool)s AND window_end > tick.slot) END
 ORDER BY 1, 2 LIMIT 20
"""


def _ticks_verify(pool: Pool) -> Iterator[Finding]:
    """Check that the batch lane posted prices of slots that it decided about, and of no others."""
    with connection.cursor() as cursor:
        cursor.execute(_NOBODYS, {"pool": pool.pk, "lane": Lane.BATCH.value, "elastic": pool.is_elastic})
        for slot, resource in cursor.fetchall():
            yield Finding(f"pool {pool.pk}", f"no interval posted the price of {resource} in slot {slot}")


def _resold_verify(pool: Pool) -> Iterator[Finding]:
    """Check that the given up units that answers sold again exist. How much of them was sold is checked with the job
    that gave them up."""
    sold = {number for number, amount in sold_again(pool.pk).items() if amount.now > NEARLY}
    absent = sold - set(FreedUnits.objects.filter(pk__in=sold).values_list("pk", flat=True))
    for freed in sorted(absent):
        yield Finding(f"pool {pool.pk}", f"given up units ({freed}) that an answer sold again are gone")
    of_nobody = FreedUnits.objects.filter(pool=pool).exclude(award__in=Award.objects.filter(pool=pool))
    for freed in of_nobody.order_by("pk").values_list("pk", flat=True):
        yield Finding(f"pool {pool.pk}", f"given up units ({freed}) are of no award of its own")


def _beside_verify(pool: Pool) -> Iterator[Finding]:
    """Check that there is no row by which no walk comes: walks begin with number 1, and from an interval they come to
    what it left."""
    where = f"pool {pool.pk}"
    for name, links in (("interval", Interval.objects), ("answer", InstantAnswer.objects)):
        for number in links.filter(pool=pool, number__lt=1).order_by("number").values_list("number", flat=True):
            yield Finding(f"{name} {number} of {where}", BEFORE_THE_FIRST)
    for name, rows in (("award", Award.objects), ("job", TrainingJob.objects)):
        for number in rows.filter(pool=pool, pk__lt=1).order_by("pk").values_list("pk", flat=True):
            yield Finding(f"{name} {number} of {where}", BEFORE_THE_FIRST)
    of_none = ~Exists(Interval.objects.filter(pool=pool, pk=OuterRef("interval_id")))
    awards = Award.objects.filter(of_none, pool=pool, lane=Lane.BATCH).order_by("pk")
    for number, job in awards.values_list("pk", "job_id"):
        yield Finding(where, f"award {number} of job {job} has no interval")
    for number in IntervalFairness.objects.filter(of_none, pool=pool).order_by("pk").values_list("pk", flat=True):
        yield Finding(where, f"fairness {number} has no interval")
    of_no_whole = ~Exists(IntervalFairness.objects.filter(pool=pool, pk=OuterRef("fairness_id")))
    parts = TenantFairness.objects.filter(of_no_whole, pool=pool).order_by("pk")
    for number in parts.values_list("pk", flat=True):
        yield Finding(where, f"fairness {number} of a tenant belongs to no interval")
    of_no_pool = ~Exists(Interval.objects.filter(pk=OuterRef("interval_id")))
    floors = JobFloor.objects.filter(of_no_pool, job__pool=pool).order_by("pk")
    for number, job in floors.values_list("pk", "job_id"):
        yield Finding(where, f"floor {number} of job {job} has no interval")
