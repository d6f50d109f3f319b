"""The sums of fairness by day are those of the intervals, and verification finds one that is not."""

from __future__ import annotations

import copy
import io
from datetime import UTC

import pytest
from django.core.management import call_command

from scheduling.audit.verification import days_verify
from scheduling.fairness.days import price_jumped
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.models import IntervalFairness, PoolDay, TenantDay, TenantFairness
from tenants.scoping import scope_disabled
from tests.audit.test_verification import History, make_history
from tests.ledger.builders import tamper
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

built = built_once(make_history)


@pytest.fixture
def history(built: History) -> History:
    return copy.deepcopy(built)


@pytest.fixture(autouse=True)
def everybody() -> object:
    with scope_disabled("the test looks at all rows"):
        yield


def test_a_day_is_the_sum_of_its_intervals(history: History) -> None:
    pool, _ = history
    fairness_catch_up(most=2)  # in portions, as the market does it
    fairness_catch_up()
    rows = list(IntervalFairness.objects.filter(pool=pool))
    (day,) = PoolDay.objects.filter(pool=pool)
    assert day.day == rows[0].decided_at.astimezone(UTC).date()
    assert (day.intervals, day.first_number, day.last_number) == (len(rows), rows[0].number, rows[-1].number)
    assert day.revenue == pytest.approx(sum(row.revenue for row in rows)) != 0
    assert day.certificates == sum(row.certificates for row in rows) == 3
    assert day.with_renters == day.one_bidder == sum(row.renters == 1 for row in rows) > 0


def test_gains_that_follow_the_quotas_are_counted_also_for_who_gained_nothing(history: History) -> None:
    """An owner that neither works nor sells while others gain has a ratio of nothing, and not none."""
    pool, (rented, own, _) = history
    fairness_catch_up()
    days = {day.tenant_id: day for day in TenantDay.objects.filter(pool=pool)}
    rows = TenantFairness.objects.filter(pool=pool, tenant=own.tenant_id).select_related("fairness")
    with_revenue = [row for row in rows if row.fairness.revenue > 0]
    assert len(with_revenue) == IntervalFairness.objects.filter(pool=pool, revenue__gt=0).count()
    assert days[own.tenant_id].even == pytest.approx(sum(row.fairness.revenue * row.share for row in with_revenue))
    assert sum(day.gain for day in days.values()) == pytest.approx(sum(row.fairness.revenue for row in with_revenue))
    assert days[own.tenant_id].earned > 0 == days[rented.tenant_id].earned
    assert days[own.tenant_id].offered["worker"] > 0


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("poolday", "revenue", 1.5),
        ("poolday", "one_bidder", 9),
        ("tenantday", "gain", 1.5),
        ("tenantday", "sold", "{}"),
    ],
)
def test_verification_names_a_sum_that_was_changed_and_adding_up_again_mends_it(
    table: str, column: str, value: object, history: History
) -> None:
    pool, _ = history
    fairness_catch_up()
    assert days_verify(pool_ids=[pool.pk]) == ()
    tamper(f'UPDATE scheduling_{table} SET "{column}" = %s', [value])  # noqa: S608
    assert any(f"{column} is" in str(finding) for finding in days_verify(pool_ids=[pool.pk]))
    with pytest.raises(SystemExit):
        call_command("fairness_days", stderr=io.StringIO())
    call_command("fairness_days", "--rebuild", pool=pool.slug, stdout=io.StringIO())
    call_command("fairness_days", stdout=io.StringIO())
    assert days_verify(pool_ids=[pool.pk]) == ()


def test_verification_names_sums_that_are_missing_or_of_no_interval(history: History) -> None:
    pool, _ = history
    fairness_catch_up()
    PoolDay.objects.update(day="2001-01-01")
    flaws = [str(finding) for finding in days_verify(pool_ids=[pool.pk])]
    assert any("missing" in line for line in flaws)
    assert any("no interval was decided then" in line for line in flaws)


@pytest.mark.parametrize(
    ("before", "now", "jumped"),
    [
        ({"worker": 1.0}, {"worker": 2.0}, True),
        ({"worker": 1.0}, {"worker": 1.99}, False),
        ({"worker": 1.0, "ps": 1.0}, {"worker": 0.5, "ps": 3.0}, True),
        ({}, {"worker": 3.0}, False),
        ({"worker": 0.0}, {"worker": 3.0}, False),
    ],
)
def test_a_price_jumps_when_it_is_twice_what_it_was(
    before: dict[str, float], now: dict[str, float], jumped: bool
) -> None:
    assert price_jumped(before, now) is jumped
