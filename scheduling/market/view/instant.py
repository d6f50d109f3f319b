"""The view of the instant lane: one job, and what the published batch plans leave for sale.

Read after the lane's lock is taken, in the same transaction: what it says is free stays free until that commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import or_
from typing import Any

import numpy as np
from django.db.models import F, Q, TextField
from django.db.models.functions import Cast

from scheduling.core.calendar import Shared, Stage
from scheduling.core.occupancy import ROUNDING, room
from scheduling.core.types import INSTANT, OWN, Allocation, Booking, Cluster, FloatArray, Job, Resale, View, read_only
from scheduling.market.view.frame import PoolFrame, frame_of
from scheduling.market.view.instant_rows import InstantRows, instant_rows
from scheduling.market.view.jobs import JobReader
from scheduling.market.view.windows import windows_of
from scheduling.models import Award, FreedUnits, Lane, Part, Pool, TrainingJob, unsettled_from

SLOTS_AHEAD = 1024  # nothing is sold further ahead than this


@dataclass(frozen=True, eq=False)
class FreedShare:
    """Units that somebody gave up, and what part of the units for sale in their place they are."""

    units: FreedUnits
    place: int  # the counter's server
    share: float


@dataclass(frozen=True, eq=False)
class InstantSnapshot:
    """`calendar` is where an answer is entered, which checks it once more and names real servers."""

    frame: PoolFrame
    calendar: Shared
    job: Job
    view: View
    freed: Sequence[FreedShare]
    settled_slot: int  # the last slot that is over
    interval_head: str  # digest of the last interval that was decided by then


def instant_view(row: TrainingJob, *, most: float | None) -> InstantSnapshot:
    """What the instant policy may know about this job, saved or not.

    `most`: credits that its tenant can pay now. Needs the scope of all tenants.
    """
    rows = instant_rows(row.pool, int(-(-row.arrival // 1)))
    freed = _freed(row.pool, rows.slot) if rows.any_freed else []
    frame = frame_of(row.pool, rows.text, also=[row.tenant_id, *(units.tenant_id for units in freed)])
    job = _job(frame, row, most)
    calendar = _calendar(frame, rows, asking=row.tenant_id)
    stage = calendar.stage(INSTANT, rows.slot)
    shares = _freed_shares(frame, stage, rows.slot, freed)
    given_up = _given_up(frame, rows, [units for units in freed if units.tenant_id != row.tenant_id])
    view = View(
        slot=rows.slot,
        horizon=rows.slot + SLOTS_AHEAD,
        cluster=stage.cluster,
        waiting=(job,),
        remaining=np.array([float(job.work)]),
        occupied=stage.occupied,
        jobs={job.number: job},
        windows=stage.windows,
        tail=stage.tail,
        resale=tuple(_resale(frame, item) for item in shares),
        own_idle=calendar.own_idle(job.tenant, rows.slot, given_up),
    )
    return InstantSnapshot(frame, calendar, job, view, shares, rows.settled_slot, rows.head)


def counter_view(pool: Pool, *, slot: int) -> tuple[PoolFrame, View]:
    """What is for sale from `slot` on, or the first that is not over, and nobody who asks. Needs the scope of all
    tenants."""
    rows = instant_rows(pool, slot)
    frame = frame_of(pool, rows.text)
    stage = _calendar(frame, rows).stage(INSTANT, rows.slot)
    view = View(
        slot=rows.slot,
        horizon=rows.slot + SLOTS_AHEAD,
        cluster=stage.cluster,
        waiting=(),
        remaining=np.zeros(0),
        occupied=stage.occupied,
        windows=stage.windows,
        tail=stage.tail,
    )
    return frame, view


def after_booking(snapshot: InstantSnapshot, booking: Booking) -> View:
    """What is for sale in the booking's slots once it is entered; it names the counter's servers."""
    view, job = snapshot.view, snapshot.job
    if booking.phase == OWN:  # whether its cells were for sale is for the calendar to say
        stage = snapshot.calendar.for_sale(booking.start, booking.end)
        return replace(view, slot=booking.start, occupied=stage.occupied, windows=stage.windows, resale=())
    start, end = booking.start - view.slot, booking.end - view.slot
    tail = np.zeros(view.cluster.capacity.shape) if view.tail is None else view.tail
    reach = min(max(view.occupied.shape[1], start), end)
    beyond = np.repeat(tail[:, None, :], end - reach, axis=1)
    occupied = np.concatenate([view.occupied[:, start:reach], beyond], axis=1)
    worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
    for row in booking.allocation:
        slots = slice(row.start - booking.start, row.end - booking.start)
        occupied[:, slots, row.server] += (row.workers * worker + row.ps * ps)[:, None]
    return replace(
        view,
        slot=booking.start,
        occupied=occupied,
        windows=tuple(window for window in view.windows if window.start < booking.end and window.end > booking.start),
        resale=(),
    )


def asked_again(snapshot: InstantSnapshot, row: TrainingJob, *, most: float | None) -> InstantSnapshot:
    """The same market asked about another job, which may arrive in a later slot; nothing is read again.

    Of slots that are further ahead it says what is known now: batch plans will reach further by then.
    """
    job = _job(snapshot.frame, row, most)
    view, slot = snapshot.view, max(snapshot.view.slot, job.first_slot)
    later = replace(
        view,
        slot=slot,
        horizon=slot + SLOTS_AHEAD,
        waiting=(job,),
        remaining=np.array([float(job.work)]),
        occupied=view.occupied[:, slot - view.slot :],
        jobs={job.number: job},
        windows=tuple(window for window in view.windows if window.end > slot),
        resale=tuple(resale for resale in view.resale if resale.slot >= slot),
        own_idle=None if view.own_idle is None else view.own_idle[:, slot - view.slot :],
    )
    return replace(snapshot, job=job, view=later)


def _job(frame: PoolFrame, row: TrainingJob, most: float | None) -> Job:
    """The job with what bounds it: `most` credits, and what fits into the pool."""
    whose: dict[str, Any] = {"number": row.pk or 0, "tenant_id": row.tenant_id, "arrival": row.arrival}
    job = JobReader(frame).read_spec(row.spec, **whose, lane=INSTANT)
    limits = [limit for limit in (job.max_price, most) if limit is not None]
    return replace(job, max_price=min(limits, default=None), max_workers=_most_workers(job, frame))


def _most_workers(job: Job, frame: PoolFrame) -> int:
    """No more than one job may have of the pool, though never fewer than the job must have (that is refused)."""
    most = share_of(job, frame.cluster, frame.pool.instant_share_percent)
    return max(job.min_workers, min(job.max_workers, most))


def share_of(job: Job, cluster: Cluster, percent: int) -> int:
    """Workers that one job may have at once: a part of those that fit into the whole pool when it is empty (C11)."""
    fit = max(room(cluster.capacity, worker.demand).sum() for worker in job.worker_types)
    return int(min(fit, job.max_workers * 100.0) * percent // 100)


def _calendar(frame: PoolFrame, rows: InstantRows, asking: int | None = None) -> Shared:
    """Both lanes' calendar from the first slot on, as the simulation keeps it. `asking`: the tenant who asks, by id."""
    slot, held = rows.slot, rows.held
    calendar = Shared(frame.shape.parts, origin=slot)
    calendar.frontier = rows.frontier
    calendar.windows = list(windows_of(frame, slot, rows.windows))
    calendar.home_all.fill(held[Part.HOME])
    calendar.operator_instant.fill(held[Part.OPERATOR])
    for (lane, tenant), amounts in _own_use(frame, slot, _whose_use(frame, calendar, slot, asking)).items():
        calendar.own_use(tenant, lane).fill(amounts)
    return calendar


