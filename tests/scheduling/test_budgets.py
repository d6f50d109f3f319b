"""Budgets in the batch lane: hard limits bind what a plan may rent, soft ones give one notice."""

from __future__ import annotations

import pytest

from scheduling.models import Award, Budget, Pool, TrainingJob
from scheduling.snapshots.budgets import left_for, limits, period_start
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import NOON
from tests.scheduling.live import events
from tests.scheduling.markets import make_renting, make_waiting, run_slots
from tests.tenants.builders import make_person

pytestmark = pytest.mark.django_db


def renting(member=None, **budget):
    """What a tenant without cells pays for its one job, submitted by this member, under this budget."""
    pool, _, renter = make_renting()
    if budget:
        with scope(renter):
            Budget.objects.create(tenant=renter, period="month", member=member, **budget)
    job = make_waiting(pool, renter)
    with scope(renter):
        TrainingJob.objects.filter(pk=job.pk).update(submitted_by=member)
    return paid_after(pool)


def paid_after(pool: Pool) -> int:
    run_slots(pool, 0, 4)
    with scope_disabled("the test looks at what was paid"):
        return sum(Award.objects.values_list("paid", flat=True))


def reason() -> str:
    with scope_disabled("the test looks at the only job"):
        return TrainingJob.objects.get().reason_code


def test_without_a_budget_the_job_rents() -> None:
    assert renting() > 0


def test_nothing_is_rented_beyond_a_hard_limit_of_the_tenant() -> None:
    assert renting(hard_limit=1) == 0
    assert reason() == "over_budget"


def test_nothing_is_rented_beyond_a_hard_limit_of_the_member_who_submitted() -> None:
    assert renting(member=make_person(), hard_limit=1) == 0
    assert reason() == "over_budget"


def test_a_limit_of_another_member_does_not_bind() -> None:
    pool, _, renter = make_renting()
    with scope(renter):
        Budget.objects.create(tenant=renter, period="month", member=make_person(), hard_limit=1)
    make_waiting(pool, renter)
    assert paid_after(pool) > 0


def test_a_plan_that_passes_a_soft_limit_gives_notice() -> None:
    paid = renting(soft_limit=1)
    (event,) = events("budget_passed")
    assert event.data == {"period": "month", "limit": 1, "spent": paid, "member": None}


def test_what_came_back_counts_as_not_spent() -> None:
    paid = renting(hard_limit=10**9)
    with scope_disabled("the test gives some of it back"):
        award = Award.objects.get(paid__gt=0)
        Award.objects.filter(pk=award.pk).update(returned=paid - 1)
        found = limits(tenant_ids=[award.tenant_id], at=NOON)
        assert left_for(found, award.tenant_id, None) == 10**9 - 1


@pytest.mark.parametrize(("period", "start"), [("day", "2026-03-04"), ("week", "2026-03-02"), ("month", "2026-03-01")])
def test_periods_are_those_of_utc(period: str, start: str) -> None:
    assert period_start(period, NOON.replace(day=4)).date().isoformat() == start
