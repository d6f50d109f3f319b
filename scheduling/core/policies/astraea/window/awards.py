"""Make bookings of schedules, in absolute slots: those of phase one, and the fields that are the same in phase two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduling.core.policies.astraea.schedules.schedule import Schedule
from scheduling.core.policies.astraea.ways.rests import end_at_home
from scheduling.core.policies.astraea.window.round import Round
from scheduling.core.types import CENTRALIZED, DISTRIBUTED, OWN, Booking, FloatArray, Floor, Job


def own_booking(round_: Round, job: Job, schedule: Schedule, prices: FloatArray) -> Booking:
    """Book a schedule of phase one on shares. It is free; `prices` (resources, slots) only steered the choice."""
    shadow_cost = float((schedule.amounts @ prices[:, schedule.start : schedule.end]).sum())
    return Booking(**fields_of(round_, job, schedule), phase=OWN, shadow_cost=shadow_cost)


def home_booking(round_: Round, job: Job, floor: Floor) -> Booking:
    """Book the job's floor schedule on its owner's cells, free. It may end after the window (G4). The rest of a job
    that was begun may end sooner than its floor (D3)."""
    rest, end, allocation, value = round_.rests.get(job.number), floor.end, floor.allocation, floor.value
    if rest is not None and not rest.is_whole:
        end = end_at_home(round_.cluster, floor, rest)
        allocation = tuple(replace(row, end=end) for row in allocation)
        value = float(job.value(end - job.arrival))
    return Booking(
        job=job.number,
        start=floor.start,
        end=end,
        allocation=allocation,
        work=job.work if rest is None else rest.work,
        workers=sum(row.workers for row in floor.allocation),
        ps=sum(row.ps for row in floor.allocation),
        worker_type=floor.worker_type,
        ps_type=floor.ps_type,
        phase=OWN,
        placement=CENTRALIZED if len(floor.allocation) == 1 else DISTRIBUTED,
        value=value,
        ideal=float(job.value(end - round_.start)),
        floor=floor.value,
    )


def fields_of(round_: Round, job: Job, schedule: Schedule) -> dict[str, Any]:
    """Return the fields of a booking that follow from its schedule."""
    start, end = round_.start + schedule.start, round_.start + schedule.end
    since = round_.start if round_.settings.value_from == "round_start" else job.arrival
    return {
        "job": job.number,
        "start": start,
        "end": end,
        "allocation": tuple(
            replace(row, start=round_.start + row.start, end=round_.start + row.end) for row in schedule.rows
        ),
        "work": round_.rests[job.number].work if job.number in round_.rests else job.work,
        "workers": schedule.workers,
        "ps": schedule.ps,
        "worker_type": schedule.pair.worker_type,
        "ps_type": schedule.pair.ps_type,
        "placement": CENTRALIZED if schedule.central else DISTRIBUTED,
        "value": float(job.value(end - since)),
        "ideal": float(job.value(end - round_.start)),
    }
