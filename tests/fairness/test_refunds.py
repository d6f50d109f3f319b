"""What comes back of an open rent is taken off of the figures in the interval that settles it."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from django.urls import reverse

from scheduling.audit.verification import intervals_verify
from scheduling.fairness import intervals
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.fairness.read_interval import interval_account
from scheduling.models import Award, Interval, TenantDay, TenantFairness
from tenants.models import Tenant
from tenants.roles import AUDITOR, OWNER
from tenants.scoping import scope_disabled
from tests.ledger.builders import tamper
from tests.scheduling.clocks import advance
from tests.scheduling.markets import MICRO
from tests.scheduling.pages import client_as, text_of
from tests.scheduling.renewing import World, renewing

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """Lumen rents twice, for 13 credits each. Alone its first job would have been worth more, so 3 come back."""
    world = renewing()
    advance(world.pool, 12.5)
    return world


def as_before() -> None:
    """Figures are worked out as by a version that did not take refunds off."""
    now = intervals.fairness_values

    def before(*arguments: object) -> object:
        return now(*arguments, with_refunds=False)  # type: ignore[arg-type]

    with patch.object(intervals, "fairness_values", before):
        fairness_catch_up()


def sums(tenant: Tenant) -> tuple[float, float, float]:
    with scope_disabled("the test adds up the figures of a tenant"):
        rows = list(TenantFairness.objects.filter(tenant=tenant))
        days = list(TenantDay.objects.filter(tenant=tenant))
    totals = [sum(getattr(row, name) for row in rows) for name in ("paid", "received", "earned")]
    assert totals == [pytest.approx(sum(getattr(day, name) for day in days)) for name in ("paid", "received", "earned")]
    return totals[0], totals[1], totals[2]


def settling(world: World) -> Interval:
    with scope_disabled("the test looks for the interval that settles the rent"):
        numbers = TenantFairness.objects.filter(tenant=world.lumen, paid__lt=0).values_list("number", flat=True)
        return Interval.objects.get(pool=world.pool, number=numbers.get())


def findings(world: World) -> tuple[object, ...]:
    with scope_disabled("the test verifies everything"):
        return tuple(intervals_verify(pool_ids=[world.pool.pk]).findings)


def test_figures_are_what_was_paid_in_the_end_and_are_proved(world: World) -> None:
    fairness_catch_up()
    with scope_disabled("the test looks at all awards"):
        awards = list(Award.objects.filter(tenant=world.lumen))
    assert sums(world.lumen)[0] == pytest.approx(sum(award.paid - award.adjusted for award in awards) / MICRO) == 23.0
    owed = [part for award in awards for parts in award.owed for part in parts]
    to_castor = sum(amount for owner, amount in owed if owner == world.castor.pk)
    assert sums(world.castor)[2] == pytest.approx(to_castor / MICRO)
    assert findings(world) == ()
    with scope_disabled("the test looks at the interval as the staff does"):
        account = interval_account(world.pool, settling(world).number)
    assert account is not None
    back = [row for row in account.payments if row.is_refund]
    assert [(row.paid, row.own_part, row.difference) for row in back] == [(-3.0, 0.0, pytest.approx(0.0))]
    assert sum(row.paid for row in account.payments) == pytest.approx(sum(one.row.paid for one in account.tenants))
    assert account.out_of_sum == pytest.approx(0.0)
    assert not account.without_refunds


def test_pages_show_what_comes_back(world: World) -> None:
    fairness_catch_up()
    interval = settling(world)
    address = reverse("fairness_interval", args=[world.pool.slug, interval.number])
    staff = text_of(client_as(AUDITOR, None).get(address, secure=True).content.decode())
    assert f"J-{world.job.pk} comes back" in staff
    assert "(paid, less what came back)" in staff
    owner = client_as(OWNER, world.lumen)
    address = reverse("tenant_fairness_interval", args=[world.lumen.slug, world.pool.slug, interval.number])
    mine = text_of(owner.get(address, secure=True).content.decode())
    assert f"J-{world.job.pk} comes back" in mine
    assert "did not take off what comes back" not in mine


def test_figures_of_before_stay_are_proved_and_say_what_they_lack(world: World) -> None:
    as_before()
    assert sums(world.lumen) == pytest.approx((26.0, 0.0, 0.0))
    assert findings(world) == ()
    fairness_catch_up()
    assert sums(world.lumen) == pytest.approx((26.0, 0.0, 0.0))
    with scope_disabled("the test looks at all intervals as the staff does"):
        numbers = list(Interval.objects.filter(pool=world.pool).values_list("number", flat=True))
        accounts = [interval_account(world.pool, number) for number in numbers]
    assert sum(account is not None and account.without_refunds for account in accounts) == 1


def test_figures_that_are_neither_are_named(world: World) -> None:
    fairness_catch_up()
    number = settling(world).number
    tamper(
        "UPDATE scheduling_tenantfairness SET paid = -2 WHERE tenant_id = %s AND number = %s", [world.lumen.pk, number]
    )
    assert findings(world)
