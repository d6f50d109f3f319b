"""Plans that are renewed, in the market: what is rented meanwhile stays held until alone is known."""

from __future__ import annotations

from typing import Any

import pytest
from django.template.loader import render_to_string
from django.urls import reverse

from scheduling.audit.verification import intervals_verify
from scheduling.books.read_statements import statement_view
from scheduling.cluster import pool_overview
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.read_page import job_page
from scheduling.market.decide.interval import interval_run
from scheduling.market.reads.share import share_view
from scheduling.market.settle.slots import slot_settle
from scheduling.market.settle.stuck import stuck_awards
from scheduling.models import AlonePlan, Award, Event, JobFloor, TenantPolicy, TrainingJob
from scheduling.operator.holds import pool_drain, pool_resume
from scheduling.runs.failures import AwardFailed, award_fail
from tenants.access import access_of_system
from tenants.ledger.audit import verify
from tenants.roles import OPERATOR, OWNER
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import member, money, operator_money
from tests.scheduling.markets import MICRO
from tests.scheduling.pages import client_as, text_of
from tests.scheduling.renewing import World, renewing

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return renewing()


def all_is_proved(world: World) -> bool:
    with scope_disabled("the test verifies everything"):
        return intervals_verify(pool_ids=[world.pool.pk]).findings == () and verify().is_clean and not stuck_awards()


def paid_by_the_feed() -> int:
    """What owners are told to have been paid, slot by slot and as rents were settled."""
    settled = Event.objects.filter(kind="slot_settled").values_list("data", flat=True)
    assert all(data["paid"] == data["owners"] + data["operator"] and data["awards"] for data in settled)
    closed = Event.objects.filter(kind="interval_closed").values_list("data", flat=True)
    return sum(data["paid"] for data in settled) + sum(data["arrears"] for data in closed)


def test_what_is_rented_stays_held_until_the_job_has_started_alone_and_then_comes_back_in_part(world: World) -> None:
    advance(world.pool, 11.5)
    award = world.award
    assert (award.start, award.end, award.paid, award.rent, award.adjusted) == (2, 4, 13 * MICRO, "open", 0)
    assert world.held == 13 * MICRO  # held, although both slots have passed
    assert world.income == 0
    assert all_is_proved(world)
    advance(world.pool, 12.5)
    award = world.award
    assert (award.rent, award.adjusted, award.returned) == ("closed", 3 * MICRO, 3 * MICRO)
    assert world.held == 0
    assert world.income == 10 * MICRO
    assert paid_by_the_feed() == sum(money(tenant)[2] for tenant in (world.lumen, world.castor)) + operator_money()
    assert all_is_proved(world)
    with scope(world.lumen):
        now = moment(world.pool, 13)
        view = statement_view(tenant=world.lumen, start=moment(world.pool, 0), end=now, at=now)
        assert (view.adjusted, view.back_sum, view.spent_gain) == (3 * MICRO, 3 * MICRO, 0)
        assert [row.cause for row in view.back] == ["Alone it would have been worth more"]
        data = Event.objects.get(kind="award_adjusted").data
        job = TrainingJob.objects.select_related("pool", "tenant").get(pk=world.job.pk)
        page = job_page(job, at=moment(world.pool, 12.5), money=True)
    assert (data["refunded"], data["alone"], data["from_slot"], data["to_slot"]) == (3 * MICRO, 46.0, 12, 14)
    assert page.slots is not None
    assert (page.slots.paid, page.slots.settled, page.slots.returned, page.slots.kept) == (
        *(13 * MICRO, 10 * MICRO, 3 * MICRO),
        0,
    )


def test_what_is_projected_and_what_is_provisional_are_said_so(world: World) -> None:
    advance(world.pool, 2.5)
    at = moment(world.pool, 2.5)
    overview = pool_overview(world.pool)
    with scope(world.castor):
        share = share_view(tenant=world.castor, pool=world.pool, at=at, money=True, overview=overview)
    assert share.money is not None
    assert share.money.provisional == 13 * MICRO
    with scope(world.lumen):
        waiting = TrainingJob.objects.select_related("pool", "tenant").get(state="queued", arrival=0)
        page = job_page(waiting, at=at, money=True)
    assert page.home is not None
    assert (page.home.projected, page.home.start) == (True, 10)
    context = {"page": page, "job": waiting, "pool": world.pool}
    lead = " ".join(render_to_string("jobs/leads/reason.html", context).split())
    assert "projected to begin" in lead
    assert "never worse off than alone" in lead


def test_a_draft_is_planned_anew_at_each_boundary_and_every_row_stays(world: World) -> None:
    advance(world.pool, 12.5)
    with scope_disabled("the test looks at every plan"):
        rows = JobFloor.objects.filter(job=world.job).order_by("interval").values_list("start", "end", "value", "draft")
    assert list(rows) == [(16, 18, 42.0, True), (12, 14, 46.0, True), (12, 14, 46.0, False)]


