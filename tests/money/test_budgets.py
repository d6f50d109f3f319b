"""Budgets in the batch lane: hard limits bind what a plan may rent, soft ones give one notice."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.models import Award, Budget, Pool, TrainingJob
from scheduling.money.view_budgets import left_for, limits, period_start
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser, overrule
from tests.scheduling.builders import NOON, make_tenant
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
    with scope(renter), as_superuser():
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
        budgets = limits(tenant_ids=[award.tenant_id], at=NOON)
        assert left_for(budgets, award.tenant_id, None) == 10**9 - 1


@pytest.mark.parametrize(("period", "start"), [("day", "2026-03-04"), ("week", "2026-03-02"), ("month", "2026-03-01")])
def test_periods_are_those_of_utc(period: str, start: str) -> None:
    assert period_start(period, NOON.replace(day=4)).date().isoformat() == start


def test_what_a_period_cost_is_read_from_its_index_however_long_the_history() -> None:
    """20,000 awards of earlier years, of ten tenants, and a few of this month."""
    pool, _, renter = make_renting()
    job = make_waiting(pool, renter)
    with scope(renter):
        Budget.objects.create(tenant=renter, period="month", hard_limit=1_000)
    tenants = [renter.pk, *(make_tenant(f"old-{number}").pk for number in range(10))]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_award (tenant_id, job_id, attempt, pool_id, lane, awarded_at, state, phase,"
            ' placement, start, "end", workers, ps, worker_type, ps_type, allocation, on_operator, value, floor, cost,'
            " paid, charges, returned)"
            " SELECT (%s::bigint[])[1 + n %% 11], %s, n, %s, 'batch', %s::timestamptz - n * interval '1 hour', 'done',"
            " 'shared', '', 0, 1, 1, 1, 0, 0, '[]', '[]', 1, 0, 0, 10, '[]', 0 FROM generate_series(0, 20000) n",
            [tenants, job.pk, pool.pk, NOON],
        )
    overrule("ANALYZE scheduling_award")
    with scope_disabled("a decision asks for every tenant"), CaptureQueriesContext(connection) as queries:
        (limit,) = limits(tenant_ids=[renter.pk], at=NOON)
    hours = (NOON - period_start("month", NOON)) // timedelta(hours=1)
    assert limit.spent == 10 * (1 + hours // 11)
    (query,) = [query["sql"] for query in queries if "scheduling_award" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT TEXT) {query}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "award_paid_in_period" in plan, plan
    assert "Seq Scan on scheduling_award" not in plan, plan
    condition = plan.split("award_paid_in_period", 1)[1].split("Index Cond:", 1)[1].splitlines()[0]
    assert "tenant_id" in condition, plan
    assert "awarded_at >=" in condition, plan
