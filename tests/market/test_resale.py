"""What a tenant gave up and has paid for is sold again for its account, and only what it gave up."""

from __future__ import annotations

import pytest

from scheduling.jobs.cancellation import job_cancel
from scheduling.models import FreedUnits
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
