"""A tenant takes a job back: what returns, what the owners keep, and whose the freed units are."""

from __future__ import annotations

import re
from datetime import datetime
from unittest import mock

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from scheduling.jobs.cancel_preview import cancel_preview, kept_parts
from scheduling.jobs.cancellation import job_cancel
from scheduling.models import Award, FreedUnits, Server, TrainingJob
from tenants.access import Access, Refused
from tenants.roles import BILLING, OPERATOR, SUBMITTER, VIEWER
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.live import (
    again,
    book_is_sound,
    enter,
    events,
    fund,
    holdings,
    make_award,
    make_live_pool,
    member,
    moment,
    money,
    operator_money,
    publish,
    settle,
    submitted,
)
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db


def cancel(job, tenant, *, slot: float = 0.0):
    return job_cancel(job_id=job.pk, by=member(tenant), at=moment(slot))


def rented(keep: int = 0, start: int = 2, **fields):
    """Lumen rents all of castor's server for three slots, at ten micro-credits each."""
    pool, lumen, castor = make_live_pool(cancellation_keep_percent=keep), make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, worker=4, ps=1)
    make_cells(server, castor, {"worker": 4, "ps": 1})
    fund(lumen)
    publish(pool, frontier=8)
    charges = [[(castor, 7), (None, 3)]] * 3
    allocation = [[server.pk, start, start + 3, 4, 1]]
    award = make_award(pool, lumen, start=start, slots=3, charges=charges, allocation=allocation, **fields)
    enter(award)
    return pool, lumen, castor, award


def freed() -> list[tuple[str, str, int, float]]:
    with scope_disabled("the test looks at freed units"):
        rows = FreedUnits.objects.order_by("slot", "resource").select_related("resource")
        return [(row.resource.name, row.part, row.slot, row.amount) for row in rows]


def test_a_waiting_job_is_cancelled_at_no_cost() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    job = submitted(pool, lumen, lane="batch").job
    assert cancel(job, lumen, slot=1).pk == job.pk
    row = again(job)
    assert (row.state, row.reason_code, row.ended_at) == ("cancelled", "cancelled_by", moment(1))
    assert [event.tenant_id for event in events("job_cancelled")] == [lumen.pk]


def test_cancelling_twice_is_cancelling_once() -> None:
    _, lumen, _, award = rented()
    cancel(award.job, lumen)
    assert not isinstance(cancel(award.job, lumen, slot=1), Refused)
    assert (len(events("job_cancelled")), money(lumen)) == (1, (1_000_000_000, 0, 0))


def test_a_job_that_is_over_cannot_be_cancelled() -> None:
    pool, lumen, _, award = rented(start=0)
    settle(pool, 0, 1, 2)
    answer = cancel(award.job, lumen, slot=4)
    assert isinstance(answer, Refused)
    assert answer.code == "already_over"


def test_another_tenants_job_does_not_exist_here() -> None:
    _, _, castor, award = rented()
    answer = cancel(award.job, castor)
    assert isinstance(answer, Refused)
    assert (answer.code, again(award.job).state) == ("unknown_job", "awarded")


@pytest.mark.parametrize("role", [VIEWER, BILLING, OPERATOR])
def test_refuses_whoever_may_not_cancel(role: str) -> None:
    _, lumen, _, award = rented()
    by: Access = member(lumen, role)
    answer = job_cancel(job_id=award.job_id, by=by, at=moment(0))
    assert isinstance(answer, Refused)
    assert again(award).state == "booked"


def test_before_its_start_all_the_money_and_all_the_units_come_back() -> None:
    pool, lumen, castor, award = rented()
    cancel(award.job, lumen)
    assert (money(lumen), money(castor), operator_money()) == ((1_000_000_000, 0, 0), (0, 0, 0), 0)
    assert holdings(pool, "batch") == {}
    row = again(award)
    assert (row.state, row.cut_at, row.returned) == ("ended", 2, 30)
    assert freed() == []  # its tenant has paid for nothing: they are the owner's to earn on
    settle(pool, 0, 1, 2, 3, 4)
    assert money(castor) == (0, 0, 0)
    assert book_is_sound()


