"""Quote what a job would get and pay in an elastic pool: the next slot as it would be decided if nobody else came, and
what a slot costs at the size that is asked for. Nobody can say how often the job will get that size, so the sum is an
estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from scheduling.core.speed import elastic_rate, parameter_servers
from scheduling.core.types import Job, Plan, Reason, View
from scheduling.market.decide import batch_policy
from scheduling.market.elastic import with_reports
from scheduling.market.view import JobReader, batch_view, within_engine
from scheduling.models import PROGRAM, Lane, LaneClock, TrainingJob
from scheduling.quotes.desks import SUPPOSED, QuotedTerms, supposed, terms_of
from tenants.common.patience import give_way
from tenants.ledger.amounts import micro

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class ByUse:
    """What a job pays at the largest size that it asks for. `slots` and `total` are estimates for a job that always
    gets that size, at the prices of the next slot. Amounts are in micro-credits, and include what would be the payer's
    own part."""

    workers: int
    ps: int
    per_slot: int
    slots: int
    total: int


class ElasticDesk:
    """The desk of an elastic pool: the next boundary as if nobody else came."""

    def __init__(self, job: TrainingJob, at: datetime) -> None:
        self.job = job
        pool = job.pool
        clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first() or LaneClock(pool=pool)
        slot = max(clock.decided_slot, pool.slot_at(at), math.ceil(job.arrival) - 1) + 1
        snapshot = batch_view(pool, slot, clock, at, supposed=supposed(job, SUPPOSED, {}))
        self.frame, self.held = snapshot.frame, clock.held
        self.policy, self.reader = batch_policy(self.frame, slot), JobReader(self.frame)
        self.view = with_reports(snapshot.view, self.policy)

    def ask(self, fields: Spec) -> QuotedTerms:
        if self.held:
            return QuotedTerms(False, Reason("market_held"))
        give_way()
        job = self._read(fields)
        plan = self.policy.decide(_instead(self.view, job))
        return self._terms(plan)

    def later(self) -> Iterator[tuple[float, float, QuotedTerms]]:
        """Yield nothing: what is free in a later slot is not known before it, so nothing can be promised."""
        return iter(())

    def by_use(self) -> ByUse:
        """Return what the job as it is would pay."""
        job, cluster = self._read({}), self.view.cluster
        worker, ps = job.worker_types[0], job.ps_types[0]
        number = parameter_servers(job.max_workers, worker.mbps, ps.mbps)
        number = number if job.max_ps is None else min(number, job.max_ps)
        prices = np.array([getattr(self.policy, "prices", {}).get(name, 0.0) for name in cluster.resources])
        cost = float(prices @ (job.max_workers * worker.demand + number * ps.demand))
        rate = elastic_rate(job, job.max_workers, number, (0, 0), cluster.slot_seconds, centralized=False)
        slots = max(1, math.ceil(job.work / rate - 1e-9))
        per_slot = micro(cost)
        return ByUse(job.max_workers, number, per_slot, slots, per_slot * slots)

    def _read(self, fields: Spec) -> Job:
        spec = {**self.job.spec, **fields}
        job = self.reader.read_as(self.job, spec, number=SUPPOSED)
        job = within_engine(job) if PROGRAM in spec else job
        cap = self.view.jobs[SUPPOSED].max_price  # after what budgets leave
        limits = [limit for limit in (job.max_price, None if "max_price" in fields else cap) if limit is not None]
        return replace(job, max_price=min(limits, default=None))

    def _terms(self, plan: Plan) -> QuotedTerms:
        booking = next((booking for booking in plan.bookings if booking.job == SUPPOSED), None)
        if booking is not None:
            return replace(terms_of(self.frame, booking, self.job.tenant_id), reason=plan.smaller.get(SUPPOSED))
        refusal = next((refusal for refusal in plan.refusals if refusal.job == SUPPOSED), None)
        return QuotedTerms(False, refusal.reason if refusal else Reason("not_its_turn"))


def _instead(view: View, job: Job) -> View:
    """Return the view with this job in the place of the supposed one."""
    waiting = tuple(job if other.number == SUPPOSED else other for other in view.waiting)
    remaining = view.remaining.copy()
    remaining[[other.number for other in waiting].index(SUPPOSED)] = job.work
    return replace(view, waiting=waiting, remaining=remaining, jobs={**view.jobs, SUPPOSED: job})
