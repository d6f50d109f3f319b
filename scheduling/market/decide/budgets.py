"""Soft limits: a notice, once, by the award that passes them. Hard limits bind where money is set aside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from scheduling.core.types import Reason, Refusal
from scheduling.feed import EventKind, event
from scheduling.market.view.batch import BatchSnapshot
from scheduling.models import Award, Event, Pool
from scheduling.money import Limit, limits
from tenants.ledger.amounts import credits_of


def budget_events(awards: Sequence[Award], *, pool: Pool, at: datetime) -> list[Event]:
    """Notices for limits that these awards, already stored, carry their tenants or members past."""
    paid: defaultdict[tuple[int, int | None], int] = defaultdict(int)
    for award in awards:
        if award.paid:
            paid[award.tenant_id, award.job.submitted_by_id] += award.paid
    if not paid:
        return []
    found = limits(tenant_ids={tenant_id for tenant_id, _ in paid}, at=at)
    return [_notice(pool, limit, at) for limit in found if _passed(limit, _now(limit, paid))]


def reasons_by_budget(snapshot: BatchSnapshot, refusals: Iterable[Refusal]) -> list[Refusal]:
    """The policy knows funds and price limits only; where a budget was what made them small, the reason says so."""
    return [replace(refusal, reason=_by_budget(snapshot, refusal)) for refusal in refusals]


def smaller_by_budget(snapshot: BatchSnapshot, smaller: Mapping[int, Reason]) -> dict[int, Reason]:
    """The same of jobs that run, and with less than they could have: which of their means it was."""
    return {number: _limit_by_budget(snapshot, number, reason) for number, reason in smaller.items()}


def _limit_by_budget(snapshot: BatchSnapshot, number: int, reason: Reason) -> Reason:
    limit, row = reason.numbers["limit"], snapshot.waiting[number]
    if limit == "over_max_price":  # a cap is told as the job's limit, whichever of the two is less
        by_budget = snapshot.view.jobs[number].max_price != row.spec.get("max_price")
    else:
        by_budget = limit == "low_balance" and row.tenant_id in snapshot.by_budget
    return replace(reason, numbers={**reason.numbers, "limit": "over_budget"}) if by_budget else reason


def _by_budget(snapshot: BatchSnapshot, refusal: Refusal) -> Reason:
    reason, row = refusal.reason, snapshot.waiting[refusal.job]
    price, cap = reason.numbers.get("price"), snapshot.caps.get(refusal.job)
    if reason.code == "low_balance" and row.tenant_id in snapshot.by_budget:
        return Reason("over_budget", reason.numbers)
    before = snapshot.paid_before(row.pk)  # the limit counts what is paid already
    if reason.code == "over_max_price" and cap is not None and reason.numbers["max_price"] == credits_of(cap + before):
        return Reason("over_budget", {"price": price, "left": credits_of(cap)})
    return reason


def _now(limit: Limit, paid: dict[tuple[int, int | None], int]) -> int:
    """What of the new payments counts against this limit."""
    return sum(amount for (tenant_id, member_id), amount in paid.items() if limit.binds(tenant_id, member_id))


def _passed(limit: Limit, now: int) -> bool:
    return limit.soft is not None and limit.spent - now <= limit.soft < limit.spent


def _notice(pool: Pool, limit: Limit, at: datetime) -> Event:
    data = {"period": limit.period, "limit": limit.soft, "spent": limit.spent, "member": limit.member_id}
    return event(EventKind.BUDGET_PASSED, pool_id=pool.pk, tenant_id=limit.tenant_id, at=at, data=data)
