"""A new pool's price base follows its jobs, and its intervals replay to the byte."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.core.policies.astraea.rules.trailing import DEFAULTS, price_base_of
from scheduling.models import Interval, Lane, LaneClock, Pool, PriceTick
from scheduling.operator.pools import PoolTerms, pool_create
from tenants.models import Tenant
from tests.operator.test_services import CHANGE, POOL
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import fund, make_live_pool, moment, submitted

pytestmark = pytest.mark.django_db

POLICY: dict[str, Any] = {
    "name": "astraea",
    "theta": {"worker": 2.0, "ps": 2.0},
    "trailing": {"batches": 4, "least_jobs": 1},
}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({}, DEFAULTS),
        ({"mode": "guarantee"}, DEFAULTS),
        ({"theta": {"ps": 8.0}}, None),
        ({"trailing": None}, None),
        ({"trailing": {"batches": 4}}, {"batches": 4}),
        ({"mode": "paper"}, None),
    ],
)
def test_a_new_pool_follows_its_jobs_unless_its_price_base_is_written(terms: dict[str, Any], expected: Any) -> None:
    pool = pool_create(terms=PoolTerms(**(POOL | {"batch_policy": {"name": "astraea", **terms}})), **CHANGE)
    assert isinstance(pool, Pool)
    assert pool.batch_policy.get("trailing") == expected


def trade(policy: dict[str, Any], slug: str) -> tuple[Pool, Tenant]:
    """Castor lends eight workers; Lumen rents them in window after window, for much more than they cost."""
    pool = make_live_pool(
        slug=slug, clock_first=2, clock_cap=2, clock_restart=False, batch_policy=policy, instant_policy=None
    )
    castor, lumen = make_tenant(f"castor-{slug}"), make_tenant(f"lumen-{slug}")
    make_cells(make_server(pool, "s01", worker=8, ps=4), castor, {"worker": 8, "ps": 4})
    fund(lumen)
    for slot in range(0, 12, 2):
        for _ in range(2):
            submitted(pool, lumen, lane="batch", slot=slot + 0.5)
        pool_advance(pool_id=pool.pk, at=moment(slot + 2))
    return pool, lumen


def highest(pool: Pool) -> float:
    return max(price for price in PriceTick.objects.filter(pool=pool).values_list("price", flat=True) if price)


def test_prices_rise_with_what_jobs_are_worth_and_every_interval_replays() -> None:
    (moving, _), (fixed, _) = trade(POLICY, "moving"), trade({**POLICY, "trailing": None}, "fixed")
    assert highest(moving) > highest(fixed)
    assert Interval.objects.filter(pool=moving).count() >= 5
    outcome = intervals_verify(pool_ids=[moving.pk, fixed.pk])
    assert outcome.is_clean, outcome.findings
    memory = LaneClock.objects.get(pool=moving, lane=Lane.BATCH).memory
    assert len(memory["trailing"]["batches"]) == 4
    bases = price_base_of(moving.batch_policy, memory)
    assert set(bases) == {"worker", "ps"}
    assert all(base > 2.0 for base in bases.values())
    assert price_base_of(fixed.batch_policy, memory) == {"worker": 2.0, "ps": 2.0}


def test_an_interval_whose_memory_was_changed_is_found() -> None:
    pool, _ = trade(POLICY, "main")
    clock = LaneClock.objects.get(pool=pool, lane=Lane.BATCH)
    clock.memory["trailing"]["batches"][0]["worker"]["figures"] = [1e6]
    clock.save()
    assert not intervals_verify(pool_ids=[pool.pk]).is_clean
