"""What a decided slot of an elastic pool leaves beside its awards: posted prices, events, and paused jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from scheduling.core.types import Booking, Plan, Reason, View
from scheduling.feed import EventKind, event, events_append, job_subject
from scheduling.market.elastic.read_prices import in_credits, use_prices
from scheduling.market.elastic.read_slots import SlotsSoFar
from scheduling.models import Award, Event, JobState, Lane, Pool, TrainingJob

Place = tuple[int, int]  # resource, slot
Tick = tuple[float, float, float]  # price, units offered, units in use


def use_ticks(pool: Pool, resource_ids: Sequence[int], view: View, bookings: Sequence[Booking]) -> dict[Place, Tick]:
    """Return the slot's price of each resource, with the units on servers that host new work, and those in use."""
    prices = in_credits(use_prices(pool, view.slot))
    used = np.zeros(len(resource_ids))
    for booking in bookings:
        job = view.jobs[booking.job]
        used += booking.workers * job.worker_types[booking.worker_type].demand
        used += booking.ps * job.ps_types[booking.ps_type].demand
    there = view.cluster.capacity.copy()
    there[:, view.cluster.closed] = 0.0
    offered = there.sum(axis=1)
    return {
        (resource_id, view.slot): (prices[name], float(offered[index]), float(used[index]))
        for index, (resource_id, name) in enumerate(zip(resource_ids, view.cluster.resources, strict=True))
    }


def smaller_write(smaller: Mapping[int, Reason]) -> None:
    """Write why running jobs have a smaller size than the policy gave them. To be called after they were started, since
    starting clears the reason."""
    jobs = list(TrainingJob.objects.filter(pk__in=smaller).only("pk"))
    for job in jobs:
        job.reason_code, job.reason_numbers = smaller[job.pk].code, dict(smaller[job.pk].numbers)
    TrainingJob.objects.bulk_update(jobs, ["reason_code", "reason_numbers"], batch_size=1_000)


def elastic_events(
    so_far: Mapping[int, SlotsSoFar], awards: Iterable[Award], smaller: Mapping[int, Reason]
) -> list[Event]:
    """Return events that tell each tenant which of its jobs begin, continue after a pause, have another size, or have a
    smaller size for lack of money. A job whose size stays the same has no event."""
    events = []
    for award in awards:
        before = so_far.get(award.job_id)
        if (kind := _kind(award, before)) is None:
            continue
        data: dict[str, Any] = {"job": award.job_id, "award": award.pk, "start": award.start, "end": award.end}
        data |= {"workers": award.workers, "ps": award.ps, "paid": award.paid, "phase": award.phase}
        if before is not None:
            data |= {"workers_before": before.workers, "ps_before": before.ps}
        if (reason := smaller.get(award.job_id)) is not None:
            data["smaller"] = {"reason": reason.code, "numbers": dict(reason.numbers)}
        events.append(_award_event(kind, award, data))
    return events


def _kind(award: Award, before: SlotsSoFar | None) -> EventKind | None:
    if before is None or before.end != award.start:
        return EventKind.JOB_STARTED
    return None if (before.workers, before.ps) == (award.workers, award.ps) else EventKind.JOB_RESIZED


def taken_over_events(pool: Pool, view: View, plan: Plan, at: datetime) -> list[Event]:
    """Return the public event that the teacher of a learned policy decides from this slot on, and why; once."""
    guard, before = (plan.memory or {}).get("guard"), view.memory.get("guard")
    if not guard or before:
        return []
    data = {"policy": pool.batch_policy["name"], **guard}
    return [event(EventKind.POLICY_TAKEN_OVER, pool_id=pool.pk, tenant_id=None, at=at, data=data)]


def jobs_pause(pool: Pool, reason: Reason, at: datetime) -> None:
    """Make all running jobs wait, for the same reason. Needs the scope of all tenants and the lane's lock."""
    running = TrainingJob.objects.filter(pool=pool, lane=Lane.BATCH, state=JobState.RUNNING).order_by("pk")
    jobs = list(running.values_list("pk", "tenant_id"))
    TrainingJob.objects.filter(pk__in=[pk for pk, _ in jobs]).update(
        state=JobState.QUEUED, reason_code=reason.code, reason_numbers=dict(reason.numbers)
    )
    events_append(
        event(
            EventKind.JOB_WAITING,
            pool_id=pool.pk,
            tenant_id=tenant_id,
            subject=job_subject(pk),
            at=at,
            data={"job": pk, "reason": reason.code, "numbers": dict(reason.numbers)},
        )
        for pk, tenant_id in jobs
    )


def _award_event(kind: EventKind, award: Award, data: dict[str, Any]) -> Event:
    return event(
        kind,
        pool_id=award.pool_id,
        tenant_id=award.tenant_id,
        subject=job_subject(award.job_id),
        at=award.awarded_at,
        data=data,
    )
