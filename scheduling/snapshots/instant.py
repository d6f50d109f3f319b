"""The view of the instant lane: one job, and what the published batch plans leave for sale.

Read after the lane's lock is taken, in the same transaction: what it says is free stays free until that commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from django.db import connection

from scheduling.core.calendar import Shared
from scheduling.core.types import INSTANT, OWN, Allocation, FloatArray, Job, View
from scheduling.models import Award, AwardState, Part, TrainingJob
from scheduling.snapshots.frame import PoolFrame, pool_frame
from scheduling.snapshots.jobs import JobReader
from scheduling.snapshots.windows import published_windows

SLOTS_AHEAD = 1024  # nothing is sold further ahead than this


@dataclass(frozen=True, eq=False)
class InstantSnapshot:
    """`calendar` is where an answer is entered, which checks it once more and names real servers."""

    frame: PoolFrame
    calendar: Shared
    job: Job
    view: View


def instant_view(row: TrainingJob, *, slot: int, frontier: int, most: float | None) -> InstantSnapshot:
    """What the instant policy may know about this job, saved or not, which may start in `slot` at the earliest.

    `most`: credits that its tenant can pay now. Needs the scope of all tenants.
    """
    frame = pool_frame(row.pool, also=[row.tenant_id])
    reader = JobReader(frame)
    job = reader.read_spec(row.spec, number=row.pk or 0, tenant_id=row.tenant_id, arrival=row.arrival, lane=INSTANT)
    limits = [limit for limit in (job.max_price, most) if limit is not None]
    job = replace(job, max_price=min(limits, default=None))
    calendar = _calendar(frame, reader, slot, frontier)
    stage = calendar.stage(INSTANT, slot)
    view = View(
        slot=slot,
        horizon=slot + SLOTS_AHEAD,
        cluster=stage.cluster,
        waiting=(job,),
        remaining=np.array([float(job.work)]),
        occupied=stage.occupied,
        jobs={job.number: job},
        windows=stage.windows,
        tail=stage.tail,
    )
    return InstantSnapshot(frame, calendar, job, view)


def _calendar(frame: PoolFrame, reader: JobReader, slot: int, frontier: int) -> Shared:
    """Both lanes' calendar from `slot` on, as the simulation keeps it."""
    calendar = Shared(frame.cluster, origin=slot)
    calendar.frontier = frontier
    calendar.windows = list(published_windows(frame, slot))
    calendar.home_all.fill(_held(frame, slot, Part.HOME))
    calendar.operator_instant.fill(_held(frame, slot, Part.OPERATOR))
    if _own_use_matters(calendar, slot):
        for tenant, amounts in _own_use(frame, reader, slot).items():
            calendar.own_use[tenant].fill(amounts)
    return calendar


def _held(frame: PoolFrame, slot: int, part: Part) -> FloatArray:
    """(resources, slots, servers) what both lanes hold of one part of each server from `slot` on."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT resource_id, slot, server_id, batch + instant FROM scheduling_calendarcell"
            " WHERE pool_id = %s AND slot >= %s AND part = %s AND (batch > 0 OR instant > 0)",
            [frame.pool.pk, slot, part.value],
        )
        rows = cursor.fetchall()
    slots = max((row[1] for row in rows), default=slot - 1) + 1 - slot
    held = np.zeros((len(frame.resource_ids), slots, len(frame.server_ids)))
    for resource_id, taken_in, server_id, amount in rows:
        held[frame.resource_index[resource_id], taken_in - slot, frame.server_index[server_id]] = amount
    held[..., list(frame.lost)] = 0.0
    return held


def _own_use_matters(calendar: Shared, slot: int) -> bool:
    """Whose use is whose is asked only where cells are held back, and in slots that no published window covers."""
    tenants = calendar.cluster.tenants
    if any(tenant.lend != "lend" or tenant.reserve_price.any() for tenant in tenants):
        return True
    covered = sum(window.end - max(window.start, slot) for window in calendar.windows)
    return covered < calendar.frontier - slot


def _own_use(frame: PoolFrame, reader: JobReader, slot: int) -> dict[int, FloatArray]:
    """Tenant's index -> (resources, slots, servers) what its own jobs hold of its own cells, free of charge."""
    alive = (AwardState.BOOKED, AwardState.RUNNING)
    awards = list(Award.objects.filter(pool=frame.pool, state__in=alive, phase=OWN, end__gt=slot).order_by("pk"))
    rows = TrainingJob.objects.in_bulk([award.job_id for award in awards])
    slots = max((award.end for award in awards), default=slot) - slot
    used: dict[int, FloatArray] = {}
    for award in awards:
        tenant = frame.tenant_index[award.tenant_id]
        place = used.setdefault(tenant, np.zeros((len(frame.resource_ids), slots, len(frame.server_ids))))
        job = reader.read(rows[award.job_id])
        worker, ps = job.worker_types[award.worker_type].demand, job.ps_types[award.ps_type].demand
        for piece in allocation_of(frame, award.allocation, until=award.cut_at):
            span = slice(max(piece.start - slot, 0), max(piece.end - slot, 0))
            place[:, span, piece.server] += (piece.workers * worker + piece.ps * ps)[:, None]
    for amounts in used.values():
        amounts[..., list(frame.lost)] = 0.0
    return used


def allocation_of(
    frame: PoolFrame, rows: Iterable[Iterable[int]], *, until: int | None = None
) -> tuple[Allocation, ...]:
    """Stored rows name servers by id, the core by index. Nothing is held from slot `until` on."""
    pieces = (Allocation(frame.server_index[server_id], *rest) for server_id, *rest in rows)
    if until is None:
        return tuple(pieces)
    return tuple(replace(piece, end=min(piece.end, until)) for piece in pieces if piece.start < until)
