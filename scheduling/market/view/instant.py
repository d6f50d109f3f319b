"""The view of the instant lane: one job, and what the published batch plans leave for sale.

It is read after the lane's lock is taken, in the same transaction, so units that it shows as free stay free until that
transaction commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import or_

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
    """Units that a tenant gave up, and their share of the units for sale in the same place."""

    units: FreedUnits
    place: int  # the counter's server
    share: float


@dataclass(frozen=True, eq=False)
class InstantSnapshot:
    """All that one answer is decided from. A booking is entered into `calendar`, which checks it once more and names
    the real servers."""

    frame: PoolFrame
    calendar: Shared
    job: Job
    view: View
    freed: Sequence[FreedShare]
    settled_slot: int  # the last slot that is over
    interval_head: str  # digest of the last interval that was decided by then


def instant_view(row: TrainingJob, *, most: float | None) -> InstantSnapshot:
    """Read what the instant policy may know when it decides about this job, which need not be saved.

    `most` is the credits that its tenant can pay now. Needs the scope of all tenants.
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
    """Read what is for sale from `slot` on, or from the first slot that is not over, without any job. Needs the scope
    of all tenants."""
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
    """Return the view of what is for sale in the booking's slots once it is entered. The booking names the counter's
    servers."""
    view, job = snapshot.view, snapshot.job
    if booking.phase == OWN:  # only the calendar knows whether its cells were for sale
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
    """Return the same market with another job, which may arrive in a later slot; nothing is read again.

    Slots further ahead are shown as they are known now; by then batch plans will reach further.
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
    """Return the job with its limits: its price is at most `most` credits, nothing where it may never rent (G9), and
    its workers are at most what one job may have of the pool."""
    job = JobReader(frame).read_as(row, row.spec, number=row.pk or 0)
    free = 0.0 if (job.rent or frame.cluster.tenants[job.tenant].rent) == "never" else None
    limits = [limit for limit in (job.max_price, most, free) if limit is not None]
    return replace(job, max_price=min(limits, default=None), max_workers=_most_workers(job, frame))


def _most_workers(job: Job, frame: PoolFrame) -> int:
    """Return the most workers of the job: at most what one job may have of the pool, but never fewer than its minimum
    (such a job is refused elsewhere)."""
    most = share_of(job, frame.cluster, frame.pool.instant_share_percent)
    return max(job.min_workers, min(job.max_workers, most))


def share_of(job: Job, cluster: Cluster, percent: int) -> int:
    """Return how many workers one job may have at once: `percent` of those that fit into the empty pool (C11)."""
    fit = max(room(cluster.capacity, worker.demand).sum() for worker in job.worker_types)
    return int(min(fit, job.max_workers * 100.0) * percent // 100)


def _calendar(frame: PoolFrame, rows: InstantRows, asking: int | None = None) -> Shared:
    """Return the calendar of both lanes from the first slot on, in the form of the simulation. `asking` is the id of
    the tenant whose job is decided about."""
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
    """Return (resources, slots, servers): home units before the frontier that tenants gave up after they had paid for
    them. No matter whose cells they are, these units were sold."""
    slots = max(rows.frontier - rows.slot, 0)
    amounts = np.zeros((len(frame.resource_ids), slots, len(frame.server_ids)))
    for units in freed:
        if units.part == Part.HOME and units.slot < rows.frontier:
            place = frame.resource_index[units.resource_id], units.slot - rows.slot, frame.server_index[units.server_id]
            amounts[place] += units.amount - units.sold
    return amounts


def _freed_shares(frame: PoolFrame, stage: Stage, slot: int, freed: Sequence[FreedUnits]) -> tuple[FreedShare, ...]:
    """Return each of the given up units with its share of what is for sale in its place. All units for sale in one part
    of a server are alike: each buyer takes given up units and idle ones in proportion."""
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
    """Return a filter for the awards at home that matter, or None if none does. If any tenant holds cells back, all of
    them matter. Otherwise two kinds do: those of the batch lane, if published windows do not cover all slots before the
    frontier (contributions follow from them); and those of the tenant who asks."""
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
    """Map (lane, tenant's index) to (resources, slots, servers): what the tenant's own jobs hold of its own cells, free
    of charge, by the awards that `which` selects. Of each job only the demand of a unit is read."""
    if which is None:
        return {}
    rows = Award.objects.filter(which, unsettled_from(slot), pool=frame.pool, phase=OWN).order_by("pk")
    awards = [row for row in rows.values_list(*_HELD) if row[1] in frame.tenant_index]  # of cell owners
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
    """Return (resources,): what a unit takes, read from a field of an accepted specification. With several types the
    field is a list; without parameter servers it is an empty list, or missing. The result is cached, because most of
    hundreds of jobs have the same demand."""
    value = None if stored is None else json.loads(stored)
    types = value if isinstance(value, list) else [value]
    demand = (types[index] if types else None) or {}
    amounts: FloatArray = read_only([float(demand.get(name, 0.0)) for name in resources])
    return amounts


def allocation_of(
    frame: PoolFrame, rows: Iterable[Iterable[int]], *, until: int | None = None
) -> tuple[Allocation, ...]:
    """Return stored rows as allocations: the rows name servers by id, the core by index. Nothing is held from slot
    `until` on."""
    pieces = (Allocation(frame.server_index[server_id], *rest) for server_id, *rest in rows)
    if until is None:
        return tuple(pieces)
    return tuple(replace(piece, end=min(piece.end, until)) for piece in pieces if piece.start < until)
