"""A small live market for a test: a pool with cells, tenants with credits, jobs that wait."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from scheduling.feed.events import events_append
from scheduling.market.decide.interval import Busy, interval_run
from scheduling.market.decide.submissions import submission_event
from scheduling.market.view.jobs import arrival_of
from scheduling.models import Award, Interval, JobState, Pool, TrainingJob
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.ledger.builders import grant
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant

MICRO = 1_000_000
SPEC: dict[str, Any] = {
    "epochs": 1,
    "chunks": 4,
    "minibatches": 4,
    "minibatch_seconds": 5.0,  # two mini-batches of one worker in a slot of ten seconds
    "worker_demand": {"worker": 1},
    "ps_demand": {"ps": 1},
    "max_workers": 4,
    "value": {"kind": "linear", "slope": -1.0, "base": 100.0},
}


def make_market(
    *slugs: str, credits: int = 1_000, worker: int = 4, ps: int = 2, instant: bool = False, **fields: Any
) -> tuple[Pool, list[Tenant]]:
    """Create a market in which each tenant has one server of its own, and credits."""
    if instant:
        bounds = {"worker": [0.01, 50.0], "ps": [0.01, 50.0]}
        fields["instant_policy"] = {"name": "oasis", "worker_price": bounds, "ps_price": bounds}
    pool = make_pool(**{"batch_policy": {"name": "astraea", "mode": "guarantee"}} | fields)
    tenants = [make_tenant(slug) for slug in slugs]
    for number, tenant in enumerate(tenants, 1):
        server = make_server(pool, f"s{number:02}", worker=worker, ps=ps)
        make_cells(server, tenant, {"worker": worker, "ps": ps})
        give(tenant, credits)
    return pool, tenants


def make_renting(credits: int = 1_000, **fields: Any) -> tuple[Pool, Tenant, Tenant]:
    """Create a market: an owner with two servers and no job, and a tenant without cells, which rents all it gets."""
    pool, (owner,) = make_market("owner", **fields)
    make_cells(make_server(pool, "s99", worker=4), owner, {"worker": 4, "ps": 2})
    renter = make_tenant("renter")
    give(renter, credits)
    return pool, owner, renter


def give(tenant: Tenant, credits: int) -> None:
    if credits:
        with scope_disabled("credits come from outside"):
            grant(tenant.pk, credits * MICRO, key=f"grant:{tenant.slug}")


def make_waiting(pool: Pool, tenant: Tenant, arrival: float = 0.0, **spec: Any) -> TrainingJob:
    """Create a job in the batch lane's queue, as a submission leaves it."""
    submitted_at = pool.epoch_at + timedelta(seconds=arrival * pool.slot_seconds)
    with scope(tenant):
        job = TrainingJob.objects.create(
            tenant=tenant,
            pool=pool,
            name="train",
            lane="batch",
            state=JobState.QUEUED,
            reason_code="waiting_for_interval",
            spec=SPEC | spec,
            submitted_at=submitted_at,
            arrival=arrival_of(pool, submitted_at),
            request_digest="0" * 64,
        )
        events_append([submission_event(job, at=job.submitted_at)])
    return job


def at(pool: Pool, slot: int) -> datetime:
    return pool.slot_start(slot)


def run_slots(pool: Pool, first: int, last: int) -> list[Interval]:
    """Decide the slots from `first` to `last`, both included. Return the intervals that were decided."""
    outcomes = [interval_run(pool_id=pool.pk, slot=slot, at=at(pool, slot)) for slot in range(first, last + 1)]
    assert not any(isinstance(outcome, Busy) for outcome in outcomes)
    return [outcome for outcome in outcomes if isinstance(outcome, Interval)]


def award_of(job: TrainingJob) -> Award:
    with scope_disabled("the test looks at what a job got"):
        return Award.objects.get(job=job)


def again(job: TrainingJob) -> TrainingJob:
    with scope_disabled("the test looks at a job again"):
        return TrainingJob.objects.get(pk=job.pk)
