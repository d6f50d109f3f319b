"""Credits paid in and out, budgets of tenants and members, and warnings of low balances."""

from scheduling.money.balances import low_balance_events
from scheduling.money.credits import MOST, credits_grant, credits_withdraw
from scheduling.money.read_credits import tenant_funds
from scheduling.money.view_budgets import (
    BudgetLimit,
    left_for,
    limits,
    member_caps,
    passed_by_others,
    tenant_lefts,
    tenant_limits,
)
from scheduling.money.view_spending import period_start, rent_spent

__all__ = [
    "MOST",
    "BudgetLimit",
    "credits_grant",
    "credits_withdraw",
    "left_for",
    "limits",
    "low_balance_events",
    "member_caps",
    "passed_by_others",
    "period_start",
    "rent_spent",
    "tenant_funds",
    "tenant_lefts",
    "tenant_limits",
]
