"""A tenant's own idle cells in the instant lane of a live pool, and what it rents beyond them at net prices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduling.app.clock import pool_advance
from scheduling.audit.verification.answers import AnswerWalk, answers_walk
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.read_page import job_page
from scheduling.market.decide.chain import START
from scheduling.market.prices.posted import prices_refresh
from scheduling.models import Award, FreedUnits, LaneClock, Pool, PriceTick, TenantPolicy, TrainingJob
from scheduling.quotes.quotes import Quote, job_quote
from tenants.ledger.amounts import MICRO
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import (
    SPEC,
    again,
    explained,
    fund,
    holdings,
    make_live_pool,
    member,
    moment,
    money,
    operator_money,
    publish,
    settle,
    submitted,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _decided_again(db: None) -> Iterator[None]:
    """Whatever a test does: every answer has its record, which says the same when it is decided again, and its award
    and the given up units it sold again are as it says."""
    yield
    with scope_disabled("the test verifies everybody's answers"):
        for pool in Pool.objects.all():
            walk = AnswerWalk(pool.pk, 0, START)
            assert not answers_walk(walk, upto=1_000, most=1_000)
            assert walk.findings == []
            assert walk.answers == TrainingJob.objects.filter(pool=pool, lane="instant").count()
            assert jobs_verify(pool, list(TrainingJob.objects.filter(pool=pool))) == []


def market(*, operator: bool = False, lumens: int = 0, frontier: int = 3, **fields: Any) -> tuple[Any, ...]:
    """Castor owns s01, with room for one job in each slot; pictor owns nothing. `operator`: s02 is nobody's home.
    `lumens`: s03 is lumen's, with room for so many."""
    pool = make_live_pool(**fields)
    castor, lumen, pictor = (make_tenant(slug) for slug in ("castor", "lumen", "pictor"))
    make_cells(make_server(pool, "s01", worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    if operator:
        make_server(pool, "s02", worker=4, ps=1)
    if lumens:
        units = {"worker": 4 * lumens, "ps": lumens}
        make_cells(make_server(pool, "s03", **units), lumen, units)
    for tenant in (castor, lumen, pictor):
        fund(tenant)
    publish(pool, frontier=frontier)
    return pool, castor, lumen, pictor


def quoted(pool: Pool, tenant: Tenant, slot: float = 0.0, **spec: Any) -> Quote:
    quote = job_quote(pool=pool, name="q", spec=SPEC | spec, lane="instant", by=member(tenant), at=moment(slot))
    assert isinstance(quote, Quote), quote
    return quote


def keep(pool: Pool, tenant: Tenant, **fields: Any) -> None:
    with scope(tenant):
        TenantPolicy.objects.create(tenant=tenant, pool=pool, **fields)


def test_own_idle_cells_come_before_the_operators_however_cheap_those_are() -> None:
    pool, castor, *_ = market(operator=True)
    award = again(submitted(pool, castor).award)
    assert (award.phase, award.start, award.paid, award.floor) == ("own", 0, 0, 99.0)
    settle(pool, 0)
    assert (money(castor), operator_money()) == ((1_000_000_000, 0, 0), 0)


def test_what_its_own_job_holds_is_idle_no_more_and_the_next_one_rents_beyond_or_waits_a_slot() -> None:
    pool, castor, *_ = market(operator=True)
    first, second, third = (again(submitted(pool, castor).award) for _ in range(3))
    assert [(award.phase, award.start) for award in (first, second, third)] == [
        ("own", 0),
        ("shared", 0),  # a slot's wait costs more than the operator asks
        ("own", 1),
    ]
    assert second.floor == 98.0
    assert second.charges == [[[0, 50_000]]]


def test_own_job_without_parameter_servers_is_counted_and_the_next_one_is_answered() -> None:
    pool, castor, *_ = market(operator=True)
    without = {"ps_demand": [], "ps_mbps": None}
    first, second, third = (again(submitted(pool, castor, **without).award) for _ in range(3))
    assert [(award.phase, award.start) for award in (first, second, third)] == [("own", 0), ("shared", 0), ("own", 1)]


def test_nobody_else_has_them_for_nothing_and_nobody_else_gets_what_is_in_use() -> None:
    pool, castor, _, pictor = market()
    assert again(submitted(pool, castor).award).phase == "own"
    award = again(submitted(pool, pictor).award)
    assert (award.phase, award.start) == ("shared", 1)
    assert {owner for slot in award.charges for owner, _ in slot} == {castor.pk}


def test_a_tenant_that_keeps_its_cells_uses_them_at_once_and_they_are_for_sale_to_nobody() -> None:
    pool, castor, _, pictor = market()
    keep(pool, castor, lend="keep")
    assert submitted(pool, pictor).award is None
    assert again(submitted(pool, castor).award).phase == "own"
    assert again(submitted(pool, castor).award).start == 1


def test_cells_below_their_reserve_price_are_their_owners_to_use() -> None:
    pool, castor, _, pictor = market()
    keep(pool, castor, reserve_price={"worker": 5.0})
    assert submitted(pool, pictor).award is None
    assert again(submitted(pool, castor).award).phase == "own"


def test_cells_that_were_sold_before_are_not_idle() -> None:
    pool, castor, _, pictor = market()
    assert again(submitted(pool, pictor).award).start == 0
    award = again(submitted(pool, castor).award)
    assert (award.phase, award.start) == ("own", 1)


def test_cells_that_somebody_gave_up_who_has_paid_for_them_are_sold_again_for_its_account() -> None:
    pool, castor, _, pictor = market(frontier=2)
    job = submitted(pool, pictor, chunks=8, max_workers=4).job  # both slots
    job_cancel(job_id=job.pk, by=member(pictor), at=moment(0.5))
    award = again(submitted(pool, castor, slot=0.6).award)
    assert (award.phase, award.start, award.charges) == ("shared", 1, [[[pictor.pk, 50_000]]])


def test_cells_that_the_tenant_gave_up_itself_are_its_own_again_and_are_not_sold_twice() -> None:
    pool, castor, _, pictor = market(frontier=2)
    job = submitted(pool, castor, chunks=8, max_workers=4).job
    job_cancel(job_id=job.pk, by=member(castor), at=moment(0.5))
    with scope_disabled("the test looks at freed units"):
        assert list(FreedUnits.objects.values_list("slot", "sold").distinct()) == [(1, 0.0)]
    award = again(submitted(pool, castor, slot=0.6).award)
    assert (award.phase, award.start) == ("own", 1)
    with scope_disabled("the test looks at freed units"):
        assert all(row.sold == row.amount for row in FreedUnits.objects.all())
    assert submitted(pool, pictor, slot=0.7).award is None


def test_a_job_that_is_taken_back_leaves_its_cells_idle() -> None:
    pool, castor, *_ = market()
    job = submitted(pool, castor, slot=0.5).job
    job_cancel(job_id=job.pk, by=member(castor), at=moment(0.6))
    assert holdings(pool) == {}
    assert again(submitted(pool, castor, slot=0.7).award).start == 1


def test_behind_the_frontier_own_cells_are_the_batch_lanes() -> None:
    pool, castor, *_ = market(operator=True, frontier=1)
    assert again(submitted(pool, castor).award).phase == "own"
    later = again(submitted(pool, castor, epochs=2).award)
    assert (later.phase, later.floor) == ("shared", 0.0)


def test_contributions_are_those_of_the_batch_plan_whatever_owners_use_at_once() -> None:
    pool, castor, lumen, pictor = market(lumens=1)
    before = quoted(pool, pictor)
    assert again(submitted(pool, castor).award).phase == "own"
    after = quoted(pool, pictor)
    assert dict(before.terms.payees or {}) == {castor.pk: 25_000, lumen.pk: 25_000}
    assert dict(after.terms.payees or {}) == {castor.pk: 25_000, lumen.pk: 25_000}


def test_what_it_rents_is_decided_by_what_does_not_come_back() -> None:
    """Castor's cells are half of what is idle: half of what it pays for lumen's comes back."""
    pool, castor, lumen, _ = market(lumens=1, frontier=1)
    submitted(pool, castor)
    job = {"value": {"kind": "linear", "slope": 0.0, "base": 0.03}}
    quote = quoted(pool, castor, **job)
    assert (quote.terms.price, quote.terms.own_part, quote.terms.net) == (50_000, 25_000, 25_000)
    award = again(submitted(pool, castor, **job).award)
    assert (award.paid, award.own_part, award.phase) == (50_000, 25_000, "shared")
    settle(pool, 0)
    assert (money(castor), money(lumen)) == ((999_950_000, 0, 25_000), (1_000_000_000, 0, 25_000))


def test_what_is_worth_less_than_its_net_price_is_outbid_and_told_so() -> None:
    pool, castor, _, pictor = market(lumens=2, frontier=1)
    submitted(pool, castor)
    submitted(pool, pictor)  # half of lumen's is sold, so the rest is dear
    terms = quoted(pool, castor).terms
    assert 2 * terms.own_part == pytest.approx(terms.net, abs=3)  # a third of what is idle at home is castor's
    worth = terms.net / MICRO - 0.001
    cheap = {"value": {"kind": "linear", "slope": 0.0, "base": worth}}
    job = again(submitted(pool, castor, **cheap).job)
    assert job.reason_code == "outbid"
    least = job.reason_numbers["net_price_at_least"]
    assert least * MICRO == pytest.approx(terms.net, abs=3)
    with scope(castor):
        sentence = explained(job).reason.sentence
    assert sentence == f"After your own part it costs at least {least:.3f}, and the job is worth {worth:.3f}."
    change = quoted(pool, castor, **cheap).change
    assert change is not None
    assert (change.what, change.after) == ("higher_value", pytest.approx(terms.net / MICRO * 1.001, abs=3e-6))
    assert change.terms is not None
    assert change.terms.net == terms.net


def test_a_limit_is_held_against_all_that_must_be_set_aside() -> None:
    pool, castor, *_ = market(lumens=1, frontier=1)
    submitted(pool, castor)
    job = again(submitted(pool, castor, max_price=0.04).job)
    assert (job.reason_code, job.reason_numbers) == ("over_max_price", {"price": 0.05, "max_price": 0.04})


def test_a_quote_for_own_cells_is_free_and_the_submission_keeps_it() -> None:
    pool, castor, *_ = market(operator=True)
    quote = quoted(pool, castor)
    assert (quote.terms.phase, quote.terms.price, quote.terms.worth) == ("own", 0, 99.0)
    award = again(submitted(pool, castor).award)
    assert (award.phase, award.start, award.end) == ("own", quote.terms.start, quote.terms.end)


def test_a_job_page_says_what_came_back_and_what_home_would_have_been_worth() -> None:
    pool, castor, *_ = market(lumens=1)
    submitted(pool, castor)
    job = submitted(pool, castor).job  # a slot's wait at home is worth 98, the other server at once 99
    with scope(castor):
        page = job_page(again(job), at=moment(0), money=True)
    assert page.in_market is not None
    assert (page.in_market.pays, page.in_market.own_part, page.in_market.net) == (50_000, 25_000, 25_000)
    assert page.in_market.surplus == 99_000_000 - 25_000
    assert page.own_idle_worth == 98_000_000


def test_a_batch_plan_is_the_same_whether_its_owner_ran_at_once_or_not() -> None:
    plans = []
    for at_once in (False, True):
        castor = make_tenant()
        pool = make_live_pool(slug=f"pool-{at_once:d}", clock_first=4, clock_cap=4, clock_restart=False)
        make_cells(make_server(pool, "s01", worker=4, ps=1), castor, {"worker": 4, "ps": 1})
        pool_advance(pool_id=pool.pk, at=moment(4))
        if at_once:
            assert again(submitted(pool, castor, slot=4).award).phase == "own"
        job = submitted(pool, castor, lane="batch", slot=5, epochs=4).job
        pool_advance(pool_id=pool.pk, at=moment(8))
        with scope(castor):
            award = Award.objects.get(job=job)
        plans.append((award.start, award.end, award.paid, award.phase, award.value))
    assert plans[0] == plans[1] == (8, 12, 0, "own", 93.0)


@pytest.mark.parametrize("sharing", [{}, {"lend": "keep"}, {"reserve_price": {"worker": 5.0}}])
def test_what_own_use_posts_is_what_the_next_slot_would_have_posted_anew(sharing: dict[str, Any]) -> None:
    """What was kept back was not for sale before, and is not less for sale now."""
    pool, castor, *_ = market(lumens=1, operator=True, posted_slots=4)
    keep(pool, castor, **sharing)
    publish(pool, frontier=3, settled=-1)
    LaneClock.objects.filter(pool=pool, lane="batch").update(decided_slot=0)
    assert prices_refresh(pool=pool)
    before = posted(pool)
    assert again(submitted(pool, castor, chunks=2, max_workers=2, min_workers=2).award).phase == "own"
    after = posted(pool)
    LaneClock.objects.filter(pool=pool, lane="instant").update(decided_slot=-1)
    assert prices_refresh(pool=pool)
    assert [row[:2] for row in posted(pool)] == [row[:2] for row in after]
    sold = [row[2] - earlier[2] for row, earlier in zip(after, before, strict=True)]
    assert sold[:2] == [2.0, 1.0]  # of slot 0: they are in use


def posted(pool: Pool) -> list[tuple[int, float | None, float]]:
    rows = PriceTick.objects.filter(pool=pool, lane="instant").order_by("slot", "resource")
    return [(row.slot, row.price, row.sold) for row in rows]
