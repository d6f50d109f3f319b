"""The home of operators and auditors: the whole market on one page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling.cluster import pool_overview
from scheduling.feed import EventKind
from scheduling.market.reads import holdings_in, owners_now, units_now
from scheduling.models import Event, FairnessAlert, LaneClock, Server, ServerState
from scheduling.overview import read_overview
from scheduling.overview.decisions import decisions
from scheduling.overview.pages.overview import PARTS
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import available
from tenants.ledger.selectors import balance
from tenants.models import Tenant
from tenants.roles import AUDITOR, OPERATOR, OWNER
from tenants.scoping import scope_disabled
from tenants.templatetags.look import figure
from tests.market.test_servers_page import make_person
from tests.scheduling.builders import make_tenant
from tests.scheduling.elastic_world import make_elastic, make_elastic_job, run
from tests.scheduling.live import fund
from tests.scheduling.markets import make_waiting
from tests.scheduling.pages import NOW, Story, client_as, client_of, story, text_of

pytestmark = pytest.mark.django_db
BYTES, MOST_QUERIES = 400_000, 29  # of the whole page with one pool; eight more with each


@pytest.fixture
def world() -> Story:
    return story()


@pytest.fixture
def operator() -> Client:
    return client_of(make_person(OPERATOR, None))


def test_staff_begin_at_the_overview_and_others_never_see_it(world, operator) -> None:
    assert operator.get("/")["Location"] == "/overview/"
    assert client_as(AUDITOR, None).get("/overview/").status_code == 200
    owner = client_as(OWNER, world.renter)
    assert owner.get("/overview/").status_code == 403
    assert owner.get("/")["Location"] == f"/t/{world.renter.slug}/"
    assert Client().get("/overview/")["Location"].startswith("/accounts/login/")


def test_page_says_who_uses_what_who_waits_and_what_is_held(world, operator) -> None:
    page = operator.get("/overview/").content.decode()
    words = text_of(page)
    assert "2 jobs run and 1 waits" in words
    for heading in ("Use by pool and owner", "Queue", "Latest intervals", "Money in motion"):
        assert heading in words
    assert len(page) < BYTES
    for name in PARTS:
        part = operator.get(f"/overview/?part={name}")
        assert part.status_code == 200
        assert f'id="overview-{name}"' in part.content.decode()
    assert operator.get("/overview/?part=nothing").status_code == 404


def test_all_owners_in_one_pass_get_what_each_gets_alone(world) -> None:
    overview, holdings = pool_overview(world.pool), holdings_in(world.pool, NOW)
    together = {
        total.resource: owners_now(holdings=holdings, overview=overview, resource=total.resource)
        for total in overview.totals
    }
    for tenant in (world.owner, world.renter):
        pool, near = world.pool, holdings_in(world.pool, NOW, near=tenant.pk)
        alone = units_now(tenant_id=tenant.pk, pool=pool, slot=NOW, holdings=holdings, overview=overview)
        assert alone == units_now(tenant_id=tenant.pk, pool=pool, slot=NOW, holdings=near, overview=overview)
        for share in alone.totals:
            line = {one.tenant_id: one for one in together[share.name]}.get(tenant.pk)
            numbers = (line.units, line.used, line.lent, line.rented) if line else (0, 0, 0, 0)
            assert numbers == (share.units, share.used, share.lent, share.rented)
    workers = together[overview.totals[0].resource]
    assert sum(one.lent for one in workers) == sum(one.rented for one in workers) > 0


def test_a_late_clock_a_hold_a_lost_server_and_ending_credits_want_a_decision(world, operator) -> None:
    assert "Nothing wants a decision" in text_of(operator.get("/overview/?part=now").content.decode())
    LaneClock.objects.filter(pool=world.pool, lane="batch").update(held=True)
    server = Server.objects.filter(pool=world.pool).order_by("pk").first()
    assert server is not None
    Server.objects.filter(pk=server.pk).update(state=ServerState.LOST)
    at = timezone.now()
    until = (at + timedelta(hours=2)).isoformat()
    with scope_disabled("the test tells a tenant that its credits end"):
        Event.objects.create(
            kind=EventKind.LOW_BALANCE, tenant=world.renter, pool=world.pool, at=at, data={"until": until, "slot": NOW}
        )
    words = text_of(operator.get("/overview/?part=now").content.decode())
    assert "is on hold: nothing new is decided" in words
    assert f"{server.name} in {world.pool.name} is lost" in words
    assert f"{world.renter.name} runs out of credits" in words
    assert "3 things want a decision" in words
    assert server.name in text_of(operator.get("/overview/?part=health").content.decode())
    LaneClock.objects.filter(pool=world.pool, lane="batch").update(held=False, decided_slot=NOW - 5)
    words = text_of(operator.get("/overview/?part=now").content.decode())
    assert "1 thing does not work as it should" in words
    assert "decisions wait" in words


@pytest.mark.parametrize("state", [ServerState.LOST, ServerState.IN_SERVICE])
def test_servers_of_which_the_same_is_said_are_one_thing_from_four_on(state: ServerState) -> None:
    def wanted(count: int) -> list[tuple[str, str]]:
        names = [f"n{number}" for number in range(count)]
        servers = [
            read_overview.ServerTrouble(5, name, "Big", "big", state, "down", None, "no reply") for name in names
        ]
        at = timezone.now()
        wanted = decisions(at=at, pools=[], servers=servers, engines=[], tenants={}, difference=0)
        return [(decision.title, decision.page + decision.query) for decision in wanted]

    word = "lost" if state == ServerState.LOST else "down"
    assert wanted(3) == [(f"n{number} in Big is {word}", "operator_server") for number in range(3)]
    ((title, address),) = wanted(20)
    assert title == f"20 servers in Big are {word}"
    assert address == "operator_servers?pool=big" + ("&state=lost" if state == ServerState.LOST else "")


def test_a_passed_limit_of_fairness_is_told_in_whole_figures(world) -> None:
    jumps = {"measure": "price_jumps", "threshold": 10.0, "value": 1234.0}
    FairnessAlert.objects.create(pool=world.pool, passed_at=timezone.now(), **jumps)
    wanted = decisions(at=timezone.now(), pools=[], servers=[], engines=[], tenants={}, difference=0)
    (text,) = [decision.text for decision in wanted if decision.page == "fairness_alerts"]
    assert text == f"Price jumps stands at {figure(1234.0)}; the limit is {figure(10.0)}."
    assert "e+" not in text


def test_where_there_are_more_than_fit_the_rest_is_one_line_and_sums_stay(world, operator, monkeypatch) -> None:
    tenants = {tenant.pk: tenant for tenant in Tenant.objects.all()}
    at = timezone.now()
    (whole,), money = read_overview.pools_now(at, tenants), read_overview.money_now(at, tenants)
    monkeypatch.setattr(read_overview, "MOST_OWNERS", 1)
    (cut,), less = read_overview.pools_now(at, tenants), read_overview.money_now(at, tenants)
    assert [line.name for line in cut.lines] == [world.owner.name, None]
    assert cut.lines[1].share.rented == whole.lines[1].share.rented > 0
    assert (cut.whole, less.whole, less.difference) == (whole.whole, money.whole, 0)
    assert less.others is not None
    assert less.lines[0].funds.held + less.others.funds.held == money.whole.funds.held
    page = text_of(operator.get("/overview/").content.decode())
    assert "Others" in page
    assert "The others" in page


def query_count(client: Client) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get("/overview/").status_code == 200
    return len(captured)


def test_queries_do_not_grow_with_tenants_and_jobs(world, operator) -> None:
    operator.get("/overview/")
    before = query_count(operator)
    assert before <= MOST_QUERIES, before
    for number in range(5):
        tenant: Tenant = make_tenant(f"more-{number}")
        fund(tenant, 100)
        make_waiting(world.pool, tenant, NOW + 0.1)
    assert query_count(operator) == before


def test_all_jobs_are_found_by_tenant_pool_state_and_name(world, operator) -> None:
    other = make_tenant("other")
    lonely = make_waiting(world.pool, other, NOW + 0.1)
    words = text_of(operator.get("/overview/jobs/").content.decode())
    for job in (world.running, world.waiting, lonely):
        assert f"J-{job.pk}" in words
    for query, expected in (
        ("tenant=other", {lonely.pk}),
        (f"tenant={world.renter.slug}&state=queued", {world.waiting.pk}),
        ("name=nothing-like-this", set()),
        ("pool=no-such-pool&tenant=other", {lonely.pk}),
    ):
        words = text_of(operator.get(f"/overview/jobs/?{query}").content.decode())
        assert {pk for pk in (world.running.pk, world.waiting.pk, lonely.pk) if f"J-{pk} " in words} == expected, query
    assert client_as(OWNER, world.renter).get("/overview/jobs/").status_code == 403


def test_interval_of_an_elastic_pool_deals_out_the_slot_that_it_decides_about() -> None:
    pool, _, renter = make_elastic()
    make_elastic_job(pool, renter)
    run(pool, 0, 1)
    newest = read_overview.intervals_latest([pool])[0]
    assert newest.awarded == 1
    assert (newest.starts_at, newest.ends_at) == (newest.boundary, newest.boundary + timedelta(seconds=10))
    assert newest.seconds == 10


def test_who_has_credits_again_does_not_run_out_of_them(world, operator) -> None:
    """The warning stands in the feed until the moment that it foretold; credits that were granted meanwhile count."""
    at, pool, renter = timezone.now(), world.pool, world.renter
    with scope_disabled("the test reads the balance"):
        credits = balance(account=available(renter.pk)) // MICRO

    def is_named(per_slot: int) -> bool:
        data = {"per_slot": per_slot * MICRO, "until": (at + timedelta(hours=2)).isoformat(), "slot": NOW}
        with scope_disabled("the test tells a tenant that its credits end"):
            Event.objects.create(kind=EventKind.LOW_BALANCE, tenant=renter, pool=pool, at=at, data=data)
        return f"{renter.name} runs out of credits" in text_of(operator.get("/overview/?part=now").content.decode())

    assert is_named(per_slot=credits // pool.clock_cap + 1)
    assert not is_named(per_slot=credits // pool.clock_cap)
