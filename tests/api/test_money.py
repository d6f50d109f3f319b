"""The ledger, statements and budgets for programs: figures equal to the book's, and nobody else's."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from tenants.ledger.amounts import MOST, shown
from tenants.ledger.selectors import balances_of_tenant
from tenants.models import Tenant
from tenants.roles import BILLING, OWNER
from tenants.scoping import scope
from tests.api.builders import Program, problem, program_of
from tests.books.money_world import SECRET, World, standing
from tests.tenants.builders import make_member, make_tenant

ENTRIES, LINES = "ledger/entries/", "statements/period/lines/"


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    with django_db_blocker.unblock(), standing() as standing_world:
        yield standing_world


@pytest.fixture
def caller(world: World, db: None) -> Program:
    return program_of(BILLING, world.lumen)


def place(tenant: Tenant, rest: str) -> str:
    return f"tenants/{tenant.slug}/{rest}"


def every(caller: Program, address: str) -> list[dict[str, Any]]:
    """All rows, page by page."""
    rows, pages = [], 0
    following: str | None = address
    while following:
        answer = caller.get(following).json()
        rows += answer["results"]
        following, pages = answer["next"], pages + 1
        assert pages < 200
    return rows


def rows_of_csv(caller: Program, address: str) -> list[dict[str, str]]:
    answer = caller.get(address, Accept="text/csv")
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def test_balances_are_those_of_the_book(world: World, caller: Program) -> None:
    body = caller.get(place(world.lumen, "ledger/balances/")).json()
    with scope(world.lumen):
        now = balances_of_tenant(tenant_id=world.lumen.pk)
    expected = [Decimal(part) / 10**6 for part in (now.available, now.held, now.earned)]
    assert [Decimal(body[name]) for name in ("available", "held", "earned")] == expected
    assert Decimal(body["total"]) == sum(expected)


@pytest.mark.parametrize("limit", [1, 3, 200])
def test_movements_add_up_to_the_balance_whatever_the_page(world: World, caller: Program, limit: int) -> None:
    rows = every(caller, place(world.lumen, f"{ENTRIES}?limit={limit}"))
    total = Decimal(caller.get(place(world.lumen, "ledger/balances/")).json()["total"])
    assert sum(Decimal(row["total"]) for row in rows) == total == Decimal(rows[0]["balance"])
    numbers = [row["transaction"] for row in rows]
    assert len(set(numbers)) == len(numbers) > 3
    assert [row["transaction"] for row in rows_of_csv_typed(caller, world)] == numbers


def rows_of_csv_typed(caller: Program, world: World) -> list[dict[str, Any]]:
    rows = rows_of_csv(caller, place(world.lumen, ENTRIES))
    return [row | {"transaction": int(row["transaction"])} for row in rows]


def test_filters_choose_movements(world: World, caller: Program) -> None:
    holds = every(caller, place(world.lumen, f"{ENTRIES}?kind=hold"))
    assert {row["kind"] for row in holds} == {"hold"}
    job = holds[0]["job"]
    assert {row["job"] for row in every(caller, place(world.lumen, f"{ENTRIES}?job={job}"))} == {job}
    assert every(caller, place(world.lumen, f"{ENTRIES}?before=2001-01-01T00:00:00Z")) == []
    for wrong in ("account=outside", "kind=nothing", "job=x", "from=yesterday"):
        problem(caller.get(place(world.lumen, f"{ENTRIES}?{wrong}")), 400, "invalid_request")
    for wrong in ("cursor=x", "cursor=W10", "cursor=WyJ4IiwxXQ"):
        problem(caller.get(place(world.lumen, f"{ENTRIES}?{wrong}")), 400, "invalid_cursor")


def test_owner_of_the_cells_learns_nothing_of_the_renters_jobs(world: World) -> None:
    castor = program_of(OWNER, world.castor)
    lumens = program_of(OWNER, world.lumen)
    theirs = {row["job"] for row in every(lumens, place(world.lumen, ENTRIES)) if row["job"]}
    rows = every(castor, place(world.castor, ENTRIES))
    assert any(Decimal(row["earned"]) > 0 for row in rows)
    assert theirs.isdisjoint(row["job"] for row in rows)
    assert every(castor, place(world.castor, f"{ENTRIES}?job={min(theirs)}")) == []
    for rest in (ENTRIES, LINES):
        assert SECRET not in lumens.get(place(world.lumen, rest)).content.decode()
        assert lumens.get(place(world.castor, rest)).status_code == 404


def test_statement_opens_moves_and_closes_to_the_micro_credit(world: World, caller: Program) -> None:
    body = caller.get(place(world.lumen, "statements/period/")).json()
    moved = sum(Decimal(line["total"]) for line in body["movements"])
    assert Decimal(body["opening"]["total"]) + moved == Decimal(body["closing"]["total"])
    assert body["difference"] == "0.000000"
    lines = every(caller, place(world.lumen, f"{LINES}?limit=2"))
    assert sum(Decimal(line["amount"]) for line in lines if line["part"] == "spent") == Decimal(body["spent"])
    assert sum(line["part"] == "job" for line in lines) == body["jobs"]
    assert [line["what"] for line in rows_of_csv(caller, place(world.lumen, LINES))] == [line["what"] for line in lines]
    jobs = every(caller, place(world.lumen, f"{LINES}?part=job"))
    assert {line["part"] for line in jobs} == {"job"}
    months = caller.get(place(world.lumen, "statements/")).json()["results"]
    assert months[0]["month"] == body["start"][:7]
    assert months[0]["closing"] == body["closing"]["total"]


def test_statement_says_where_its_period_has_not_begun_or_goes_on(world: World, caller: Program) -> None:
    first = timezone.now().astimezone(UTC).replace(day=1)
    months = (first - timedelta(days=1), first, first + timedelta(days=32))
    titles = [("Opened", "Closed"), ("Opened", "So far"), ("Not begun yet", "So far")]
    for month, (opening, closing) in zip(months, titles, strict=True):
        query = f"?month={month:%Y-%m}"
        body = caller.get(place(world.lumen, f"statements/period/{query}")).json()
        assert (body["opening"]["title"], body["closing"]["title"]) == (opening, closing)
        lines = rows_of_csv(caller, place(world.lumen, f"{LINES}{query}"))
        assert [line["what"] for line in lines if line["part"] == "balance"] == [opening, closing]


@pytest.mark.parametrize("query", ["month=2026-13", "month=2026", "from=2026-02-30", "from=2026-03-02&to=2026-03-01"])
def test_period_that_is_none_is_named(world: World, caller: Program, query: str) -> None:
    document = problem(caller.get(place(world.lumen, f"statements/period/?{query}")), 400, "invalid_request")
    assert document["errors"][0]["field"] in ("month", "from", "to")


class NextMonth:
    """In place of the clock."""

    @staticmethod
    def now() -> datetime:
        return timezone.now() + timedelta(days=31)


def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines without what balances are called: the last one closes the period only once that is over."""
    return [line | {"what": ""} if line["part"] == "balance" else line for line in lines]


