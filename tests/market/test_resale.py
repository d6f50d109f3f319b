"""What a tenant gave up and has paid for is sold again for its account, and only what it gave up."""

from __future__ import annotations

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.jobs.cancellation import job_cancel
from scheduling.models import Award, FreedUnits, Pool
from scheduling.runs.failures import AwardFailed, award_fail
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import (
    again,
    book_is_sound,
    enter,
    fund,
    make_award,
    make_live_pool,
    member,
    moment,
    money,
    operator_money,
    publish,
    settle,
    submitted,
    taken,
)

pytestmark = pytest.mark.django_db


def given_up(worker: int = 4, ps: int = 1, workers: int = 4, servers: int = 1, **award):
    """Lumen gives up units on castor's server from slot 1 on; pictor comes to buy."""
    pool = make_live_pool()
    lumen, castor, pictor = (make_tenant(slug) for slug in ("lumen", "castor", "pictor"))
    server = make_server(pool, worker=worker, ps=ps)
    make_cells(server, castor, {"worker": worker, "ps": ps})
    for tenant in (lumen, pictor):
        fund(tenant)
    publish(pool, frontier=3)
    allocation = [[server.pk, 0, 3, workers, servers]]
    row = make_award(pool, lumen, slots=3, charges=[[(castor, 10)]] * 3, allocation=allocation, **award)
    enter(row)
    settle_start(row)
    job_cancel(job_id=row.job_id, by=member(lumen), at=moment(0.5))
    return pool, lumen, castor, pictor


def settle_start(award) -> None:
    """The award runs, as a decision at the boundary of its first slot leaves it."""
    with scope_disabled("the test starts an award"):
        type(award).objects.filter(pk=award.pk).update(state="running")
        type(award.job).objects.filter(pk=award.job_id).update(state="running")


def sold() -> list[float]:
    with scope_disabled("the test looks at freed units"):
        return list(FreedUnits.objects.order_by("slot", "resource").values_list("sold", flat=True))


def test_units_sold_again_pay_who_gave_them_up() -> None:
    pool, lumen, castor, pictor = given_up()
    award = again(submitted(pool, pictor, slot=0.6).award)
    assert (award.start, award.charges) == (1, [[[lumen.pk, 50_000]]])
    assert sold() == [4.0, 1.0, 0.0, 0.0]
    settle(pool, 0, 1, 2)
    assert (money(lumen), money(castor)) == ((999_999_970, 0, 50_000), (0, 0, 30))
    assert book_is_sound()


def test_beside_idle_units_each_is_paid_for_its_part() -> None:
    # Eight workers and two parameter servers are for sale in slot 1, half of them given up.
    pool, lumen, castor, pictor = given_up(worker=8, ps=2)
    award = again(submitted(pool, pictor, slot=0.6).award)
    assert award.start == 1
    (parts,) = award.charges
    assert dict(parts) == {lumen.pk: award.paid / 2, castor.pk: award.paid / 2}
    assert sold()[:2] == [2.0, 0.5]


def test_what_was_sold_again_once_is_not_sold_again_twice() -> None:
    pool, lumen, _, pictor = given_up()
    awards = [again(submitted(pool, pictor, slot=0.6).award) for _ in range(2)]
    assert [award.start for award in awards] == [1, 2]
    assert sold() == [4.0, 1.0, 4.0, 1.0]
    settle(pool, 0, 1, 2)
    assert money(lumen)[2] == 100_000


def test_the_operators_units_are_sold_again_for_who_gave_them_up_too() -> None:
    pool, lumen, pictor = make_live_pool(), make_tenant("lumen"), make_tenant("pictor")
    make_server(pool, worker=4, ps=1)
    for tenant in (lumen, pictor):
        fund(tenant)
    slow = {"chunks": 4, "epochs": 3}  # three slots
    job = submitted(pool, lumen, **slow).job
    job_cancel(job_id=job.pk, by=member(lumen), at=moment(0.5))
    submitted(pool, pictor, slot=0.6)
    settle(pool, 0, 1, 2)
    assert money(lumen) == (999_850_000, 0, 50_000)
    assert operator_money() == 150_000
    assert book_is_sound()


# --- a buyer that goes away again


def all_is_right(pool: Pool) -> bool:
    """The book is sound, every answer is decided again, and the rows say what the feed says."""
    findings = intervals_verify(pool_ids=[pool.pk]).findings
    assert not findings, findings
    return book_is_sound()


