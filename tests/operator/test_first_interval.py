"""The first jobs of a new pool are told the interval that decides about them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.app.clock import pool_advance
from scheduling.models import Interval, LaneClock, Pool
from scheduling.operator.pools import PoolTerms, pool_create
from tests.operator.test_services import CHANGE, POOL
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import fund, moment, submitted

pytestmark = pytest.mark.django_db


def new_pool(**terms: Any) -> Pool:
    pool = pool_create(terms=PoolTerms(**(POOL | terms)), **CHANGE)
    assert isinstance(pool, Pool)
    return pool


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("clock", [{"clock_first": 1}, {"clock_first": 4}, {"clock_first": 4, "clock_restart": False}])
def test_job_that_waited_for_the_opening_is_told_when_it_is_decided(clock: dict[str, Any], is_late: bool) -> None:
    """It comes a moment after the opening, before the clock's first tick or, `is_late`, after it."""
    pool, lumen = new_pool(**clock), make_tenant("lumen")
    make_cells(make_server(pool, "s01", worker=8, ps=4), lumen, {"worker": 8, "ps": 4})
    fund(lumen)
    if is_late:
        pool_advance(pool_id=pool.pk, at=moment(0))
    job = submitted(pool, lumen, lane="batch", slot=0.01).job
    assert job.reason_code == "waiting_for_interval"
    for slot in range(8):
        pool_advance(pool_id=pool.pk, at=moment(slot))
    interval = Interval.objects.get(pool=pool, jobs_awarded=1)
    assert interval.slot == job.reason_numbers["slot"]


def test_pool_that_decides_at_every_slot_begins_with_the_first() -> None:
    pool = new_pool(batch_policy={"name": "srtf"})
    assert LaneClock.objects.get(pool=pool).frontier == 0
