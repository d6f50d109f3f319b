"""The booking of one slot on a placement, for policies that decide slot by slot."""

from __future__ import annotations

from scheduling.core.placement import Placement
from scheduling.core.speed import TOLERANCE, elastic_rate
from scheduling.core.types import CENTRALIZED, Booking, Job, View


def slot_booking(job: Job, remaining: float, placement: Placement, view: View, phase: str | None = None) -> Booking:
    """The coming slot on a placement with any number of parameter servers. What the run is worth stands on the
    booking that completes the job."""
    gang, kind, end = placement.gang, placement.kind, view.slot + 1
    types, seconds = (gang.worker_type, gang.ps_type), view.cluster.slot_seconds
    rate = elastic_rate(job, gang.workers, gang.ps, types, seconds, centralized=kind == CENTRALIZED)
    completes = rate >= remaining - TOLERANCE * job.work
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=placement.allocation(view.slot, end),
        work=remaining if completes else rate,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        phase=phase,
        placement=kind,
        value=float(job.value(end - job.arrival)) if completes else 0.0,
        ideal=float(job.value(end - job.first_slot)) if completes else 0.0,
    )
