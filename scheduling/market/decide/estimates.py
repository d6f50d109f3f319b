"""Estimates of when a batch job will start and what it will cost: ranges, which are stored to be judged later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from scheduling.core.speed import minibatches_per_slot
from scheduling.core.types import Job
from scheduling.market.view.specs import SpecRead
from scheduling.models import Pool, StartEstimate, TrainingJob
from tenants.ledger.amounts import micro_up

LOOK_BACK = 64  # slots of posted prices that a range is made of
AT_ONCE = 1_000  # rows of one statement


@dataclass(frozen=True)
class Estimate:
    """An estimate: the start in slots, and the price of the whole run in micro-credits. The price range begins at 0,
    because a job that runs at home costs nothing."""

    earliest: int
    latest: int
    price_low: int
    price_high: int


def start_estimate(pool: Pool, read: SpecRead) -> Estimate:
    """Estimate from the batch lane's frontier and its recent prices. Waiting jobs do not count, because a plan would
    cost a whole decision. A resource without a published price adds nothing to the price."""
    job, posted = read.job, read.rows.posted
    earliest = max(math.ceil(job.arrival), read.rows.frontier)
    units = _unit_slots(job, float(pool.slot_seconds))
    dearest = sum(units[index] * posted[kind] for index, kind in enumerate(read.rows.resource_ids) if kind in posted)
    # A job that is outbid at one boundary bids again at the next; the range covers two whole windows.
    return Estimate(earliest, earliest + 2 * pool.clock_cap, 0, micro_up(float(dearest)))


def estimates_keep(jobs: Sequence[tuple[TrainingJob, SpecRead]], *, at: datetime) -> dict[int, StartEstimate]:
    """Store the estimates of jobs of one pool, submitted together, and return them by job. Call this in the transaction
    of the submission."""
    if not jobs:
        return {}
    pool = jobs[0][0].pool
    rows = []
    for job, read in jobs:
        estimate = start_estimate(pool, read)
        rows.append(StartEstimate(tenant_id=job.tenant_id, job=job, made_at=at, **asdict(estimate)))
    return {row.job_id: row for row in StartEstimate.objects.bulk_create(rows, batch_size=AT_ONCE)}


def _unit_slots(job: Job, slot_seconds: float) -> list[float]:
    """Return for each resource amount times slots, for the dearest of the job's types and with workers and parameter
    servers on separate servers."""
    totals = []
    for number, worker in enumerate(job.worker_types):
        for ps_number, ps in enumerate(job.ps_types):
            speed = minibatches_per_slot(job, number, ps_number, slot_seconds, centralized=False)
            slots = math.ceil(job.work / (job.max_workers * speed))
            servers = math.ceil(job.max_workers * worker.mbps / ps.mbps)
            amounts = zip(worker.amounts, ps.amounts, strict=True)
            totals.append([(job.max_workers * of_worker + servers * of_ps) * slots for of_worker, of_ps in amounts])
    return [max(amounts) for amounts in zip(*totals, strict=True)]
