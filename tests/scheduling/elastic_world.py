"""A small elastic pool for tests: two servers, an owner, and tenants who pay for what they use."""

from __future__ import annotations

from typing import Any

from scheduling.audit.verification import intervals_verify
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.models import Award, Pool, ResourceKind, TrainingJob, UsePrice
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.audit.bundles import bundle_findings
from tests.scheduling.builders import NOON, make_cells, make_pool, make_server, make_tenant
from tests.scheduling.clocks import advance
from tests.scheduling.live import book_is_sound
from tests.scheduling.markets import MICRO, give, make_waiting

PRICES = {"worker": 0.5, "ps": 0.25}
SRTF = {"name": "srtf", "workers": 4}


def make_elastic(policy: dict[str, Any] = SRTF, *, credits: int = 1_000) -> tuple[Pool, Tenant, Tenant]:
    """Create an elastic pool with slots of ten seconds. The owner has half of the workers of the first of two servers;
    all else is the operator's. Each server has four workers and four parameter servers."""
    pool = make_pool(batch_policy=policy)
    owner, renter = make_tenant("owner"), make_tenant("renter")
    first = make_server(pool, "s01", worker=4, ps=4)
    make_server(pool, "s02", worker=4, ps=4)
    make_cells(first, owner, {"worker": 2})
    for tenant in (owner, renter):
        give(tenant, credits)
    set_prices(pool, PRICES)
    return pool, owner, renter


def set_prices(pool: Pool, prices: dict[str, float], slot: int = 0) -> None:
    for kind in ResourceKind.objects.filter(pool=pool):
        amount = round(prices[kind.name] * MICRO)
        UsePrice.objects.create(pool=pool, resource=kind, from_slot=slot, amount=amount, set_at=NOON)


def make_elastic_job(pool: Pool, tenant: Tenant, arrival: float = 0.0, *, slots: int = 3, **spec: Any) -> TrainingJob:
    """Create a waiting job that four workers finish in `slots` slots, and two in twice as many."""
    return make_waiting(pool, tenant, arrival, minibatches=2 * slots, **spec)


def slots_of(job: TrainingJob) -> list[Award]:
    with scope_disabled("the test looks at a job's slots"):
        return list(Award.objects.filter(job=job).order_by("start", "pk"))


def run(pool: Pool, first: int, last: int) -> None:
    """Let the clock tick at the beginning of each of these slots."""
    for slot in range(first, last + 1):
        advance(pool, slot)


def all_is_sound(pool: Pool) -> None:
    with scope_disabled("the test works out the fairness"):
        fairness_catch_up(most=1_000)
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    assert bundle_findings(pool) == []
    assert book_is_sound()
