"""Both lanes on one pool: the instant lane sells what published plans leave, at their prices, for their owners."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.jobs.cancellation import job_cancel
from scheduling.models import Award, CalendarCell, Interval, Lane, LaneClock, Pool, PriceTick, TenantPolicy
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import again, book_is_sound, fund, make_live_pool, member, moment, money, submit, submitted

pytestmark = pytest.mark.django_db

LONG = {"epochs": 4, "value": {"kind": "linear", "slope": -0.5, "base": 100.0}}
DEAR = {"name": "astraea", "price_floor": {"worker": 0.2, "ps": 0.2}}


def market(**fields: Any) -> tuple[Pool, Tenant, Tenant]:
    """Castor owns two servers and works on one of them; lumen owns nothing. Windows of four slots."""
    pool = make_live_pool(clock_first=4, clock_cap=4, clock_restart=False, batch_policy=DEAR, **fields)
    castor, lumen = make_tenant("castor"), make_tenant("lumen")
    for name in ("s01", "s02"):
        make_cells(make_server(pool, name, worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    for tenant in (castor, lumen):
        fund(tenant)
    return pool, castor, lumen


def advance(pool: Pool, slot: float) -> None:
    pool_advance(pool_id=pool.pk, at=moment(slot))


def awards(**among: Any) -> list[Award]:
    with scope_disabled("the test looks at all awards"):
        return list(Award.objects.filter(**among).order_by("pk"))


def frontier(pool: Pool) -> int:
    return LaneClock.objects.get(pool=pool, lane=Lane.BATCH).frontier


def test_sells_what_the_plan_leaves_and_pays_the_owner() -> None:
    pool, castor, lumen = market()
    submitted(pool, castor, lane="batch", slot=1, **LONG)
    advance(pool, 4)
    (own,) = awards()
    assert (own.phase, own.start, own.end) == ("own", 4, 8)
    award = again(submitted(pool, lumen, slot=4).award)
    assert {owner for slot in award.charges for owner, _ in slot} == {castor.pk}
    assert {row[0] for row in award.allocation}.isdisjoint({row[0] for row in own.allocation})
    advance(pool, 12)
    assert money(castor)[2] == award.paid
    assert book_is_sound()


def test_price_is_never_below_the_published_batch_price() -> None:
    pool, castor, lumen = market()
    submitted(pool, castor, lane="batch", slot=1, **LONG)
    advance(pool, 4)
    posted = PriceTick.objects.get(pool=pool, lane="batch", resource__name="worker", slot=4).price
    award = again(submitted(pool, lumen, slot=4).award)
    assert posted >= 0.2  # far above the instant lane's own floor
    assert award.paid >= 5 * 200_000


def test_a_plan_is_the_same_whether_somebody_bought_instantly_or_not() -> None:
    plans = []
    for buys in (False, True):
        pool, castor, lumen = market(slug="used" if buys else "quiet")
        submitted(pool, castor, lane="batch", slot=1, **LONG)
        advance(pool, 4)
        if buys:
            assert submitted(pool, lumen, slot=4).award is not None
        submitted(pool, castor, lane="batch", slot=5, **LONG)
        advance(pool, 8)
        rows = awards(pool=pool, lane="batch")
        plans.append([(award.start, award.end, award.paid, award.phase) for award in rows])
    assert plans[0] == plans[1]


def test_nothing_is_sold_at_home_behind_the_frontier() -> None:
    pool, castor, lumen = market()
    submitted(pool, castor, lane="batch", slot=1, **LONG)
    advance(pool, 4)
    while submit(pool, lumen, slot=4).award is not None:
        pass
    home = CalendarCell.objects.filter(pool=pool, part="home", instant__gt=0)
    assert home.exists()
    assert max(home.values_list("slot", flat=True)) < frontier(pool)


def test_cells_that_are_kept_are_not_for_sale() -> None:
    pool, castor, lumen = market()
    with scope(castor):
        TenantPolicy.objects.create(tenant=castor, pool=pool, lend="keep")
    advance(pool, 4)
    assert submitted(pool, lumen, slot=4).award is None


def test_cells_are_held_back_until_the_posted_price_reaches_the_reserve() -> None:
    pool, castor, lumen = market()
    with scope(castor):
        TenantPolicy.objects.create(tenant=castor, pool=pool, reserve_price={"worker": 5.0})
    advance(pool, 4)
    assert submitted(pool, lumen, slot=4).award is None


def test_a_tenant_that_joins_after_a_plan_was_published_buys_of_its_owners() -> None:
    pool, castor, _ = market()
    submitted(pool, castor, lane="batch", slot=1, **LONG)
    advance(pool, 4)
    pictor = make_tenant("pictor")
    fund(pictor)
    award = again(submitted(pool, pictor, slot=4).award)
    assert {owner for slot in award.charges for owner, _ in slot} == {castor.pk}


def test_after_a_run_is_given_up_both_lanes_go_on_and_every_interval_verifies() -> None:
    pool, castor, lumen = market()
    job = submitted(pool, castor, lane="batch", slot=1, **(LONG | {"epochs": 9})).job
    advance(pool, 5)
    assert again(job).state == "running"
    job_cancel(job_id=job.pk, by=member(castor), at=moment(5.5))
    other = submitted(pool, lumen, slot=5.6).award
    submitted(pool, castor, lane="batch", slot=6, **LONG)
    advance(pool, 24)
    assert again(other).state == "done"
    with scope_disabled("the test looks at all jobs"):
        assert {award.job.state for award in Award.objects.filter(pool=pool)} == {"cancelled", "finished"}
    assert Interval.objects.filter(pool=pool).count() >= 2
    assert not intervals_verify(pool_ids=[pool.pk]).findings
    assert book_is_sound()