def test_before_its_start_the_owners_keep_their_part_of_what_the_rule_keeps() -> None:
    _, lumen, castor, award = rented(keep=50)
    cancel(award.job, lumen)
    assert (money(lumen), money(castor), operator_money()) == ((999_999_985, 0, 0), (0, 0, 11), 4)
    assert again(award).returned == 15
    assert book_is_sound()


def test_when_the_rule_keeps_everything_nothing_comes_back() -> None:
    _, lumen, castor, award = rented(keep=100)
    cancel(award.job, lumen)
    assert (money(lumen), money(castor), operator_money()) == ((999_999_970, 0, 0), (0, 0, 21), 9)


def test_once_it_runs_it_pays_for_all_it_reserved() -> None:
    pool, lumen, castor, award = rented(start=0)
    settle(pool, 0)
    cancel(award.job, lumen, slot=1.5)
    assert again(award.job).state == "cancelled"
    settle(pool, 1, 2)
    assert (money(lumen), money(castor), operator_money()) == ((999_999_970, 0, 0), (0, 0, 21), 9)
    assert (again(award).state, again(award).cut_at) == ("ended", 2)
    assert book_is_sound()


def test_units_given_up_while_it_runs_are_on_sale_for_its_account() -> None:
    pool, lumen, _, award = rented(start=0)
    settle(pool, 0)
    cancel(award.job, lumen, slot=1.5)
    assert freed() == [("worker", "home", 2, 4.0), ("ps", "home", 2, 1.0)]
    assert {slot for *_, slot in holdings(pool, "batch")} == {0, 1}


def test_in_its_last_slot_nothing_is_left_to_give_up() -> None:
    pool, lumen, _, award = rented(start=0)
    settle(pool, 0, 1)
    cancel(award.job, lumen, slot=2.5)
    assert (freed(), again(award).cut_at) == ([], None)
    settle(pool, 2)
    assert (again(award).state, again(award.job).state) == ("done", "cancelled")


def test_an_own_award_is_free_and_its_cells_are_its_tenants_before_the_frontier() -> None:
    pool, castor = make_live_pool(), make_tenant("castor")
    server = make_server(pool, worker=4, ps=1)
    make_cells(server, castor, {"worker": 4, "ps": 1})
    publish(pool, frontier=3)
    award = make_award(pool, castor, slots=5, phase="own", allocation=[[server.pk, 0, 5, 4, 1]])
    enter(award)
    settle(pool, 0)
    cancel(award.job, castor, slot=1)
    assert [slot for _, _, slot, _ in freed()] == [2, 2]
    assert {slot for *_, slot in holdings(pool, "batch")} == {0, 1}


def test_an_instant_award_gives_back_the_operators_units() -> None:
    pool, lumen = make_live_pool(), make_tenant("lumen")
    make_server(pool, worker=4, ps=1)
    fund(lumen)
    answer = submitted(pool, lumen, slot=0.5)
    cancel(answer.job, lumen, slot=0.6)
    assert (holdings(pool), money(lumen)) == ({}, (1_000_000_000, 0, 0))
    with scope_disabled("the test looks at all awards"):
        assert Award.objects.get().state == "ended"
        assert Server.objects.count() == 1


def test_a_job_accepted_under_a_budget_can_be_cancelled_when_the_budget_is_gone() -> None:
    _, lumen, _, award = rented()
    with scope(lumen), as_superuser():
        type(award.job).objects.filter(pk=award.job_id).update(spec=award.job.spec | {"rent": "budget"})
    assert not isinstance(cancel(award.job, lumen), Refused)


@given(
    charges=st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**12)), max_size=6), max_size=8),
    percent=st.integers(0, 100),
)
def test_what_is_kept_is_the_rules_part_to_the_last_micro_credit(charges, percent) -> None:
    parts = kept_parts(charges, percent)
    paid = sum(amount for slot in charges for _, amount in slot)
    assert sum(amount for _, amount in parts) == paid * percent // 100
    assert all(amount > 0 for _, amount in parts)
    for owner, amount in parts:
        assert amount <= sum(part for slot in charges for who, part in slot if who == owner)


