"""Read what tenants and members may spend by their budgets in a period of UTC, and how much of it is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Sum

from scheduling.models import Award, Budget, TrainingJob
from scheduling.money.view_spending import period_start
from tenants.common.repeated import RepeatedRead, Whose
from tenants.scoping import scope


@dataclass(frozen=True)
class BudgetLimit:
    """One budget in the running period. Amounts are micro-credits."""

    tenant_id: int
    member_id: int | None  # None for a budget of the whole tenant
    period: str
    soft: int | None
    hard: int | None
    spent: int  # paid for awards made in this period, less what was returned of them

    @property
    def left(self) -> int | None:
        """What may still be spent; None if there is no hard limit."""
        return None if self.hard is None else max(self.hard - self.spent, 0)

    def binds(self, tenant_id: int, member_id: int | None) -> bool:
        return self.tenant_id == tenant_id and self.member_id in (None, member_id)


def limits(*, tenant_ids: Collection[int], at: datetime) -> tuple[BudgetLimit, ...]:
    """Read every budget of these tenants. Takes one query for the budgets and one for each length of period in use."""
    return _limits(list(Budget.objects.filter(tenant__in=tenant_ids).order_by("pk")), at)


def tenant_limits(*, tenant_id: int, at: datetime) -> tuple[BudgetLimit, ...]:
    """Read every budget of one tenant; each submission does this."""
    with scope(tenant_id):
        return _limits(_budgets(), at)


_budgets = RepeatedRead(lambda: Budget.objects.order_by("pk"), of=Whose.ONE)


def _limits(budgets: Collection[Budget], at: datetime) -> tuple[BudgetLimit, ...]:
    spent = {
        period: _spent({row.tenant_id for row in budgets if row.period == period}, period_start(period, at))
        for period in {row.period for row in budgets}
    }
    return tuple(
        BudgetLimit(
            row.tenant_id,
            row.member_id,
            row.period,
            row.soft_limit,
            row.hard_limit,
            _of(spent[row.period], row.tenant_id, row.member_id),
        )
        for row in budgets
    )


def passed_by_others(
    before: Iterable[BudgetLimit], awards: Collection[Award], *, at: datetime
) -> tuple[BudgetLimit, ...]:
    """Return the hard limits that are passed with these awards because others spent since `before` was read. `awards`
    are stored and their prices held, by this transaction: whoever pays from the same accounts waits for its end.

    It reads again only where somebody who pays has a hard limit. What the awards themselves cost was decided under
    `before`, so they alone pass no limit.
    """
    paying = [award for award in awards if award.paid]
    payers = {(award.tenant_id, award.job.submitted_by_id) for award in paying}
    spent = {_name(each): each.spent for each in before if each.hard is not None}
    tenant_ids = {tenant for tenant, _ in payers} & {tenant for tenant, *_ in spent}
    if not tenant_ids:
        return ()

    def others(limit: BudgetLimit) -> int:
        ours = sum(award.paid for award in paying if limit.binds(award.tenant_id, award.job.submitted_by_id))
        return limit.spent - ours

    return tuple(
        limit
        for limit in limits(tenant_ids=tenant_ids, at=at)
        if limit.hard is not None and limit.spent > limit.hard
        if any(limit.binds(*payer) for payer in payers)
        if others(limit) > spent.get(_name(limit), 0)
    )


def _name(limit: BudgetLimit) -> tuple[int, int | None, str]:
    return limit.tenant_id, limit.member_id, limit.period


def left_for(budgets: Iterable[BudgetLimit], tenant_id: int, member_id: int | None) -> int | None:
    """Return what one more award may cost under all budgets that apply to this member; None if there is no limit."""
    lefts = [limit.left for limit in budgets if limit.binds(tenant_id, member_id) and limit.left is not None]
    return min(lefts, default=None)


def tenant_lefts(budgets: Iterable[BudgetLimit]) -> dict[int, int]:
    """Map each tenant's id to what is left under the hard limits of the whole tenant. Tenants without one are left
    out."""
    lefts: dict[int, int] = {}
    for limit in budgets:
        if limit.member_id is None and limit.left is not None:
            lefts[limit.tenant_id] = min(limit.left, lefts.get(limit.tenant_id, limit.left))
    return lefts


def member_caps(
    budgets: Iterable[BudgetLimit], waiting: Iterable[TrainingJob], going_on: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Map each job to the most that it may cost under its submitter's hard limits.

    All of a member's waiting jobs may be awarded in one plan, so each gets an equal part of what is left. Jobs that
    would lose what they did if they were paused come first: `going_on` has, in their order, the micro-credits that each
    needs to go on. They get these before the rest is divided, and a part of the rest like all others.
    """
    jobs: defaultdict[tuple[int, int | None], list[int]] = defaultdict(list)
    for row in waiting:
        jobs[row.tenant_id, row.submitted_by_id].append(row.pk)
    caps: dict[int, int] = {}
    for limit in budgets:
        theirs = jobs.get((limit.tenant_id, limit.member_id), []) if limit.member_id is not None else []
        if limit.left is None or not theirs:
            continue
        first, left = dict.fromkeys(theirs, 0), limit.left
        for number, needed in (going_on or {}).items():
            if number in first:
                first[number] = min(needed, left)
                left -= first[number]
        for number in theirs:
            most = first[number] + left // len(theirs)
            caps[number] = min(most, caps.get(number, most))
    return caps


def _spent(tenant_ids: Collection[int], since: datetime) -> dict[tuple[int, int | None], int]:
    """Map (tenant, member who submitted) to the micro-credits spent. The time it takes depends only on the awards of
    the period."""
    rows = (
        Award.objects.filter(tenant__in=tenant_ids, paid__gt=0, awarded_at__gte=since)
        .order_by()
        .values_list("tenant_id", "job__submitted_by")
        .annotate(amount=Sum(F("paid") - F("returned")))
    )
    return {(tenant_id, member_id): amount for tenant_id, member_id, amount in rows}


def _of(spent: dict[tuple[int, int | None], int], tenant_id: int, member_id: int | None) -> int:
    return sum(
        amount for (tenant, member), amount in spent.items() if tenant == tenant_id and member_id in (None, member)
    )
