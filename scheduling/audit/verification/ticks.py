"""Verifying that the prices that the batch lane posted are those of the plan: of its windows, or of an elastic pool's
slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np

from scheduling.audit.verification.findings import Finding
from scheduling.audit.verification.replay import Replayed, name_of
from scheduling.core.policies.elastic import Elastic
from scheduling.models import Interval


class TickPlace(NamedTuple):
    resource: str
    slot: int


Tick = tuple[float | None, float, float]  # price, units for sale, units sold
Ticks = Mapping[TickPlace, Tick]


def ticks_verify(interval: Interval, replayed: Replayed, stored: Ticks) -> list[Finding]:
    """Check that each slot has the prices of the last interval whose window contains it."""
    right = _of_a_slot(replayed) if replayed.elastic else _of_windows(replayed)
    differ = [place for place, tick in right.items() if stored.get(place) != tick]
    if not differ:
        return []
    slots = sorted({place.slot for place in differ})
    later = Interval.objects.filter(pool=interval.pool_id, number__gt=interval.number, window_end__gt=slots[0])
    spans = [(start or 0, end or 0) for start, end in later.values_list("window_start", "window_end")]
    return [
        Finding(name_of(interval), f"the posted price of {place.resource} in slot {place.slot} is {stored.get(place)}")
        for place in differ
        if not any(start <= place.slot < end for start, end in spans)
    ]


def _of_windows(replayed: Replayed) -> dict[TickPlace, Tick]:
    ticks: dict[TickPlace, Tick] = {}
    for window in replayed.plan.windows:
        offered = window.idle.sum(axis=1)
        for resource, name in enumerate(replayed.view.cluster.resources):
            for slot in range(window.start, window.end):
                row = resource, slot - window.start
                ticks[TickPlace(name, slot)] = float(window.prices[row]), float(offered[row]), float(window.rented[row])
    return ticks


def _of_a_slot(replayed: Replayed) -> dict[TickPlace, Tick]:
    view, prices = replayed.view, cast(Elastic, replayed.policy).prices
    there, used = view.cluster.capacity.copy(), np.zeros(len(view.cluster.resources))
    there[:, view.cluster.closed] = 0.0
    offered = there.sum(axis=1)
    for booking in replayed.plan.bookings:
        job = view.jobs[booking.job]
        used += booking.workers * job.worker_types[booking.worker_type].demand
        used += booking.ps * job.ps_types[booking.ps_type].demand
    return {
        TickPlace(name, view.slot): (float(prices[name]), float(offered[index]), float(used[index]))
        for index, name in enumerate(view.cluster.resources)
    }