def of_the_operator(**spec: object) -> tuple[Pool, Tenant, Tenant, Award]:
    """Lumen has paid for slots 0, 1 and 2 of the operator's server, and has given up 1 and 2; pictor comes to buy."""
    pool, lumen, pictor = make_live_pool(), make_tenant("lumen"), make_tenant("pictor")
    make_server(pool, worker=4, ps=1)
    for tenant in (lumen, pictor):
        fund(tenant)
    bought = submitted(pool, lumen, chunks=4, epochs=3, **spec)
    job_cancel(job_id=bought.job.pk, by=member(lumen), at=moment(0.5))
    return pool, lumen, pictor, bought.award


def fail(award: Award, slot: int, at: float) -> None:
    answer = award_fail(award_id=award.pk, slot=slot, detail="out of disk", at=moment(at))
    assert isinstance(answer, AwardFailed), answer


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_units_whose_buyer_goes_away_are_sold_again_for_who_gave_them_up(how: str) -> None:
    pool, lumen, castor, pictor = given_up()
    first, second = (submitted(pool, pictor, slot=0.6) for _ in range(2))
    if how == "cancelled":
        job_cancel(job_id=second.job.pk, by=member(pictor), at=moment(0.7))
    else:
        fail(second.award, slot=2, at=0.7)
    assert sold() == [4.0, 1.0, 0.0, 0.0]
    third = again(submitted(pool, pictor, slot=0.8).award)
    assert (third.start, third.charges) == (2, [[[lumen.pk, 50_000]]])
    assert sold() == [4.0, 1.0, 4.0, 1.0]
    settle(pool, 0, 1, 2)
    assert (money(lumen), money(castor)) == ((999_999_970, 0, 100_000), (0, 0, 30))
    assert again(first.award).state == "done"
    assert book_is_sound()


def test_only_the_slots_that_a_failure_takes_from_a_buyer_are_for_sale_again() -> None:
    pool, _, pictor, _ = of_the_operator()
    bought = submitted(pool, pictor, slot=0.6, epochs=2)
    assert (again(bought.award).start, again(bought.award).end) == (1, 3)
    settle(pool, 0)
    fail(bought.award, slot=2, at=1.5)
    assert sold() == [4.0, 1.0, 0.0, 0.0]
    assert all_is_right(pool)
    fail(bought.award, slot=1, at=1.6)  # slot 2 is not given back twice
    assert sold() == [0.0, 0.0, 0.0, 0.0]
    assert all_is_right(pool)


def test_a_buyer_that_gives_up_while_it_runs_still_pays_and_sells_for_its_own_account() -> None:
    pool, lumen, pictor, _ = of_the_operator()
    bought = submitted(pool, pictor, slot=0.6, epochs=2)
    settle(pool, 0)
    job_cancel(job_id=bought.job.pk, by=member(pictor), at=moment(1.5))
    assert sold() == [4.0, 1.0, *[4.0, 0.0, 1.0, 0.0]]
    last = again(submitted(pool, lumen, slot=1.6).award)
    assert (last.start, last.charges) == (2, [[[pictor.pk, 50_000]]])
    settle(pool, 1, 2)
    assert (money(lumen)[2], money(pictor)[2]) == (100_000, 50_000)
    assert all_is_right(pool)


def test_what_who_gave_it_up_no_longer_pays_for_is_not_its_to_sell_when_the_buyer_goes() -> None:
    """Lumen's award fails in the slot in which lumen gave it up, so that all its money returns."""
    pool, lumen, pictor, award = of_the_operator()
    first, second = (submitted(pool, pictor, slot=0.6) for _ in range(2))
    job_cancel(job_id=first.job.pk, by=member(pictor), at=moment(0.7))
    fail(award, slot=0, at=0.8)
    with scope_disabled("the test looks at freed units"):
        assert list(FreedUnits.objects.values_list("slot", "sold").distinct().order_by("sold")) == [(2, 1.0), (2, 4.0)]
    assert all_is_right(pool)
    job_cancel(job_id=second.job.pk, by=member(pictor), at=moment(0.9))
    assert taken(pool) == {}
    (charges,) = again(submitted(pool, pictor, slot=0.95, epochs=1).award).charges
    assert [owner for owner, _ in charges] == [0]
    assert money(lumen)[2] == 0
    assert all_is_right(pool)


def test_a_verification_names_units_that_are_sold_again_for_less_than_answers_say() -> None:
    pool, _, pictor, _ = of_the_operator()
    first, second = (submitted(pool, pictor, slot=0.6) for _ in range(2))
    job_cancel(job_id=second.job.pk, by=member(pictor), at=moment(0.7))
    assert all_is_right(pool)
    with scope_disabled("the test changes a row"):
        FreedUnits.objects.filter(slot=again(first.award).start).update(sold=0.5)
    assert len(intervals_verify(pool_ids=[pool.pk]).findings) == 2