def _freed(pool: Pool, slot: int) -> list[FreedUnits]:
    return list(FreedUnits.objects.filter(pool=pool, slot__gte=slot, amount__gt=F("sold")).order_by("pk"))


def _given_up(frame: PoolFrame, rows: InstantRows, freed: Iterable[FreedUnits]) -> FloatArray:
    """(resources, slots, servers) home units before the frontier that somebody gave up who has paid for them: whose
    cells they are, they were sold."""
    slots = max(rows.frontier - rows.slot, 0)
    amounts = np.zeros((len(frame.resource_ids), slots, len(frame.server_ids)))
    for units in freed:
        if units.part == Part.HOME and units.slot < rows.frontier:
            place = frame.resource_index[units.resource_id], units.slot - rows.slot, frame.server_index[units.server_id]
            amounts[place] += units.amount - units.sold
    return amounts


def _freed_shares(frame: PoolFrame, stage: Stage, slot: int, freed: Sequence[FreedUnits]) -> tuple[FreedShare, ...]:
    """All units for sale of one part of a server are alike: each buyer takes given up ones and idle ones in
    proportion."""
    if not freed:
        return ()
    free = stage.cluster.capacity[:, None, :] - stage.occupied
    rest = stage.cluster.capacity - (0.0 if stage.tail is None else stage.tail)
    shares = []
    for units in freed:
        resource, server = frame.resource_index[units.resource_id], frame.server_index[units.server_id]
        place = server if units.part == Part.OPERATOR else server + len(frame.server_ids)  # see the calendar's counter
        row = units.slot - slot
        for_sale = float(free[resource, row, place] if row < free.shape[1] else rest[resource, place])
        if for_sale > ROUNDING:
            shares.append(FreedShare(units, place, min((units.amount - units.sold) / for_sale, 1.0)))
    return tuple(shares)


