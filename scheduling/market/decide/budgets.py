"""Events about budgets: a soft limit is passed, or 80 or 100 % of what may be spent is reached. Each is reported once
in a period. Reasons of refusals are also corrected here where a budget was the limit.

Hard limits are enforced elsewhere, where money is set aside.
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

MARKS = (80, 100)  # per cent of what may be spent, in rising order
PASSED = 101  # the level of a limit that is exceeded
Budgeted = tuple[int, int | None, str, int]  # tenant, member (None for the whole tenant), period, limit


def budget_events(awards: Sequence[Award], *, pool: Pool, at: datetime) -> list[Event]:
    """Return the events about limits that tenants or members pass with these awards, which are stored already."""
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
    """What to report of one limit, unless this level or a higher one was reported in this period already."""

    kind: EventKind
    budget: Budgeted
    level: int  # per cent, or PASSED
    data: Mapping[str, Any]


def budget_news(limit: BudgetLimit) -> list[BudgetNews]:
    """Return what there is to report of this limit. It depends on all that is spent, not on what the last award cost:
    if two awards at the same time each saw half of it, the next award reports them. Of the two marks only the higher
    one that is reached is reported. Marks count towards the hard limit, where there is one."""
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
    """Return the highest level reported of each limit since its period began. A limit that was changed counts as a new
    limit."""
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
    """Return the refusals with reasons that name the budget where it was the limit. The policy itself knows only funds
    and price limits, both already reduced by budgets."""
    return [replace(refusal, reason=_by_budget(snapshot, refusal)) for refusal in refusals]


def smaller_by_budget(snapshot: BatchSnapshot, smaller: Mapping[int, Reason]) -> dict[int, Reason]:
    """Do the same for jobs that run at a smaller size than they could have: name the budget where it was the limit."""
    return {number: _limit_by_budget(snapshot, number, reason) for number, reason in smaller.items()}


def _limit_by_budget(snapshot: BatchSnapshot, number: int, reason: Reason) -> Reason:
    limit, row = reason.numbers["limit"], snapshot.waiting[number]
    if limit == "over_max_price":  # the policy sees the lesser of the job's own limit and the cap as one limit
        by_budget = snapshot.view.jobs[number].max_price != row.spec.get("max_price")
    else:
        by_budget = limit == "low_balance" and row.tenant_id in snapshot.by_budget
    return replace(reason, numbers={**reason.numbers, "limit": "over_budget"}) if by_budget else reason


def _by_budget(snapshot: BatchSnapshot, refusal: Refusal) -> Reason:
    reason, row = refusal.reason, snapshot.waiting[refusal.job]
    price, cap = reason.numbers.get("price"), snapshot.caps.get(refusal.job)
    if reason.code == "low_balance" and row.tenant_id in snapshot.by_budget:
        return Reason("over_budget", reason.numbers)
    before = snapshot.paid_before(row.pk)  # the job's limit includes what it has paid already
    if reason.code == "over_max_price" and cap is not None and reason.numbers["max_price"] == credits_of(cap + before):
        return Reason("over_budget", {"price": price, "left": credits_of(cap)})
    return reason
