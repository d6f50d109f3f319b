"""Gangs that stay where they are: an unbroken job of an elastic pool has one gang on the same servers, slot after slot.

The policy of the pool deals every slot anew. A program that cannot go on elsewhere from what it saved would begin again
with each change, so its gang is dealt once: in the next slots its units are occupied before the policy is asked, and
the policy decides about the others. A gang ends where one of its servers hosts nothing any more, where its room is
gone, or where its slot cannot be paid; then its job waits like any other, and begins again with the next gang.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.gangs import GangUnits
from scheduling.core.occupancy import ROUNDING
from scheduling.core.placement import Cursors, Placement
from scheduling.core.policies.elastic.prices import units_of
from scheduling.core.slot_bookings import slot_booking
from scheduling.core.types import Booking, FloatArray, View

UNBROKEN = "unbroken"  # in the memory: {"slot", "gangs": {job: [worker type, ps type, [[server, workers, ps], ...]]}}


def stays_of(view: View) -> dict[int, Booking]:
    """Return by job, in order of arrival, the coming slot of each gang that ran in the slot before and stays."""
    before = view.memory.get(UNBROKEN, {})
    if before.get("slot") != view.slot - 1:
        return {}
    servers = {name: index for index, name in enumerate(view.cluster.servers)}
    free = view.cluster.capacity - _used(view) + ROUNDING
    stays = {}
    for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
        gang = before["gangs"].get(str(job.number))
        if gang is None or not job.unbroken:
            continue
        placement = _placement(gang, servers)
        if placement is None or not _hosted(placement, view):
            continue
        booking = slot_booking(job, remaining, placement, view)
        units = units_of(booking, job, *free.shape)
        if (units <= free).all():
            free = free - units
            stays[job.number] = booking
    return stays


def without_stays(view: View, stays: Collection[Booking]) -> View:
    """Return the view for the pool's own policy: these gangs are occupied, and their jobs do not wait. Its memory is
    the policy's own."""
    if UNBROKEN in view.memory:
        view = replace(view, memory=_own(view.memory))
    if not stays:
        return view
    staying = {booking.job for booking in stays}
    used = _used(view)
    for booking in stays:
        used = used + units_of(booking, view.jobs[booking.job], *used.shape)
    places = [index for index, job in enumerate(view.waiting) if job.number not in staying]
    return replace(
        view,
        waiting=tuple(view.waiting[index] for index in places),
        remaining=view.remaining[places],
        occupied=np.concatenate([used[:, None], view.occupied[:, 1:]], axis=1),
    )


def remembered(view: View, bookings: Iterable[Booking], memory: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the memory of the whole plan: what the pool's own policy remembers, and the gangs of unbroken jobs in this
    slot. None keeps the memory as it was."""
    names = view.cluster.servers
    gangs = {
        str(booking.job): [
            booking.worker_type,
            booking.ps_type,
            [[names[row.server], row.workers, row.ps] for row in booking.allocation],
        ]
        for booking in bookings
        if view.jobs[booking.job].unbroken
    }
    if not gangs and UNBROKEN not in view.memory:
        return memory
    own = _own(view.memory if memory is None else memory)
    return own | {UNBROKEN: {"slot": view.slot, "gangs": gangs}} if gangs else own


def _own(memory: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in memory.items() if name != UNBROKEN}


def _used(view: View) -> FloatArray:
    """Return (resources, servers): what others use in the coming slot."""
    used: FloatArray = view.occupied[:, :1].max(axis=1, initial=0.0)
    return used


def _placement(gang: Any, servers: Mapping[str, int]) -> Placement | None:
    """Return where a remembered gang was; None if one of its servers is not there any more."""
    worker_type, ps_type, rows = gang
    if any(name not in servers for name, *_ in rows):
        return None
    workers = [servers[name] for name, count, _ in rows for _ in range(count)]
    ps = [servers[name] for name, _, count in rows for _ in range(count)]
    return Placement(GangUnits(len(workers), len(ps), worker_type, ps_type), workers, ps, Cursors())


def _hosted(placement: Placement, view: View) -> bool:
    hosts_workers, hosts_ps = view.cluster.hosts_workers, view.cluster.hosts_ps
    return bool(hosts_workers[placement.workers].all() and hosts_ps[placement.ps].all())