def _resale(frame: PoolFrame, freed: FreedShare) -> Resale:
    units = freed.units
    resource, owner = frame.resource_index[units.resource_id], frame.tenant_index[units.tenant_id]
    return Resale(freed.place, resource, units.slot, owner, freed.share)


def _whose_use(frame: PoolFrame, calendar: Shared, slot: int, asking: int | None) -> Q | None:
    """Which awards at home matter; None: none does. Where cells are held back, all. Else in slots that no published
    window covers, those of the batch lane, from which contributions follow; and those of the tenant who asks."""
    if any(tenant.lend != "lend" or tenant.reserve_price.any() for tenant in calendar.cluster.tenants):
        return Q()
    matters = []
    covered = sum(window.end - max(window.start, slot) for window in calendar.windows)
    if covered < calendar.frontier - slot:
        matters.append(Q(lane=Lane.BATCH))
    if calendar.frontier > slot and asking is not None and frame.cells[:, frame.tenant_index[asking]].any():
        matters.append(Q(tenant=asking))
    return reduce(or_, matters) if matters else None


def _own_use(frame: PoolFrame, slot: int, which: Q | None) -> dict[tuple[str, int], FloatArray]:
    """(lane, tenant's index) -> (resources, slots, servers) what its own jobs hold of its own cells, free of charge, by
    `which` awards. Of a job no more is read than what a unit takes."""
    if which is None:
        return {}
    rows = Award.objects.filter(which, unsettled_from(slot), pool=frame.pool, phase=OWN).order_by("pk")
    awards = [row for row in rows.values_list(*_HELD) if row[1] in frame.tenant_index]  # whoever has cells
    slots = max((end for _, _, end, *_ in awards), default=slot) - slot
    used: dict[tuple[str, int], FloatArray] = {}
    for lane, tenant_id, _, cut_at, worker_type, ps_type, allocation, worker, ps in awards:
        key = lane, frame.tenant_index[tenant_id]
        if key not in used:
            used[key] = np.zeros((len(frame.resource_ids), slots, len(frame.server_ids)))
        names = frame.cluster.resources
        by_worker, by_ps = _demand(names, worker, worker_type), _demand(names, ps, ps_type)
        for piece in allocation_of(frame, json.loads(allocation), until=cut_at):
            span = slice(max(piece.start - slot, 0), max(piece.end - slot, 0))
            used[key][:, span, piece.server] += (piece.workers * by_worker + piece.ps * by_ps)[:, None]
    for amounts in used.values():
        amounts[..., list(frame.lost)] = 0.0
    return used


_HELD = (
    "lane", "tenant_id", "end", "cut_at", "worker_type", "ps_type", Cast("allocation", TextField()),
    Cast("job__spec__worker_demand", TextField()), Cast("job__spec__ps_demand", TextField()),
)  # fmt: skip


@lru_cache(maxsize=1024)
def _demand(resources: tuple[str, ...], stored: str | None, index: int) -> FloatArray:
    """(resources,) what a unit takes, from the words of a specification that was accepted: one that knows several types
    has a list, and one without parameter servers an empty one, or nothing. Most of hundreds of jobs say the same."""
    value = None if stored is None else json.loads(stored)
    types = value if isinstance(value, list) else [value]
    demand = (types[index] if types else None) or {}
    amounts: FloatArray = read_only([float(demand.get(name, 0.0)) for name in resources])
    return amounts


def allocation_of(
    frame: PoolFrame, rows: Iterable[Iterable[int]], *, until: int | None = None
) -> tuple[Allocation, ...]:
    """Stored rows name servers by id, the core by index. Nothing is held from slot `until` on."""
    pieces = (Allocation(frame.server_index[server_id], *rest) for server_id, *rest in rows)
    if until is None:
        return tuple(pieces)
    return tuple(replace(piece, end=min(piece.end, until)) for piece in pieces if piece.start < until)