@pytest.mark.parametrize(("slot", "back"), [(0.5, 30), (2.5, 0)])
def test_what_is_told_of_a_cancellation_is_what_comes_back_with_it(slot: float, back: int) -> None:
    """And not what had come back before, as alone would have been better."""
    adjusted = {"rent": "closed", "adjusted": 6, "returned": 6} if slot > 2 else {}
    _, lumen, _, award = rented(**adjusted)
    before = money(lumen)[0]
    cancel(award.job, lumen, slot=slot)
    (event,) = events("job_cancelled")
    assert event.data["returned"] == money(lumen)[0] - before == back


def state_of(award: Award) -> str:
    with scope_disabled("the test looks at the job"):
        return TrainingJob.objects.get(pk=award.job_id).state


def test_what_costs_more_by_now_than_was_shown_is_left_as_it_is() -> None:
    """It has begun since somebody looked. Who looks again may cancel it."""
    _, lumen, _, award = rented(10)
    with scope(lumen):
        costs = [cancel_preview(award.job, moment(slot)).costs for slot in (0.5, 2.5)]
    assert costs == [3, 30]
    before, by = money(lumen), member(lumen)
    refusal = job_cancel(job_id=award.job_id, by=by, at=moment(2.5), most=costs[0])
    assert isinstance(refusal, Refused)
    assert (refusal.code, state_of(award), money(lumen)) == ("costs_more", "awarded", before)
    assert "costs 0.00003 by now, and not 0.000003" in refusal.sentence
    assert not isinstance(job_cancel(job_id=award.job_id, by=by, at=moment(2.5), most=costs[1]), Refused)
    assert state_of(award) == "cancelled"


def test_job_that_got_a_place_since_it_was_looked_at_costs_more_if_the_rule_keeps_something() -> None:
    _, lumen, _, award = rented(10)
    refusal = job_cancel(job_id=award.job_id, by=member(lumen), at=moment(0.5), most=0)
    assert isinstance(refusal, Refused)
    assert refusal.code == "costs_more"


class Clock:
    """The moment that pages take for now."""

    now = moment(0.5)

    def __call__(self) -> datetime:
        return self.now


def test_page_that_showed_less_shows_what_it_costs_by_now_before_anything_is_cancelled() -> None:
    _, lumen, _, award = rented(10)
    address, clock = f"/t/lumen/jobs/{award.job_id}/cancel/", Clock()
    with mock.patch.object(timezone, "now", clock):
        client = client_as(SUBMITTER, lumen)
        (costs,) = re.findall(r'name="costs" value="(\d+)"', client.get(address, secure=True).content.decode())
        clock.now = moment(2.5)
        page = client.post(address, {"costs": costs}, secure=True, follow=True).content.decode()
        assert state_of(award) == "awarded"
        assert "Cancelling costs 0.00003 by now" in text_of(page)
        (costs,) = re.findall(r'name="costs" value="(\d+)"', page)
        client.post(address, {"costs": costs}, secure=True)
    assert (state_of(award), costs) == ("cancelled", "30")


@pytest.mark.parametrize("field", ["3", "x", ""])
def test_of_several_jobs_those_that_cost_more_than_was_shown_are_left(field: str) -> None:
    _, lumen, _, award = rented(10)
    clock = Clock()
    with mock.patch.object(timezone, "now", clock):
        client = client_as(SUBMITTER, lumen)
        page = client.post("/t/lumen/jobs/cancel/", {"job": award.job_id}, secure=True).content.decode()
        assert f'name="costs-{award.job_id}" value="3"' in page
        clock.now = moment(2.5)
        fields = {"job": award.job_id, "confirmed": "1", f"costs-{award.job_id}": field}
        words = text_of(client.post("/t/lumen/jobs/cancel/", fields, secure=True, follow=True).content.decode())
        assert "left as it is" in words
        assert state_of(award) == "awarded"
        client.post("/t/lumen/jobs/cancel/", {**fields, f"costs-{award.job_id}": "30"}, secure=True)
    assert state_of(award) == "cancelled"
