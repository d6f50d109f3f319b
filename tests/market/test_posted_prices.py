"""The instant lane's posted prices: one unit more costs what is posted, and they move when something is sold."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.app.clock import pool_advance
from scheduling.market.prices.posted import prices_refresh
from scheduling.models import Lane, LaneClock, Pool, PriceTick
from tenants.models import Tenant
from tests.database import as_superuser
from tests.market.test_instant_pdors import JOB, colocated
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import again, events, fund, make_live_pool, moment, submit, submitted

pytestmark = pytest.mark.django_db

SINGLE = {"chunks": 1, "max_workers": 1, "ps_mbps": 1.0}
DEAR = {"name": "astraea", "price_floor": {"worker": 0.2, "ps": 0.2}}


def market(**fields: Any) -> tuple[Pool, Tenant]:
    """The operator has eight workers and two parameter servers, Castor four and two; Lumen has credits."""
    pool, castor, lumen = make_live_pool(**fields), make_tenant("castor"), make_tenant("lumen")
    make_cells(make_server(pool, "s01", worker=4, ps=2), castor, {"worker": 4, "ps": 2})
    make_server(pool, "s02", worker=8, ps=2)
    fund(lumen)
    return pool, lumen


def advance(pool: Pool, slot: float) -> None:
    pool_advance(pool_id=pool.pk, at=moment(slot))


def posted(pool: Pool, slot: int) -> dict[str, float | None]:
    rows = PriceTick.objects.filter(pool=pool, lane=Lane.INSTANT, slot=slot)
    return dict(rows.values_list("resource__name", "price"))


def one_more(pool: Pool, slot: int) -> float:
    return sum(price for price in posted(pool, slot).values() if price is not None)


@pytest.mark.parametrize("sold_before", [0, 1, 3])
def test_one_worker_and_its_parameter_server_pay_what_is_posted(sold_before: int) -> None:
    pool, lumen = market()
    advance(pool, 0)
    for _ in range(sold_before):
        submitted(pool, lumen, **SINGLE)
    price = one_more(pool, 0)
    award = again(submitted(pool, lumen, **SINGLE).award)
    assert (award.start, award.end) == (0, 1)
    assert award.paid == pytest.approx(1e6 * price, abs=1)


def test_a_gang_by_pd_ors_pays_the_posted_prices_of_what_it_takes() -> None:
    pool, lumen = colocated()
    advance(pool, 0)
    submitted(pool, lumen, **JOB)
    prices = posted(pool, 0)
    one = JOB | {"chunks": 1, "max_workers": 1}
    award = again(submitted(pool, lumen, **one).award)
    amounts = {"gpu": 1, "cpu": 1 + 2, "memory_gb": 2 + 4}
    assert award.start == 0
    assert award.paid == pytest.approx(1e6 * sum(prices[name] * amount for name, amount in amounts.items()), abs=1)


def test_prices_follow_every_sale_in_its_own_slots_and_everybody_is_told() -> None:
    pool = lonely_server("main")
    lumen = make_tenant("lumen")
    fund(lumen)
    advance(pool, 0)
    before = {slot: posted(pool, slot) for slot in (0, 1, 2)}
    count = len(events("prices_posted"))
    award = again(submitted(pool, lumen, epochs=2).award)
    assert (award.start, award.end) == (0, 2)
    after = {slot: posted(pool, slot) for slot in (0, 1, 2)}
    assert all(after[0][name] > before[0][name] for name in ("worker", "ps"))
    assert (after[1], after[2]) == (after[0], before[2])
    (event,) = events("prices_posted")[count:]
    assert (event.tenant_id, event.data) == (None, {"lane": "instant", "start": 0, "end": 2})


def test_what_a_sale_posts_is_what_the_next_slot_would_have_posted_anew() -> None:
    pool, lumen = market()
    advance(pool, 0)
    for gang in (8, 2, 1):
        submitted(pool, lumen, chunks=gang, max_workers=gang, ps_mbps=8.0, epochs=3)
    prices = list(
        PriceTick.objects.order_by("resource", "slot").values_list("resource", "slot", "price", "offered", "sold")
    )
    LaneClock.objects.filter(pool=pool, lane=Lane.INSTANT).update(decided_slot=-1)
    assert prices_refresh(pool=pool)
    anew = PriceTick.objects.order_by("resource", "slot").values_list("resource", "slot", "price", "offered", "sold")
    assert list(anew) == prices


def test_a_full_slot_has_no_price() -> None:
    pool, lumen = market()
    advance(pool, 0)
    while again(submitted(pool, lumen, **SINGLE).job).state != "rejected" and posted(pool, 0)["ps"] is not None:
        pass
    assert posted(pool, 0)["ps"] is None
    assert posted(pool, 0)["worker"] is not None  # eight are left, with nobody to serve them
    tick = PriceTick.objects.get(pool=pool, lane=Lane.INSTANT, slot=0, resource__name="ps")
    assert tick.offered == tick.sold > 0


def test_no_price_is_below_the_batch_price_of_its_slot() -> None:
    pool, _ = market(clock_first=4, clock_cap=4, clock_restart=False, batch_policy=DEAR)
    advance(pool, 4)
    batch = PriceTick.objects.get(pool=pool, lane=Lane.BATCH, slot=4, resource__name="worker").price
    assert batch is not None
    assert batch >= 0.2  # far above the lane's own floor
    assert posted(pool, 4)["worker"] >= batch
    assert posted(pool, 8)["worker"] == pytest.approx(0.01)  # behind the frontier only the operator's own are sold


def test_slots_come_into_sight_one_by_one_and_only_news_is_told() -> None:
    pool, _ = market(posted_slots=3)
    advance(pool, 0)
    assert sorted(set(PriceTick.objects.filter(lane="instant").values_list("slot", flat=True))) == [0, 1, 2]
    count = len(events("prices_posted"))
    advance(pool, 1)
    assert posted(pool, 3) == posted(pool, 2)
    assert len(events("prices_posted")) == count


def test_a_tick_that_comes_again_posts_nothing_and_one_after_a_crash_posts_what_is_missing() -> None:
    pool, _ = market()
    advance(pool, 0)
    assert not prices_refresh(pool=pool)
    with as_superuser():
        PriceTick.objects.all().delete()
    LaneClock.objects.filter(pool=pool, lane=Lane.INSTANT).update(decided_slot=-1)  # died before it was posted
    advance(pool, 0.5)
    assert posted(pool, 0)["worker"] == pytest.approx(0.01)


@pytest.mark.parametrize("fields", [{"posted_slots": 0}, {"instant_policy": None}])
def test_a_pool_that_posts_nothing_has_no_prices(fields: dict[str, Any]) -> None:
    pool, _ = market(**fields)
    advance(pool, 2)
    assert not PriceTick.objects.filter(lane="instant").exists()
    assert not events("prices_posted")


def test_an_admission_posts_with_two_statements_however_many_slots_it_takes() -> None:
    counts = []
    for slug, epochs in (("short", 1), ("long", 40)):
        pool = lonely_server(slug)
        buyer = make_tenant(f"buyer-{slug}")
        fund(buyer)
        advance(pool, 0)
        with CaptureQueriesContext(connection) as captured:
            assert submit(pool, buyer, **SINGLE, epochs=epochs).award is not None
        counts.append(sum("pricetick" in query["sql"] for query in captured.captured_queries))
    assert counts == [2, 2]


def lonely_server(slug: str) -> Pool:
    """Eight workers and eight parameter servers of the operator's."""
    pool = make_live_pool(slug=slug)
    make_server(pool, "s01", worker=8, ps=8)
    return pool
