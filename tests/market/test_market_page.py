"""The market page: who sees what of it, and that its live part stands alone."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.market.pages.board import tiles
from scheduling.market.pages.gantt import BarSpan, _prices, _ticks
from scheduling.market.reads.market import PriceHistory, SlotPrice
from scheduling.market.reads.now import market_now
from scheduling.models import CalendarCell, Pool, PriceTick, ResourceKind, Server, TrainingJob
from scheduling.reasons import reason_sentence
from tenants.models import Tenant
from tenants.roles import BILLING, OWNER, VIEWER
from tenants.scoping import scope
from tests.database import as_superuser, overwrite
from tests.market.test_servers_page import make_person
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.live import INSTANT
from tests.scheduling.markets import make_market, make_waiting
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db


def open_page(tenant: Tenant, role: str, query: str = ""):
    client = Client()
    client.force_login(make_person(role, tenant), backend="django.contrib.auth.backends.ModelBackend")
    return client.get(f"/t/{tenant.slug}/market/{query}", secure=True)


def running_market():
    """Lumen has a job that runs now and one that waits."""
    pool, (lumen, castor) = make_market("lumen", "castor", epoch_at=timezone.now())
    long = make_waiting(pool, lumen, 0.0, epochs=200, value={"kind": "linear", "slope": -1.0, "base": 9000.0})
    pool_advance(pool_id=pool.pk, at=pool.slot_start(3))
    pool.epoch_at = timezone.now() - (pool.slot_start(3) - pool.epoch_at)
    overwrite(pool)
    make_waiting(pool, lumen, 2.5)
    return lumen, castor, long


def test_shows_jobs_with_state_reason_payer_and_price() -> None:
    lumen, _, long = running_market()
    html = open_page(lumen, OWNER).content.decode()
    assert f"J-{long.pk}" in html
    assert "Runs on your own cells until" in html
    assert "not decided" in html
    assert 'hx-trigger="live"' in html


@pytest.mark.parametrize(
    ("part", "says"),
    [("board", "Next interval in"), ("prices", "Posted price"), ("servers", "Servers by time"), ("jobs", "My jobs")],
)
def test_each_part_comes_alone_and_asks_for_itself(part: str, says: str) -> None:
    lumen, _, _ = running_market()
    html = open_page(lumen, VIEWER, f"?part={part}").content.decode()
    assert "<html" not in html
    assert says in html
    assert html.count("hx-get=") == html.count(f"?part={part}&amp;pool=main") == 1


@pytest.mark.parametrize(("instant", "free"), [(None, "6 of 8"), (INSTANT, "4 of 4")])
def test_next_interval_has_no_units_of_the_operator_where_the_instant_lane_sells_them(instant: Any, free: str) -> None:
    pool, lumen = make_pool(epoch_at=timezone.now(), instant_policy=instant), make_tenant("lumen")
    own, ours = make_server(pool, "s1", worker=4, ps=1), make_server(pool, "s2", worker=4, ps=1)
    make_cells(own, lumen, {"worker": 4, "ps": 1})
    lost = make_server(pool, "s3", worker=4, ps=1)
    Server.objects.filter(pk=lost.pk).update(state="lost")
    frontier = market_now(pool, timezone.now()).frontier
    for kind in ResourceKind.objects.filter(pool=pool, name="worker"):
        for slot in range(frontier, frontier + 9):  # the page may be read some slots from now
            place = {"pool": pool, "server": ours, "resource": kind, "slot": slot}
            CalendarCell.objects.create(**place, part="operator", capacity=4, instant=2)
    assert f"{free} workers free then" in text_of(open_page(lumen, VIEWER, "?part=prices").content.decode())


def test_late_decisions_are_said_with_the_age_of_the_last_price() -> None:
    lumen, _, _ = running_market()
    (pool,) = Pool.objects.all()
    due = pool.slot_start(4)  # slot 3 is the last that was decided
    on_time = market_now(pool, due + timedelta(seconds=2))
    assert (on_time.late_seconds, {each.price_age for each in on_time.resources}) == (0, {None})
    late = market_now(pool, due + timedelta(seconds=64))
    assert (late.late_seconds, late.seconds_left) == (64, 0)
    posted = PriceTick.objects.filter(slot=late.slot).exclude(price=None).values_list("resource_id", flat=True)
    then = {each.id: each.price for each in market_now(pool, due - timedelta(seconds=1)).resources}
    for each in late.resources:
        if each.id in posted:
            assert each.price_age is None
        else:
            assert (each.price, each.price_age) == (then[each.id], 64 + pool.slot_seconds)
    pool.epoch_at -= timedelta(seconds=64 + pool.slot_seconds)
    overwrite(pool)
    words = text_of(open_page(lumen, OWNER).content.decode())
    assert re.search("decisions are 6[0-9] s late", words)
    assert "s late: jobs start, and prices move, once the market has caught up" in words
    assert "deciding" not in words


def test_there_is_no_part_of_another_name() -> None:
    lumen, _, _ = running_market()
    assert open_page(lumen, VIEWER, "?part=ledger").status_code == 404


def test_page_asks_the_database_fewer_than_25_times(django_assert_max_num_queries) -> None:
    """Session, person, tenant and roles among them."""
    lumen, _, _ = running_market()
    client = Client()
    client.force_login(make_person(OWNER, lumen), backend="django.contrib.auth.backends.ModelBackend")
    with django_assert_max_num_queries(24) as queries:
        client.get("/t/lumen/market/", secure=True)
    assert len(queries) > 10


def test_jobs_of_others_have_no_name_on_the_chart() -> None:
    _, castor, long = running_market()
    html = open_page(castor, OWNER).content.decode()
    assert "another tenant: " in html
    assert f"/jobs/{long.pk}/" not in html


def test_another_tenants_jobs_are_not_on_it() -> None:
    _, castor, long = running_market()
    assert f"J-{long.pk}" not in open_page(castor, OWNER).content.decode()


def test_billing_sees_money_and_prices_but_no_jobs() -> None:
    lumen, _, long = running_market()
    html = open_page(lumen, BILLING).content.decode()
    assert "Earned today" in html
    assert f"J-{long.pk}" not in html
    assert f"/jobs/{long.pk}/" not in html  # the page that it leads to is not for billing
    assert f"/jobs/{long.pk}/" in open_page(lumen, VIEWER).content.decode()


def test_viewer_sees_jobs_but_no_money() -> None:
    lumen, _, long = running_market()
    html = open_page(lumen, VIEWER).content.decode()
    assert f"J-{long.pk}" in html
    assert "Earned today" not in html


def test_page_says_so_where_there_is_no_pool() -> None:
    assert open_page(make_tenant(), OWNER).status_code == 200


def test_an_interval_is_not_said_to_post_a_price_where_nobody_waits() -> None:
    pool, (lumen,) = make_market("lumen", epoch_at=timezone.now())
    pool_advance(pool_id=pool.pk, at=pool.slot_start(1))
    pool.epoch_at = timezone.now() - (pool.slot_start(1) - pool.epoch_at)
    overwrite(pool)
    client = client_as("owner", lumen)
    words = text_of(client.get("/t/lumen/market/?part=board", secure=True).content.decode())
    assert "Nobody waits: the next interval that decides about a job posts one." in words
    make_waiting(pool, lumen, 0.5)
    words = text_of(client.get("/t/lumen/market/?part=board", secure=True).content.decode())
    assert "posts the next." in words
    assert "Nobody waits" not in words


def test_a_pool_without_servers_says_so_in_place_of_an_empty_chart() -> None:
    make_pool()
    tenant = make_tenant()
    client = client_as("owner", tenant)
    for path in ("market", "servers"):
        page = text_of(client.get(f"/t/{tenant.slug}/{path}/", secure=True).content.decode())
        assert "No server is in this pool yet, so nothing can run here. An operator adds the first one." in page
        assert "Nothing is booked" not in page


@pytest.mark.parametrize(
    ("code", "numbers", "sentence"),
    [
        ("outbid", {"price": 3.5, "value": 2.0}, "The price is 3.50, and the job is worth 2.00."),
        ("outbid", {"price_at_least": 3.5, "value": 2.0}, "The price is at least 3.50, and the job is worth 2.00."),
        ("outbid", {"price": 2.004, "value": 2.0}, "The price is 2.004, and the job is worth 2.000."),
        ("over_max_price", {"price": 0.2, "max_price": 0.1999}, "Costs 0.2000, more than your limit 0.1999."),
        ("over_max_price", {"price": 0.2, "max_price": 0.0001}, "Costs 0.2000, more than your limit 0.0001."),
        ("over_max_price", {"price": 0.2, "max_price": 0.0}, "Costs 0.20, more than your limit 0.00."),
        (
            "over_max_price",
            {"price": 0.2, "max_price": 3.0, "spent": 2.801},
            "Costs 0.200, and 0.199 of your limit 3.00 are left.",
        ),
        ("over_budget", {"price": 3.001, "left": 3.0}, "Costs 3.001, and 3.000 of the budget are left."),
        ("low_balance", {"price": 3.000001, "available": 3.0}, "Costs 3.000001, and 3.000000 are available."),
        ("larger_than_window", {"needs_slots": 9, "window_slots": 8}, "Needs 9 slots; the longest interval has 8."),
        ("no_room", {"asked": 12, "free": 3.0}, "Not enough room: it asks for 12, and 3 are free."),
        ("outbid", {}, "Outbid."),
        ("quota_held", {"by": 3}, "Quota held: by 3."),
    ],
)
def test_reason_is_a_sentence_with_its_numbers(code: str, numbers: dict, sentence: str) -> None:
    pool, _ = make_market()
    assert reason_sentence(pool, code, numbers) == sentence


def open_again(client: Client, path: str) -> str:
    return client.get(path, secure=True).content.decode()


def pool_in_bar(client: Client, path: str) -> str:
    match = re.search(r'class="of-pool">([^<]*)<', open_again(client, path))
    assert match, path
    return match[1].strip()


def test_pool_is_remembered_over_pages_until_another_is_chosen_or_it_is_gone() -> None:
    lumen, _, _ = running_market()
    first, other = Pool.objects.get(), make_pool("other", name="Other pool")
    client = client_as(OWNER, lumen)
    assert pool_in_bar(client, "/t/lumen/jobs/") == first.name
    assert client.get("/t/lumen/market/?pool=other", secure=True).status_code == 200
    assert '<a class="button" href="?pool=other" aria-current="page">' in open_again(client, "/t/lumen/market/")
    for page in ("jobs", "submit", "share", "members", "intervals"):
        assert pool_in_bar(client, f"/t/lumen/{page}/") == "Other pool", page
    assert '<input type="hidden" name="pool" value="other">' in open_again(client, "/t/lumen/submit/")
    client.get(f"/t/lumen/market/?part=jobs&pool={first.slug}", secure=True)  # another window, by itself
    assert pool_in_bar(client, f"/t/lumen/intervals/{first.slug}/1/") == first.name  # the address says so
    assert pool_in_bar(client, "/t/lumen/jobs/") == "Other pool"
    assert client.get("/t/lumen/market/?pool=nowhere", secure=True).status_code == 404
    assert pool_in_bar(client, "/t/lumen/jobs/") == "Other pool"
    other.slug = "renamed"
    overwrite(other)
    assert pool_in_bar(client, "/t/lumen/jobs/") == first.name


def test_jobs_are_counted_in_the_pool_that_is_shown_and_those_elsewhere_are_said() -> None:
    lumen, _, _ = running_market()
    assert "1 running, 1 waiting; all jobs" in text_of(open_page(lumen, VIEWER).content.decode())
    make_pool("other", name="Other pool")
    html = open_page(lumen, OWNER, "?pool=other").content.decode()
    assert "0 running, 0 waiting here, 2 in other pools; all jobs" in text_of(html)
    assert "No jobs here; 2 in other pools" in text_of(html)
    assert 'href="/t/lumen/submit/?pool=other">Get a quote</a>' in html


def test_job_that_expired_never_had_slots() -> None:
    lumen, _, _ = running_market()
    with scope(lumen), as_superuser():
        TrainingJob.objects.filter(state="queued").update(state="expired", ended_at=timezone.now())
    html = open_page(lumen, VIEWER).content.decode()
    assert re.search(r'<td data-h="Slots" class="span">\s*never\s*</td>', html)


def slots_priced(pool: Pool, *prices: float | None) -> PriceHistory:
    slots = tuple(SlotPrice(number, pool.slot_start(number), (price,)) for number, price in enumerate(prices))
    return PriceHistory(slots, pool.slot_start(len(slots)))


@pytest.mark.parametrize(
    ("prices", "peak"),
    [((0.6, 1.05, 0.7), 1.05), ((0.6, 0.7, 1.05), None), ((1.05, 0.6, 0.7), None), ((0.6,), None), ((0.6, None), None)],
)
def test_highest_price_to_come_is_said_beside_that_of_now_and_of_the_end(prices: tuple, peak: float | None) -> None:
    pool, _ = make_market("lumen")
    now = market_now(pool, pool.slot_start(0))
    now = replace(now, resources=(replace(now.resources[0], price=prices[0]),))
    assert tiles(pool, now, slots_priced(pool, *prices)).each[0].peak == peak


@pytest.mark.parametrize(
    ("prices", "digits"),
    [
        ((1.0, 0.05), 2),
        ((1.0, 0.0312), 4),  # of one of the two
        ((0.05, 0.05, 0.0312), 4),  # and the last one to come, as the sentence above names it
    ],
)
def test_prices_of_tiles_side_by_side_have_as_many_digits(prices: tuple[float, ...], digits: int) -> None:
    """What a price was in slots that are over is not written on a tile, and does not count."""
    pool, _ = make_market("lumen")
    now = market_now(pool, pool.slot_start(0))
    worker, ps = now.resources[0], replace(now.resources[0], id=-1, name="ps")
    now = replace(now, slot=0, resources=(replace(worker, price=prices[0]), replace(ps, price=prices[1])))
    slots = [SlotPrice(slot, pool.slot_start(slot), (price, price)) for slot, price in enumerate(prices[2:], 1)]
    over = SlotPrice(-1, pool.slot_start(-1), (0.0312, 0.0312))
    assert tiles(pool, now, PriceHistory((over, *slots), pool.slot_start(len(prices) - 1))).digits == digits


def test_strip_of_prices_names_the_highest_one_to_come() -> None:
    pool, _ = make_market("lumen")
    prices = [1.0] * 40
    prices[21] = 3.0
    strips = list(_prices(slots_priced(pool, *prices), BarSpan(0, 40), 10))
    named = [strip.slot for strip in strips if strip.has_label]
    assert 21 in named
    assert min(later - earlier for earlier, later in pairwise(named)) >= 3, "room for each"


def test_time_beside_the_plate_of_now_has_room_for_its_day() -> None:
    pool = Pool(slot_seconds=3600, epoch_at=timezone.now() - timedelta(days=2))  # all of them days ago
    ticks = list(_ticks(pool, BarSpan(0, 16), 50.0))
    assert [tick.x for tick in ticks if not tick.has_label] == [37.5, 50.0]
