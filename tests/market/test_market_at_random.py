"""A market in which anything may happen: whatever it was, the calendar and the book agree with the awards."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from django.db.models import F, Sum

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.jobs.cancellation import job_cancel
from scheduling.market.calendar.units import UnitReader
from scheduling.models import ALIVE, Award, CalendarCell, FreedUnits, JobState, Pool, Server, TrainingJob
from scheduling.operator.server_states import server_return
from scheduling.runs.failures import server_lose
from tenants.access import access_of_system
from tenants.ledger.amounts import MICRO
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import book_is_sound, fund, make_live_pool, member, moment, operator_money, submit
from tests.scheduling.live import money as money_of

pytestmark = pytest.mark.django_db

BY = {"by": access_of_system("the tests"), "reason": "chance"}
SLOTS, FUNDS = 48, 5


def market(keep: int) -> tuple[Pool, list[Tenant]]:
    """Two owners with two servers each, of which a part is the operator's, and one tenant without cells."""
    pool = make_live_pool(clock_first=2, clock_cap=8, cancellation_keep_percent=keep)
    tenants = [make_tenant(slug) for slug in ("castor", "pictor", "lumen")]
    for number in range(4):
        server = make_server(pool, f"s{number}", worker=6, ps=2)
        make_cells(server, tenants[number % 2], {"worker": 4, "ps": 1})
    for tenant in tenants:
        fund(tenant, FUNDS)
    return pool, tenants


def something(dice: np.random.Generator, pool: Pool, tenants: list[Tenant], slot: float) -> None:
    """One thing that people or machines do."""
    tenant = tenants[dice.integers(len(tenants))]
    what = dice.choice(["batch", "instant", "instant", "cancel", "lose", "return"], p=[0.4, 0.2, 0.1, 0.2, 0.05, 0.05])
    if what in ("batch", "instant"):
        value = {"kind": "linear", "slope": -float(dice.uniform(0, 2)), "base": float(dice.uniform(1, 60))}
        chunks = int(dice.integers(1, 9))
        submit(
            pool,
            tenant,
            lane=what,
            slot=slot,
            epochs=int(dice.integers(1, 7)),
            chunks=chunks,
            max_workers=chunks,
            value=value,
        )
    elif what == "cancel":
        cancel_one(dice, tenant, slot)
    else:
        server = list(Server.objects.filter(pool=pool))[dice.integers(4)]
        service = server_lose if what == "lose" else server_return
        service(server=server, at=moment(slot), **BY)


def cancel_one(dice: np.random.Generator, tenant: Tenant, slot: float) -> None:
    with scope_disabled("the test picks a job"):
        alive = TrainingJob.objects.filter(tenant=tenant, state__in=["queued", "awarded", "running"])
        jobs = list(alive.order_by("pk").values_list("pk", flat=True))
    if jobs:
        job_cancel(job_id=jobs[dice.integers(len(jobs))], by=member(tenant), at=moment(slot))


def calendar_is_that_of_the_awards(pool: Pool, slot: int) -> None:
    """Every amount from the slot on is what some award holds there, and there is no other."""
    reader, expected = UnitReader(pool), defaultdict(float)
    with scope_disabled("the test looks at all awards"):
        for award in Award.objects.filter(pool=pool, state__in=ALIVE).select_related("job"):
            for unit, amount in reader.units_of(award, award.job, since=slot).items():
                expected[(award.lane, *unit)] += amount
    cells = {
        (lane, cell.server_id, cell.resource_id, cell.part, cell.slot): getattr(cell, lane)
        for cell in CalendarCell.objects.filter(pool=pool, slot__gte=slot)
        for lane in ("batch", "instant")
        if getattr(cell, lane)
    }
    assert cells == pytest.approx(dict(expected))


@pytest.mark.parametrize(("seed", "keep"), [(1, 0), (2, 30), (3, 100)])
def test_calendar_and_book_follow_the_awards_whatever_happens(seed: int, keep: int) -> None:
    pool, tenants = market(keep)
    dice = np.random.default_rng(seed)
    for slot in range(SLOTS):
        pool_advance(pool_id=pool.pk, at=moment(slot))
        for second in sorted(dice.uniform(0, 1, dice.integers(0, 4))):
            something(dice, pool, tenants, slot + float(second))
        if slot % 8 == 0:
            calendar_is_that_of_the_awards(pool, slot)
    pool_advance(pool_id=pool.pk, at=moment(SLOTS + 400))
    _everything_came_to_an_end(pool, tenants)


def _everything_came_to_an_end(pool: Pool, tenants: list[Tenant]) -> None:
    with scope_disabled("the test looks at all tenants"):
        states = set(TrainingJob.objects.values_list("state", flat=True))
        payments = Award.objects.aggregate(kept=Sum(F("paid") - F("returned")))["kept"]
        assert not Award.objects.filter(state__in=ALIVE).exists()
        assert Award.objects.filter(lane="instant").exists()
        assert Award.objects.filter(lane="batch", paid__gt=0).exists()
        assert not FreedUnits.objects.filter(sold__gt=F("amount") + 1e-9).exists()
    assert not states & {JobState.AWARDED, JobState.RUNNING}
    purses = {tenant.slug: money_of(tenant) for tenant in tenants}
    assert {held for _, held, _ in purses.values()} == {0}
    earned = sum(purse[2] for purse in purses.values()) + operator_money()
    assert earned == payments > 0
    assert sum(purse[0] for purse in purses.values()) + earned == FUNDS * len(tenants) * MICRO
    assert book_is_sound()
    flaws = intervals_verify(pool_ids=[pool.pk]).findings
    assert not flaws, flaws
