"""A tenant's list of movements is read by its index, however large the book is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenants.ledger.movements import MovementFilter, Position, movements, period_sums
from tenants.ledger.postings import available, held
from tenants.ledger.sums import Payments, payments_under
from tenants.scoping import ForeignTenant, scope, scope_disabled
from tests.database import overrule, run
from tests.ledger.builders import NOON, grant, make_book, make_tenant, tamper

pytestmark = pytest.mark.django_db

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


def fill(tenant_id: int) -> None:
    """3,000 holds of other jobs, so that a plan is chosen by what it costs, whatever the tests before this one left
    in the statistics of the tables."""
    tamper(
        "INSERT INTO ledger_transaction (key, kind, subject, occurred_at, facts, entry_count, digest)"
        " SELECT 'fill:' || n, 'hold', 'job:' || 1000 + n, %s::timestamptz + n * interval '1 hour', '{}', 2,"
        " decode(repeat('00', 32), 'hex') FROM generate_series(1, 3000) n",
        [NOON],
    )
    tamper(
        "INSERT INTO ledger_entry (transaction_id, line, account_id, amount, occurred_at)"
        " SELECT t.id, side.line, (%s::bigint[])[side.line], side.amount, t.occurred_at FROM ledger_transaction t,"
        " (VALUES (1, -1), (2, 1)) AS side (line, amount) WHERE t.key LIKE 'fill:%%'",
        [[available(tenant_id).id, held(tenant_id).id]],
    )
    overrule("ANALYZE ledger_transaction, ledger_entry")


def plan_of(sql: str) -> str:
    run("SET LOCAL enable_seqscan = off")  # in a small book a scan is cheaper; what matters is that an index fits
    return "\n".join(row[0] for row in run(f"EXPLAIN {sql}"))


@pytest.mark.parametrize(
    ("choice", "index"),
    [
        (MovementFilter(START, END), "ledger_entry_statement"),
        (MovementFilter(START, END, account="earned"), "ledger_entry_statement"),
        (MovementFilter(START, END, account="held", kinds=("settle",)), "ledger_entry_statement"),
        (MovementFilter(START, END, kinds=("grant",)), "ledger_transaction_other"),
        (MovementFilter(START, END, subject="job:1"), "ledger_transaction_subject"),
    ],
    ids=["all", "one account", "frequent kind", "rare kind", "job"],
)
def test_page_is_an_index_range(choice: MovementFilter, index: str) -> None:
    with scope_disabled("the test fills a book"):
        renter, _ = make_book()
        fill(renter)
    with scope(renter), CaptureQueriesContext(connection) as queries:
        movements(tenant_id=renter, choice=choice, below=Position(END, 0))
    plan = plan_of(queries.captured_queries[-1]["sql"])
    assert index in plan
    assert "Seq Scan" not in plan


def test_payments_under_prefixes_read_the_keys_that_begin_so_and_no_other_row() -> None:
    with scope_disabled("the test reads everybody's payments"):
        renter, owner = make_book()
        fill(renter)
        with CaptureQueriesContext(connection) as queries:
            payments = payments_under(prefixes=["slot:0", "slot:9", "slot:"], tenant_id=owner)
    assert payments == [Payments(1, 100, 90, 0, 10), Payments(0, 0, 0, 0, 0), Payments(2, 200, 180, 0, 20)]
    plan = "\n".join(row[0] for row in run(f"EXPLAIN {queries.captured_queries[-1]['sql']}"))
    assert "ledger_transaction_key_once" in plan
    assert "ledger_entry_pkey" in plan
    assert "Seq Scan" not in plan


def test_each_transaction_is_one_movement_with_all_three_accounts() -> None:
    with scope_disabled("the test fills a book"):
        renter, owner = make_book()
    with scope(renter):
        rows = movements(tenant_id=renter, choice=MovementFilter(START, END))
        moved = [(row.kind, row.available, row.held, row.earned) for row in rows]
    assert moved == [("settle", 0, -100, 0), ("settle", 0, -100, 0), ("hold", -300, 300, 0), ("grant", 1_000, 0, 0)]
    with scope(owner):
        assert [row.earned for row in movements(tenant_id=owner, choice=MovementFilter(START, END))] == [90, 90, 0]


def test_balances_below_a_place_are_of_what_came_before_it_alone() -> None:
    with scope_disabled("the test fills a book"):
        tenant = make_tenant("lumen", funds=10)
        posted = [grant(tenant, 5, key=f"more:{n}", at=START + timedelta(days=n)) for n in range(3)]
        places = [
            Position(START + timedelta(days=1), posted[1].transaction_id),
            Position(START + timedelta(days=1), posted[1].transaction_id + 1),
            Position(END, 0),
        ]
        periods = [(START, START + timedelta(days=2)), (START, END), (START, START)]
        sums, outside = period_sums(tenant_id=tenant, positions=places, periods=periods)
    assert [each.available for each in sums] == [5, 10, 25]
    assert [(each.paid_in, each.off_earned) for each in outside] == [(10, 0), (25, 0), (0, 0)]


def test_another_tenants_movements_are_refused() -> None:
    mine, other = make_tenant("lumen"), make_tenant("castor")
    with scope(mine), pytest.raises(ForeignTenant):
        movements(tenant_id=other, choice=MovementFilter(START, END))
