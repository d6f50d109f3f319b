"""The analytical simulator of OfflineRL: jobs run at the speed of Optimus' fitted function, not at their real speed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduling.core.estimates import speeds
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.speed import TOLERANCE, elastic_rate
from scheduling.core.types import Booking, FloatArray, Job, Plan, View


class Analytical:
    """Speeds that are fitted once for each job, to probes of its own; an owner's coefficients are not needed."""

    def __init__(self, slot_seconds: float, shape: NetworkShape) -> None:
        self.slot_seconds, self.shape = slot_seconds, shape
        self.fitted: dict[tuple[int, int, int], FloatArray] = {}

    def corrected(self, plan: Plan, view: View) -> Plan:
        """Return the plan with the work of each booking as it is at the fitted speed."""
        remaining = dict(zip((job.number for job in view.waiting), view.remaining.tolist(), strict=True))
        jobs = {job.number: job for job in view.waiting}
        bookings = [self._booking(b, jobs[b.job], remaining[b.job]) for b in plan.bookings]
        return replace(plan, bookings=tuple(bookings))

    def _booking(self, booking: Booking, job: Job, remaining: float) -> Booking:
        rate = self.rate(job, booking.workers, booking.ps, (booking.worker_type, booking.ps_type))
        completes = rate >= remaining - TOLERANCE * job.work
        return replace(booking, work=remaining if completes else rate)

    def rate(self, job: Job, workers: int, ps: int, types: tuple[int, int]) -> float:
        """Return the mini-batches of a job in a slot at the fitted speed."""
        key = (job.number, *types)
        if key not in self.fitted:
            self.fitted[key] = self._fit(job, types)
        each = speeds.steps_per_second(self.fitted[key], ps, workers, speeds.ASYNC)
        return float(each) * self.slot_seconds

    def _fit(self, job: Job, types: tuple[int, int]) -> FloatArray:
        pairs = np.array(speeds.probes(self.shape.max_ps, self.shape.max_workers), np.float64)
        measured = [elastic_rate(job, int(w), int(p), types, 1.0, centralized=False) for p, w in pairs]
        coefficients: FloatArray = speeds.fit(pairs[None, :, 0], pairs[None, :, 1], np.array([measured]), speeds.ASYNC)
        return coefficients[0]
