"""What is told of budgets: 80 and 100 % of what may be spent, and a soft limit that is passed; once in a period."""

from __future__ import annotations

import pytest
from django.db import connection

from scheduling.market.decide.budgets import budget_news
from scheduling.models import Award, Budget, Pool
from scheduling.money.view_budgets import BudgetLimit
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.database import run, without_triggers
from tests.market.test_instant import operators_server, refused, submit, submitted
from tests.scheduling.live import events

PRICE = 50_000  # of one job there
SOFT, HARD = "soft", "hard"


def limit(spent: int, *, soft: int | None = None, hard: int | None = None) -> BudgetLimit:
    return BudgetLimit(tenant_id=1, member_id=None, period="day", soft=soft, hard=hard, spent=spent)


@pytest.mark.parametrize(
    ("spent", "limits", "expected"),
    [
        (79, {HARD: 100}, []),
        (80, {HARD: 100}, [("budget_reached", 80)]),
        (99, {HARD: 100}, [("budget_reached", 80)]),
        (100, {HARD: 100}, [("budget_reached", 100)]),
        (0, {HARD: 0}, []),
        (79, {SOFT: 100}, []),
        (80, {SOFT: 100}, [("budget_reached", 80)]),
        (100, {SOFT: 100}, [("budget_reached", 100)]),
        (101, {SOFT: 100}, [("budget_passed", None)]),
        (1, {SOFT: 0}, [("budget_passed", None)]),
        (60, {SOFT: 50, HARD: 100}, [("budget_passed", None)]),
        (85, {SOFT: 50, HARD: 100}, [("budget_passed", None), ("budget_reached", 80)]),
        (3, {}, []),
    ],
)
def test_the_highest_mark_that_is_reached_is_news(
    spent: int, limits: dict[str, int], expected: list[tuple[str, int | None]]
) -> None:
    news = budget_news(limit(spent, **limits))
    assert [(each.kind, each.data.get("percent")) for each in news] == expected


def market(**budget: int) -> tuple[Pool, Tenant]:
    pool, lumen = operators_server()
    with scope(lumen):
        Budget.objects.create(tenant=lumen, period="day", **budget)
    return pool, lumen


def reached() -> list[tuple[int, int]]:
    return [(event.data["percent"], event.data["spent"]) for event in events("budget_reached")]


@pytest.mark.django_db
def test_80_percent_of_a_hard_limit_are_told_once_with_both_numbers() -> None:
    pool, lumen = market(hard_limit=125_000)
    submitted(pool, lumen)
    assert reached() == []
    submitted(pool, lumen)
    (event,) = events("budget_reached")
    data = {"period": "day", "spent": 100_000, "member": None, "limit": 125_000, "percent": 80, "hard": True}
    assert (event.tenant_id, event.data) == (lumen.pk, data)
    refused(submit(pool, lumen))
    assert len(reached()) == 1


@pytest.mark.django_db
def test_both_marks_are_told_and_no_mark_a_second_time_after_a_refund() -> None:
    pool, lumen = market(hard_limit=5 * PRICE)
    for _ in range(5):
        submitted(pool, lumen)
    assert reached() == [(80, 4 * PRICE), (100, 5 * PRICE)]
    with scope_disabled("the test gives the last two back"), connection.cursor() as cursor:
        last = list(Award.objects.order_by("-pk").values_list("pk", flat=True)[:2])
        cursor.execute("UPDATE scheduling_award SET returned = paid WHERE id = ANY(%s)", [last])
    for _ in range(2):
        submitted(pool, lumen)
    assert len(reached()) == 2


@pytest.mark.django_db
def test_two_awards_at_once_that_each_saw_half_are_told_by_the_next() -> None:
    """As if the second had not seen the first: what is spent counts, and not what this award cost."""
    pool, lumen = market(hard_limit=5 * PRICE)
    for _ in range(4):
        submitted(pool, lumen)
    with without_triggers():
        run("DELETE FROM scheduling_event WHERE kind = 'budget_reached'")
    submitted(pool, lumen)
    assert reached() == [(100, 5 * PRICE)]


@pytest.mark.django_db
def test_a_limit_that_was_raised_is_another_one_and_so_is_the_next_period() -> None:
    pool, lumen = market(hard_limit=PRICE)
    submitted(pool, lumen)
    with scope(lumen):
        Budget.objects.update(hard_limit=2 * PRICE)
    submitted(pool, lumen)
    assert reached() == [(100, PRICE), (100, 2 * PRICE)]
    submitted(pool, lumen, slot=12 * 360)  # the first moment of the next day
    assert reached()[2:] == []
    submitted(pool, lumen, slot=12 * 360)
    assert reached()[2:] == [(100, 2 * PRICE)]


@pytest.mark.django_db
def test_of_a_soft_limit_that_is_passed_its_marks_are_not_told_later() -> None:
    pool, lumen = market(soft_limit=PRICE - 1)
    for _ in range(3):
        submitted(pool, lumen)
    assert (len(events("budget_passed")), reached()) == (1, [])
