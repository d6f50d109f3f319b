"""Rows of the table: the ledger, statements, budgets, and events."""

from __future__ import annotations

from scheduling.money.budget_limits import budget_set
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER
from tenants.selectors import access_of
from tests.api.table import Names, Row, World, answers, everybody
from tests.tenants.builders import NOW, done

READ_MONEY = answers(200, BILLING, OWNER, AUDITOR, OPERATOR)


def budget(world: World) -> Names:
    by = access_of(world.members[OWNER].user, world.tenant)
    done(budget_set(member=None, period="day", soft=None, hard=5_000_000, by=by, at=NOW))
    return {}


ROWS = [
    Row("ledger_balances", "get", "tenants/{tenant}/ledger/balances/", READ_MONEY),
    Row("ledger_entries", "get", "tenants/{tenant}/ledger/entries/", READ_MONEY),
    Row("statements_list", "get", "tenants/{tenant}/statements/", READ_MONEY),
    Row("statements_read", "get", "tenants/{tenant}/statements/period/", READ_MONEY),
    Row("statement_lines", "get", "tenants/{tenant}/statements/period/lines/", READ_MONEY),
    Row("budgets_list", "get", "tenants/{tenant}/budgets/", READ_MONEY, prepare=budget),
    Row(
        "budgets_set",
        "post",
        "tenants/{tenant}/budgets/",
        answers(200, BILLING, OWNER),
        body=lambda names: {"period": "month", "hard_limit": "500"},
    ),
    Row(
        "budgets_remove",
        "post",
        "tenants/{tenant}/budgets/remove/",
        answers(200, BILLING, OWNER),
        body=lambda names: {"period": "day"},
        prepare=budget,
    ),
    Row("events_list", "get", "tenants/{tenant}/events/", everybody()),
    Row("events_stream", "get", "tenants/{tenant}/events/stream/", everybody()),
]