def test_next_page_of_lines_is_of_the_same_days_also_in_the_next_month(
    caller: Program, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = place(world.lumen, LINES)
    for query in ("", f"from={timezone.now():%Y-%m}-01&", f"month={timezone.now():%Y-%m}&"):
        whole = caller.get(f"{address}?{query}limit=4").json()["results"]
        first = caller.get(f"{address}?{query}limit=2").json()
        with monkeypatch.context() as later:
            later.setattr("scheduling.books.api.statements.timezone", NextMonth)
            second = caller.get(first["next"]).json()
            assert timeless(first["results"] + second["results"]) == timeless(whole), query
            assert timeless(caller.get(second["previous"]).json()["results"]) == timeless(first["results"])


def test_month_before_all_months_is_told_the_first_one(caller: Program, world: World) -> None:
    document = problem(caller.get(place(world.lumen, "statements/period/?month=1999-12")), 400, "invalid_request")
    assert document["detail"] == "month: Must be a month such as 2026-03, from 2000-01 on."
    assert caller.get(place(world.lumen, "statements/period/?month=2000-01")).status_code == 200


@pytest.mark.django_db
def test_budget_is_set_changed_and_lifted_by_name() -> None:
    tenant = make_tenant("orchard")
    caller, ada = program_of(OWNER, tenant), make_member(tenant, OWNER).user
    budgets = place(tenant, "budgets/")
    budget = caller.post(budgets, {"member": ada.email, "period": "month", "hard_limit": "500"}).json()
    assert (budget["member"], budget["soft_limit"], budget["hard_limit"]) == (ada.email, None, "500.000000")
    changed = caller.post(budgets, {"member": ada.email, "period": "month", "soft_limit": "0.000001"}).json()
    assert (changed["id"], changed["hard_limit"]) == (budget["id"], None)
    caller.post(budgets, {"period": "day", "hard_limit": "5"})
    assert [row["member"] for row in caller.get(budgets).json()["results"]] == [ada.email, None]
    assert caller.post(f"{budgets}remove/", {"member": ada.email, "period": "month"}).json() == {"removed": True}
    problem(caller.post(f"{budgets}remove/", {"member": ada.email, "period": "month"}), 404, "unknown_budget")
    stranger = make_member(make_tenant("quarry"), OWNER).user.email
    for email in (stranger, "nobody@example.org"):
        problem(caller.post(budgets, {"member": email, "period": "month", "hard_limit": "5"}), 404, "unknown_member")
        problem(caller.post(f"{budgets}remove/", {"member": email, "period": "month"}), 404, "unknown_budget")
    problem(caller.post(budgets, {"period": "month"}), 422, "invalid_budget")
    below = problem(caller.post(budgets, {"period": "month", "soft_limit": "-1.5"}), 422, "invalid_budget")
    assert below["detail"] == "The limit that gives notice (soft) must be 0 or more credits, not -1.50."
    large = problem(caller.post(budgets, {"period": "month", "hard_limit": "1000000000000.1"}), 400, "invalid_request")
    assert f"at most {shown(MOST, 0)}, with" in large["detail"]
    problem(caller.post(budgets, {"period": "year", "hard_limit": "5"}), 400, "invalid_request")
    problem(caller.post(budgets, {"period": "month", "hard_limit": 5}), 400, "invalid_request")
