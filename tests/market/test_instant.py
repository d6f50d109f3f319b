"""The instant lane: an answer at once, at a price that is paid, on units that nobody else holds."""

from __future__ import annotations

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.market.decide.instant import instant_admit
from scheduling.models import Award, Budget, CalendarCell, LaneClock, Pool, Server, TenantPolicy, TrainingJob
from tenants.access import Refused
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import (
    again,
    book_is_sound,
    events,
    fund,
    holdings,
    make_award,
    make_live_pool,
    moment,
    money,
    operator_money,
    publish,
    settle,
    submit,
    submitted,
)

pytestmark = pytest.mark.django_db


def operators_server(worker: int = 4, ps: int = 1):
    """A pool whose only server is the operator's, and a tenant with money."""
    pool, lumen = make_live_pool(), make_tenant("lumen")
    make_server(pool, worker=worker, ps=ps)
    fund(lumen)
    return pool, lumen


def owned_server(frontier: int):
    """A pool whose only server is castor's, with batch plans published up to the frontier."""
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    make_cells(make_server(pool, worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    fund(lumen)
    publish(pool, frontier=frontier)
    return pool, lumen, castor


def refused(answer: object) -> TrainingJob:
    assert not isinstance(answer, Refused), answer
    assert answer.award is None
    return again(answer.job)


def test_admits_at_once_with_a_schedule_a_price_and_a_hold() -> None:
    pool, lumen = operators_server()
    answer = submitted(pool, lumen)
    award = again(answer.award)
    assert (award.start, award.end, award.workers, award.ps) == (0, 1, 4, 1)
    assert award.paid == 50_000  # five units at the floor, a hundredth of a credit
    assert money(lumen) == (999_950_000, 50_000, 0)
    assert award.charges == [[[0, 50_000]]]
    assert (again(answer.job).state, again(award).state) == ("running", "running")  # it begins with the slot itself
    assert book_is_sound()


@pytest.mark.parametrize("whose", ["the job", "its tenant"])
def test_who_never_rents_is_sold_nothing_of_others(whose: str) -> None:
    pool, lumen = operators_server()
    if whose == "its tenant":
        with scope(lumen):
            TenantPolicy.objects.create(tenant=lumen, pool=pool, rent="never")
    job = refused(submit(pool, lumen, **({"rent": "never"} if whose == "the job" else {})))
    assert (job.state, job.reason_code, job.reason_numbers) == ("rejected", "rent_never", {"price": 0.05})
    assert money(lumen) == (1_000_000_000, 0, 0)
    if whose == "its tenant":  # what a job says goes before it
        assert submitted(pool, lumen, rent="auto").award is not None
    assert book_is_sound()
    with scope_disabled("the test verifies everything"):
        assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_who_never_rents_still_has_its_limit_and_its_empty_purse_named() -> None:
    pool, lumen = operators_server()
    limited = refused(submit(pool, lumen, rent="never", max_price=0.01))
    assert (limited.reason_code, limited.reason_numbers["max_price"]) == ("over_max_price", 0.01)
    poor = make_tenant("poor")
    assert refused(submit(pool, poor, rent="never")).reason_code == "low_balance"


def test_units_of_the_operator_are_entered_as_the_operators() -> None:
    pool, lumen = operators_server()
    award = submitted(pool, lumen).award
    assert holdings(pool) == {("s01", "worker", "operator", 0): 4.0, ("s01", "ps", "operator", 0): 1.0}
    assert again(award).on_operator == again(award).allocation


def test_what_is_settled_goes_to_the_operator() -> None:
    pool, lumen = operators_server()
    submitted(pool, lumen)
    settle(pool, 0)
    assert (money(lumen), operator_money()) == ((999_950_000, 0, 0), 50_000)


def test_a_job_starts_in_the_first_slot_that_begins_after_its_submission() -> None:
    pool, lumen = operators_server()
    answer = submitted(pool, lumen, slot=2.5)
    assert (again(answer.award).start, again(answer.job).state) == (3, "awarded")


def test_never_starts_in_a_slot_that_is_settled() -> None:
    pool, lumen = operators_server()
    settle(pool, 0, 1, 2, 3, 4)
    award = submitted(pool, lumen, slot=2.0).award
    assert again(award).start == 5


def test_the_next_job_takes_the_next_slot_when_this_one_is_full() -> None:
    pool, lumen = operators_server()
    assert [again(submitted(pool, lumen).award).start for _ in range(3)] == [0, 1, 2]


def test_refuses_what_is_not_worth_its_price_and_says_so() -> None:
    pool, lumen = operators_server()
    job = refused(submit(pool, lumen, value={"kind": "linear", "slope": 0.0, "base": 0.001}))
    assert (job.state, job.reason_code, job.ended_at) == ("rejected", "outbid", moment(0))
    assert job.reason_numbers["value"] == 0.001
    assert money(lumen) == (1_000_000_000, 0, 0)
    (event,) = events("job_refused")
    assert (event.tenant_id, event.data["reason"]) == (lumen.pk, "outbid")


def test_refuses_over_the_price_that_the_tenant_allows() -> None:
    pool, lumen = operators_server()
    job = refused(submit(pool, lumen, max_price=0.01))
    assert (job.reason_code, job.reason_numbers) == ("over_max_price", {"price": 0.05, "max_price": 0.01})


def test_refuses_a_tenant_without_funds_with_what_it_has() -> None:
    pool, lumen = make_live_pool(), make_tenant("lumen")
    make_server(pool)
    job = refused(submit(pool, lumen))
    assert (job.reason_code, job.reason_numbers) == ("low_balance", {"price": 0.05, "left": 0.0})


def test_refuses_over_budget_with_what_is_left() -> None:
    pool, lumen = operators_server()
    with scope(lumen):
        Budget.objects.create(tenant=lumen, period="day", hard_limit=70_000)
    submitted(pool, lumen)
    job = refused(submit(pool, lumen))
    assert (job.reason_code, job.reason_numbers) == ("over_budget", {"price": 0.05, "left": 0.02})


def test_a_budget_begins_anew_with_its_period() -> None:
    pool, lumen = operators_server()
    with scope(lumen):
        Budget.objects.create(tenant=lumen, period="day", hard_limit=70_000)
    submitted(pool, lumen)
    assert submitted(pool, lumen, slot=12 * 360).award is not None  # the first moment of the next day


def test_gives_one_notice_when_a_soft_limit_is_passed() -> None:
    pool, lumen = operators_server()
    with scope(lumen):
        Budget.objects.create(tenant=lumen, period="day", soft_limit=70_000)
    for _ in range(3):
        submitted(pool, lumen)
    (event,) = events("budget_passed")
    assert event.data == {"period": "day", "limit": 70_000, "spent": 100_000, "member": None}


def test_home_cells_are_sold_before_the_frontier_and_pay_their_owner() -> None:
    pool, lumen, castor = owned_server(frontier=2)
    award = again(submitted(pool, lumen).award)
    assert award.charges == [[[castor.pk, 50_000]]]
    assert holdings(pool) == {("s01", "worker", "home", 0): 4.0, ("s01", "ps", "home", 0): 1.0}
    settle(pool, 0)
    assert money(castor) == (0, 0, 50_000)


def test_home_cells_beyond_the_frontier_are_not_for_sale() -> None:
    pool, lumen, _ = owned_server(frontier=2)
    assert [again(submitted(pool, lumen).award).start for _ in range(2)] == [0, 1]
    assert refused(submit(pool, lumen)).reason_code == "no_room"


def test_home_cells_that_a_batch_plan_holds_are_not_for_sale() -> None:
    pool, lumen, castor = owned_server(frontier=2)
    server = Server.objects.get()
    make_award(pool, castor, slots=1, phase="own", allocation=[[server.pk, 0, 1, 4, 1]])
    hold_for_batch(pool, server, slot=0)
    assert again(submitted(pool, lumen).award).start == 1


def hold_for_batch(pool: Pool, server: Server, slot: int) -> None:
    for capacity in server.capacities.all():
        CalendarCell.objects.create(
            pool=pool,
            server=server,
            resource=capacity.resource,
            part="home",
            slot=slot,
            capacity=capacity.units,
            batch=capacity.units,
        )


def test_a_decided_job_is_not_decided_again() -> None:
    pool, lumen = operators_server()
    answer = submitted(pool, lumen)
    with scope(lumen), pytest.raises(RuntimeError, match="decided once"):
        instant_admit(job=answer.job, clock=LaneClock(), at=moment(9))
    assert money(lumen)[1] == 50_000


def test_a_repeated_submission_gives_the_award_back_and_pays_once() -> None:
    pool, lumen = operators_server()
    first, second = (submitted(pool, lumen, key="k1", slot=slot) for slot in (0, 3))
    assert (second.job.pk, second.award.pk, second.repeated) == (first.job.pk, first.award.pk, True)
    assert money(lumen)[1] == 50_000


def test_an_owner_has_its_own_idle_cells_for_nothing() -> None:
    pool, _, castor = owned_server(frontier=2)
    fund(castor)
    award = again(submitted(pool, castor).award)
    assert (award.phase, award.paid, award.charges, award.on_operator) == ("own", 0, [], [])
    settle(pool, 0)
    assert money(castor) == (1_000_000_000, 0, 0)


def test_is_closed_while_the_market_is_on_hold() -> None:
    pool, lumen = operators_server()
    LaneClock.objects.create(pool=pool, lane="instant", held=True)
    answer = submit(pool, lumen)
    assert isinstance(answer, Refused)
    assert answer.code == "market_held"
    with scope_disabled("the test counts all awards"):
        assert not Award.objects.exists()


def test_what_takes_too_long_to_answer_is_for_the_batch_lane() -> None:
    pool, lumen = operators_server()
    job = refused(submit(pool, lumen, epochs=1000, chunks=1000, max_workers=1000, min_workers=4))
    assert job.reason_code == "too_large_for_lane"


def test_more_workers_than_the_pool_has_are_as_many_as_it_has() -> None:
    pool, lumen = operators_server()
    award = again(submitted(pool, lumen, chunks=8, max_workers=8).award)
    assert (award.workers, award.end - award.start) == (4, 2)
