"""Publish the instant lane's posted prices: at the start of each slot for the slots ahead, and when units are sold.

A price is that of one more unit. It is None where the policy sells no unit in that slot, because the slot is full or
not yet for sale.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import numpy as np
from django.db import transaction
from django.db.models import Sum

from scheduling.core import policies
from scheduling.core.types import Booking, FloatArray, PostsPrices, View
from scheduling.feed import EventKind, event, events_append
from scheduling.market.calendar.lanes import clocks_of, lane_lock
from scheduling.market.calendar.rows import ticks_write
from scheduling.market.calendar.units import CalendarUnit
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.instant import InstantSnapshot, after_booking, counter_view
from scheduling.models import CalendarCell, Event, Lane, LaneClock, Pool, PriceTick
from tenants.common.repeated import RepeatedRead, Whose
from tenants.scoping import scope_disabled

Ticks = dict[tuple[int, int], tuple[float | None, float, float]]  # (resource, slot) -> price, offered, sold


def prices_refresh(*, pool: Pool) -> bool:
    """Post the prices of the slots ahead, once at the start of each slot; batch decisions may have changed them too.
    Return whether this was done.

    The instant lane's clock says up to which slot it is done, so that a tick after a crash finds what is missing.
    """
    if pool.instant_policy is None or not pool.posted_slots or not _is_due(pool):
        return False
    with transaction.atomic(), scope_disabled("what is for sale is everybody's"):
        clock = lane_lock(pool_id=pool.pk, lane=Lane.INSTANT)
        batch = LaneClock.objects.get(pool=pool, lane=Lane.BATCH)
        if clock is None or clock.decided_slot >= batch.decided_slot:
            return False
        slot = batch.decided_slot
        frame, view = counter_view(pool, slot=slot)
        if (prices := _prices(frame, view, pool.posted_slots)) is not None:
            events_append(_posted(frame, view.slot, _ticks_now(frame, view, prices), at=pool.slot_start(slot)))
        LaneClock.objects.filter(pk=clock.pk).update(decided_slot=slot)
    return True


def prices_after(
    snapshot: InstantSnapshot, booking: Booking, units: Mapping[CalendarUnit, float], at: datetime
) -> list[Event]:
    """Update the posted prices in the slots of a sale. Return the event about it, if any price changed."""
    frame, end = snapshot.frame, min(booking.end, snapshot.view.slot + snapshot.frame.pool.posted_slots)
    stored = _stored(frame, booking.start, end)
    prices = _prices(frame, after_booking(snapshot, booking), end - booking.start) if stored else None
    if prices is None:
        return []
    sold: dict[tuple[int, int], float] = {}
    for unit, amount in units.items():
        place = unit.resource_id, unit.slot
        sold[place] = sold.get(place, 0.0) + amount
    ticks: Ticks = {}
    for (resource_id, slot), (_, offered, before) in stored.items():
        price = prices[frame.resource_index[resource_id], slot - booking.start]
        ticks[resource_id, slot] = _or_none(price), offered, before + sold.get((resource_id, slot), 0.0)
    return _posted(frame, booking.start, ticks, at=at, stored=stored)


def _is_due(pool: Pool) -> bool:
    decided = {lane: clock.decided_slot for lane, clock in clocks_of(pool).items()}
    return decided.get(Lane.BATCH, -1) > decided.get(Lane.INSTANT, -1)


def _prices(frame: PoolFrame, view: View, slots: int) -> FloatArray | None:
    """Return (resources, slots): the price of one more unit; None if the lane's policy posts no prices."""
    policy = policies.build(frame.pool.instant_policy or {}, frame.cluster, ())
    return policy.posted(view, slots) if isinstance(policy, PostsPrices) and slots > 0 else None


def _ticks_now(frame: PoolFrame, view: View, prices: FloatArray) -> Ticks:
    """Return the prices with the units offered in each slot (those that are free, and those that the instant lane has
    sold), and the units sold."""
    slots = prices.shape[1]
    free = np.repeat((view.cluster.capacity - (0.0 if view.tail is None else view.tail))[:, None, :], slots, axis=1)
    ahead = min(slots, view.occupied.shape[1])
    free[:, :ahead] = view.cluster.capacity[:, None, :] - view.occupied[:, :ahead]
    free[..., view.cluster.closed] = 0.0
    rows = CalendarCell.objects.filter(pool=frame.pool, slot__gte=view.slot, slot__lt=view.slot + slots, instant__gt=0)
    by_place = rows.order_by().values("resource", "slot").annotate(sold=Sum("instant"))
    sold = {(row["resource"], row["slot"]): float(row["sold"]) for row in by_place}
    ticks: Ticks = {}
    for resource, resource_id in enumerate(frame.resource_ids):
        for offset in range(slots):
            place = resource_id, view.slot + offset
            amount = sold.get(place, 0.0)
            offered = float(free[resource, offset].sum()) + amount
            ticks[place] = _or_none(prices[resource, offset]), offered, amount
    return ticks


def _posted(frame: PoolFrame, first: int, ticks: Ticks, *, at: datetime, stored: Ticks | None = None) -> list[Event]:
    """Write the prices that differ from those posted, and return the event about them. A slot that is posted for the
    first time with the prices of the slot before it has no event, since nobody expects otherwise."""
    last = max(slot for _, slot in ticks)
    if stored is None:
        stored = _stored(frame, first, last + 1)
    changed = {place: tick for place, tick in ticks.items() if stored.get(place) != tick}
    ticks_write(frame.pool, Lane.INSTANT, changed)
    newest = max((slot for _, slot in stored), default=first)
    moved = []
    for (resource_id, slot), (price, _, _) in changed.items():
        before = stored.get((resource_id, slot), stored.get((resource_id, newest)))
        if before is None or before[0] != price:
            moved.append(slot)
    if not moved:
        return []
    data = {"lane": Lane.INSTANT.value, "start": min(moved), "end": max(moved) + 1}
    return [event(EventKind.PRICES_POSTED, pool_id=frame.pool.pk, subject=f"slot:{min(moved)}", at=at, data=data)]


def _stored(frame: PoolFrame, start: int, end: int) -> Ticks:
    rows = _ticks(pool_id=frame.pool.pk, start=start, end=end)
    return {(row.resource_id, row.slot): (row.price, row.offered, row.sold) for row in rows}


_ticks = RepeatedRead(
    lambda pool_id, start, end: PriceTick.objects.filter(
        pool=pool_id, lane=Lane.INSTANT, slot__gte=start, slot__lt=end
    ).order_by(),
    of=Whose.NONE,
    pool_id=-1,
    start=-2,
    end=-3,
)


def _or_none(price: float) -> float | None:
    return None if np.isnan(price) else float(price)
