"""When a batch job will probably start, and what it will probably cost. A range, kept, so that it can be judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Max

from scheduling.core.speed import minibatches_per_slot
from scheduling.core.types import Job
from scheduling.market.view.specs import SpecRead
from scheduling.models import Lane, Pool, PriceTick, StartEstimate, TrainingJob
from tenants.ledger.amounts import micro_up

LOOK_BACK = 64  # slots of posted prices that a range is made of


@dataclass(frozen=True)
class Estimate:
    """Slots, and micro-credits for the whole run. At home it costs nothing, so the range begins at 0."""

    earliest: int
    latest: int
    price_low: int
    price_high: int


def start_estimate(pool: Pool, read: SpecRead, *, frontier: int, at: datetime) -> Estimate:
    """From the batch lane's frontier and the prices of late. One short query whatever waits: a plan would cost a whole
    decision."""
    job = read.job
    earliest = max(math.ceil(job.arrival), frontier)
    units = _unit_slots(job, float(pool.slot_seconds))
    prices = _posted(pool, pool.slot_at(at))
    dearest = sum(units[index] * prices[kind] for index, kind in enumerate(read.resource_ids) if kind in prices)
    # Whoever is outbid at one boundary is heard again at the next; two whole windows is the range that is promised.
    return Estimate(earliest, earliest + 2 * pool.clock_cap, 0, micro_up(float(dearest)))


def estimate_keep(*, job: TrainingJob, read: SpecRead, frontier: int, at: datetime) -> StartEstimate:
    """Belongs into the transaction of the submission."""
    found = start_estimate(job.pool, read, frontier=frontier, at=at)
    return StartEstimate.objects.create(
        tenant_id=job.tenant_id,
        job=job,
        made_at=at,
        earliest=found.earliest,
        latest=found.latest,
        price_low=found.price_low,
        price_high=found.price_high,
    )


def _unit_slots(job: Job, slot_seconds: float) -> list[float]:
    """(resources,) amounts times slots of the dearest of its types, on servers apart."""
    totals = []
    for number, worker in enumerate(job.worker_types):
        for ps_number, ps in enumerate(job.ps_types):
            speed = minibatches_per_slot(job, number, ps_number, slot_seconds, centralized=False)
            slots = math.ceil(job.work / (job.max_workers * speed))
            servers = math.ceil(job.max_workers * worker.mbps / ps.mbps)
            totals.append((job.max_workers * worker.demand + servers * ps.demand) * slots)
    return [float(amount) for amount in np.max(totals, axis=0)]


def _posted(pool: Pool, slot: int) -> Mapping[int, float]:
    """Resource -> highest price of late. Never published: nothing is known, and nothing is said."""
    rows = PriceTick.objects.filter(pool=pool, lane=Lane.BATCH, slot__gte=slot - LOOK_BACK).order_by()
    return dict(rows.values_list("resource_id").annotate(Max("price")))
