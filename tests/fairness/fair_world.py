"""A market with some days of trade behind it: owners who sell, one who keeps its cells, and one who only rents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.models import Lend, Pool, TenantPolicy, TrainingJob
from tenants.models import Tenant
from tenants.scoping import scope
from tests.database import overwrite
from tests.scheduling.builders import make_tenant
from tests.scheduling.markets import give, make_market, make_waiting

NAMES = {"orrin": "Orrin Speech", "lumen": "Lumen Lab", "castor": "Castor Vision", "pelican": "Pelican Bio"}
SLOT_SECONDS = 3_600


@dataclass(frozen=True)
class Fair:
    pool: Pool
    tenants: dict[str, Tenant]
    jobs: list[TrainingJob]


def make_fair(slots: int = 14, *, every: int = 3, mode: str = "guarantee", **fields: object) -> Fair:
    """`every`: slots from one wave of jobs to the next."""
    begin = timezone.now() - timedelta(seconds=SLOT_SECONDS * slots)
    pool, tenants = make_market(*NAMES, slot_seconds=SLOT_SECONDS, epoch_at=begin, **fields)
    if mode == "paper":
        clock = {"first": 4, "cap": 4, "restart": True}
        pool.batch_policy = {"name": "astraea", "mode": "paper", "clock": clock}
        overwrite(pool)
    tarn = make_tenant("tarn")
    give(tarn, 1_000)
    by_slug = {tenant.slug: tenant for tenant in [*tenants, tarn]}
    for slug, name in (NAMES | {"tarn": "Tarn Climate"}).items():
        Tenant.objects.filter(pk=by_slug[slug].pk).update(name=name)
        by_slug[slug].name = name
    with scope(by_slug["pelican"]):
        TenantPolicy.objects.create(tenant=by_slug["pelican"], pool=pool, lend=Lend.KEEP)
    jobs = []
    for wave, slot in enumerate(range(0, max(slots - every, 1), every)):
        for slug in ("tarn", "lumen", "orrin")[: 1 + wave % 3]:
            worth = {"kind": "linear", "slope": -1.0, "base": 80.0 + 7 * wave}
            jobs.append(make_waiting(pool, by_slug[slug], slot + 0.1, epochs=3 + wave % 3, value=worth))
    pool_advance(pool_id=pool.pk, at=pool.slot_start(slots - 1))
    while fairness_catch_up(most=100):
        pass
    return Fair(pool, by_slug, jobs)
