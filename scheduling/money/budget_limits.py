"""Set and remove budgets, which limit what a tenant, or one of its members, may spend in a period."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.feed import EventKind, event, events_append
from scheduling.models import Budget, Period
from tenants import history
from tenants.access import Access, Refused
from tenants.ledger.amounts import MOST, spelt
from tenants.models import Membership, Tenant, User
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED, REASON_LONGEST, REASON_TOO_LONG

UNKNOWN_BUDGET = Refused("unknown_budget", "There is no such budget.")
UNKNOWN_MEMBER = Refused("unknown_member", "Only a member of the tenant can have a budget of its own.")


@transaction.atomic
def budget_set(
    *,
    member: User | None,
    period: str,
    soft: int | None,
    hard: int | None,
    by: Access,
    at: datetime,
    reason: str = "",
) -> Budget | Refused:
    """Set the one budget of this member (None for the whole tenant) for this period, in micro-credits. It holds from
    the next decision on; earlier awards stay, and count."""
    if by.tenant is None or not by.allows(Permission.BUDGETS_CHANGE):
        return NOT_ALLOWED
    if refusal := _refusal(period, soft, hard, reason):
        return refusal
    with scope(by.tenant):
        if member is not None and not Membership.objects.filter(user=member).exists():
            return UNKNOWN_MEMBER
        row = _locked(by.tenant, member, period)
        before = None if row is None else _values_of(row)
        after: dict[str, Any] = {"soft_limit": soft, "hard_limit": hard}
        if row is None:
            row = Budget.objects.create(tenant=by.tenant, member=member, period=period, **after)
        elif before != after:
            row.soft_limit, row.hard_limit = soft, hard
            row.save(update_fields=["soft_limit", "hard_limit"])
        if before != after:
            _tell("budget_set", row, by, at, reason, before, after)
    return row


@transaction.atomic
def budget_remove(*, member: User | None, period: str, by: Access, at: datetime, reason: str = "") -> Refused | None:
    """Remove the budget of this member (None for the whole tenant) for this period. The member may have left the tenant
    already."""
    if by.tenant is None or not by.allows(Permission.BUDGETS_CHANGE):
        return NOT_ALLOWED
    if len(reason) > REASON_LONGEST:
        return REASON_TOO_LONG
    with scope(by.tenant):
        row = _locked(by.tenant, member, period)
        if row is None:
            return UNKNOWN_BUDGET
        _tell("budget_remove", row, by, at, reason, _values_of(row), None)
        row.delete()
    return None


def _refusal(period: str, soft: int | None, hard: int | None, reason: str) -> Refused | None:
    if period not in Period.values:
        return Refused("invalid_budget", f"period: must be one of {', '.join(Period.values)}.")
    if soft is None and hard is None:
        return Refused(
            "invalid_budget", "A budget has a limit that gives notice (soft), one that refuses (hard), or both."
        )
    for what, limit in (("gives notice (soft)", soft), ("refuses (hard)", hard)):
        if limit is not None and limit < 0:
            return Refused("invalid_budget", f"The limit that {what} must be 0 or more credits, not {spelt(limit)}.")
        if limit is not None and limit > MOST:
            return Refused("invalid_budget", f"The limit that {what} must be at most {spelt(MOST)} credits.")
    if soft is not None and hard is not None and soft > hard:
        sentence = "The limit that gives notice (soft) must not be above the one that refuses (hard)."
        return Refused("invalid_budget", sentence)
    return REASON_TOO_LONG if len(reason) > REASON_LONGEST else None


def _locked(tenant: Tenant, member: User | None, period: str) -> Budget | None:
    """Lock the tenant's row, so that changes to its budgets take turns also before a budget exists. Return the budget,
    or None."""
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    return Budget.objects.filter(member=member, period=period).first()


def _values_of(row: Budget) -> dict[str, Any]:
    return {"soft_limit": row.soft_limit, "hard_limit": row.hard_limit}


def _tell(
    action: str,
    row: Budget,
    by: Access,
    at: datetime,
    reason: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    whose = f"of {row.member.email}" if row.member else "of all"
    subject = f"budget {whose} per {row.period}"
    data = {"member": row.member_id, "period": row.period, **(after or {}), "removed": after is None}
    events_append(
        [event(EventKind.BUDGET_CHANGED, pool_id=None, tenant_id=row.tenant_id, subject=subject[:80], at=at, data=data)]
    )
    history.append(
        at=at, by=by, tenant=row.tenant, action=action, subject=subject, reason=reason, before=before, after=after
    )
