"""Notices of budgets: of a soft limit that is passed, and of 80 and 100 % of what may be spent; once in a period each.

Hard limits bind where money is set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from scheduling.core.types import Reason, Refusal
from scheduling.feed import EventKind, event
from scheduling.market.view.batch import BatchSnapshot
from scheduling.models import Award, Event, Pool
from scheduling.money import BudgetLimit, limits, period_start
from tenants.ledger.amounts import credits_of

MARKS = (80, 100)  # per cent of what may be spent, from below
PASSED = 101  # more than all of it
Budgeted = tuple[int, int | None, str, int]  # tenant, member (None: all of it), period, limit


def budget_events(awards: Sequence[Award], *, pool: Pool, at: datetime) -> list[Event]:
    """Notices for limits that these awards, already stored, carry their tenants or members past."""
    payers = {(award.tenant_id, award.job.submitted_by_id) for award in awards if award.paid}
    if not payers:
        return []
    limits_now = limits(tenant_ids={tenant_id for tenant_id, _ in payers}, at=at)
    concerned = [limit for limit in limits_now if any(limit.binds(*payer) for payer in payers)]
    news = [each for limit in concerned for each in budget_news(limit)]
    levels = _levels_told(news, at) if news else {}
    return [
        event(each.kind, pool_id=pool.pk, tenant_id=each.budget[0], at=at, data=each.data)
        for each in news
        if each.level > levels.get(each.budget, 0)
    ]


@dataclass(frozen=True)
class BudgetNews:
    """What is to be told of one limit, unless as much was told in this period already."""

    kind: EventKind
    budget: Budgeted
    level: int  # per cent, or PASSED
    data: Mapping[str, Any]


def budget_news(limit: BudgetLimit) -> list[BudgetNews]:
    """By what is spent, not by what the last award cost: two awards at once, each of which saw half of it, are told by
    the next one. Of the two marks the higher one that is reached. Marks are of the hard limit, where there is one."""
    named = (limit.tenant_id, limit.member_id, limit.period)
    about = {"period": limit.period, "spent": limit.spent, "member": limit.member_id}
    news = []
    if limit.soft is not None and limit.spent > limit.soft:
        data = about | {"limit": limit.soft}
        news.append(BudgetNews(EventKind.BUDGET_PASSED, (*named, limit.soft), PASSED, data))
        if limit.hard is None:
            return news
    most = limit.soft if limit.hard is None else limit.hard
    reached = [mark for mark in MARKS if most and limit.spent * 100 >= mark * most]
    if most and reached:
        data = about | {"limit": most, "percent": reached[-1], "hard": limit.hard is not None}
        news.append(BudgetNews(EventKind.BUDGET_REACHED, (*named, most), reached[-1], data))
    return news


def _levels_told(news: Sequence[BudgetNews], at: datetime) -> dict[Budgeted, int]:
    """The highest level that was told of each limit since its period began. A changed limit is another one."""
    rows = Event.objects.filter(
        kind__in=[EventKind.BUDGET_PASSED, EventKind.BUDGET_REACHED],
        tenant__in={each.budget[0] for each in news},
        at__gte=min(period_start(each.data["period"], at) for each in news),
    )
    levels: dict[Budgeted, int] = {}
    for tenant_id, data, then in rows.values_list("tenant_id", "data", "at"):
        if then >= period_start(data["period"], at):
            budget = (tenant_id, data["member"], data["period"], data["limit"])
            levels[budget] = max(levels.get(budget, 0), data.get("percent", PASSED))
    return levels


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