def test_slots_that_are_settled_late_are_paid_late_and_once(world: World) -> None:
    """The interval that settles the rent is decided while the slots of the award are still to be settled."""
    for slot in range(13):
        interval_run(pool_id=world.pool.pk, slot=slot, at=moment(world.pool, slot))
    assert (world.award.rent, world.income, world.held) == ("closed", 0, 10 * MICRO)
    for slot in range(12):
        slot_settle(pool_id=world.pool.pk, slot=slot, at=moment(world.pool, slot + 1))
    assert (world.income, world.held) == (10 * MICRO, 0)
    assert all_is_proved(world)


def test_a_job_that_its_tenant_cancels_is_paid_for_and_nothing_comes_back(world: World) -> None:
    advance(world.pool, 2.5)
    cancelled = job_cancel(job_id=world.job.pk, by=member(world.lumen), at=moment(world.pool, 2.5))
    assert isinstance(cancelled, TrainingJob)
    advance(world.pool, 6.5)
    assert (world.award.rent, world.award.adjusted, world.income) == ("closed", 0, 13 * MICRO)
    assert world.held == 0
    assert paid_by_the_feed() == 13 * MICRO
    with scope(world.lumen):
        job = TrainingJob.objects.select_related("pool", "tenant").get(pk=world.job.pk)
        page = job_page(job, at=moment(world.pool, 6.5), money=True)
    assert page.home is not None
    assert page.in_market is not None
    assert page.gain is None  # it never had what it was given
    assert all_is_proved(world)


def test_what_the_platform_loses_is_refunded_and_what_it_delivered_is_paid(world: World) -> None:
    advance(world.pool, 3.2)
    failed = award_fail(award_id=world.award.pk, slot=3, detail="out of disk", at=moment(world.pool, 3.5))
    assert isinstance(failed, AwardFailed)
    advance(world.pool, 4.2)
    with scope_disabled("the test looks at the first attempt"):
        first = Award.objects.filter(job=world.job).order_by("attempt")[0]
    assert (first.state, first.rent, first.returned, first.adjusted) == ("void", "closed", 6_500_000, 0)
    assert world.income == 6_500_000
    assert all_is_proved(world)


@pytest.mark.one_case
@pytest.mark.parametrize(
    ("column", "value"), [("rent", "open"), ("rent", ""), ("adjusted", 2 * MICRO), ("returned", 4 * MICRO)]
)
def test_verification_names_an_award_whose_settlement_was_changed(world: World, column: str, value: object) -> None:
    advance(world.pool, 12.5)
    with as_superuser(), scope_disabled("somebody changes a row"):
        changes = {column: value} | ({"adjusted": 0} if column == "rent" else {})
        Award.objects.filter(pk=world.award.pk).update(**changes)
        flaws = intervals_verify(pool_ids=[world.pool.pk]).findings
    assert any(f"award {world.award.pk} " in each.where or "the rent of job" in each.where for each in flaws)


def test_a_tenant_that_keeps_its_plans_has_no_open_rents(world: World) -> None:
    with scope(world.lumen):
        TenantPolicy.objects.update(plan=AlonePlan.KEEP)
    advance(world.pool, 12.5)
    with scope_disabled("the test looks at every award"):
        assert not Award.objects.exclude(rent="").exists()
        assert not JobFloor.objects.filter(draft=True).exists()
    assert all_is_proved(world)


def test_while_the_market_is_on_hold_owners_and_operators_are_told_what_that_keeps_back(world: World) -> None:
    operator: dict[str, Any] = {"by": access_of_system("test"), "reason": "a look"}
    advance(world.pool, 3.2)
    pool_drain(pool=world.pool, at=moment(world.pool, 3.3), **operator)
    advance(world.pool, 20.5)
    assert (world.held, world.income, world.award.state) == (13 * MICRO, 0, "done")
    pages = [
        (client_as(OWNER, world.castor), reverse("tenant_share", args=["castor"])),
        (client_as(OPERATOR, None), reverse("operator_pool", args=[world.pool.slug])),
    ]
    owners, operators = (text_of(client.get(page, secure=True).content.decode()) for client, page in pages)
    assert "13.00 may still change" in owners
    assert "none of it is paid before it goes on" in owners
    assert "13.00 of rents that are over are settled by an interval" in operators
    pool_resume(pool=world.pool, at=moment(world.pool, 20.6), **operator)
    advance(world.pool, 30.5)
    assert (world.held, world.income + world.award.adjusted) == (0, 13 * MICRO)
    assert "rents that are over" not in text_of(pages[1][0].get(pages[1][1], secure=True).content.decode())
    assert all_is_proved(world)
