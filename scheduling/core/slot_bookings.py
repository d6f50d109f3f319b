"""Make the booking of one slot, for policies that decide slot by slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.core.gangs import GangUnits
from scheduling.core.placement import Placement, rows_of
from scheduling.core.speed import TOLERANCE, elastic_rate
from scheduling.core.types import CENTRALIZED, Booking, Job, View


@dataclass(frozen=True, slots=True)
class SlotPart:
    """What a job gets in one slot: its gang, and for each server that holds some of it the numbers of its workers and
    parameter servers."""

    gang: GangUnits
    kind: str  # CENTRALIZED | DISTRIBUTED
    counts: Sequence[Sequence[int]]  # (server, workers, parameter servers) each


def slot_booking(job: Job, remaining: float, placement: Placement, view: View, phase: str | None = None) -> Booking:
    """Return the booking of the coming slot on a placement with any number of parameter servers."""
    gang, kind = placement.gang, placement.kind
    types, seconds = (gang.worker_type, gang.ps_type), view.cluster.slot_seconds
    spread = placement.spread if job.all_reduce else None
    rate = elastic_rate(job, gang.workers, gang.ps, types, seconds, centralized=kind == CENTRALIZED, servers=spread)
    return part_booking(job, remaining, SlotPart(gang, kind, placement.counts()), rate, view, phase)


def part_booking(
    job: Job, remaining: float, part: SlotPart, rate: float, view: View, phase: str | None = None
) -> Booking:
    """Return the booking of the coming slot, in which the job trains `rate` mini-batches. Only the booking that
    completes the job has a value, which is that of the whole run."""
    gang, end = part.gang, view.slot + 1
    completes = rate >= remaining - TOLERANCE * job.work
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=rows_of(part.counts, view.slot, end),
        work=remaining if completes else rate,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        phase=phase,
        placement=part.kind,
        value=float(job.value(end - job.arrival)) if completes else 0.0,
        ideal=float(job.value(end - job.first_slot)) if completes else 0.0,
    )
