"""What a period brought a tenant and what it cost: one rule for every page that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenants.ledger.movements import Outside, Position, period_sums
from tenants.ledger.postings import TenantBalances
from tenants.zones import day_of, midnight


@dataclass(frozen=True)
class PeriodMoney:
    """Micro-credits. Together with what came from outside they are the whole difference of the balances."""

    earned: int
    spent: int


def period_money(opening: TenantBalances, closing: TenantBalances, outside: Outside) -> PeriodMoney:
    """Earned: what the account of that name gained, and what left it to be spent. Spent: all else that the total lost;
    every other movement leaves it as it is."""
    earned = closing.earned - opening.earned + outside.off_earned
    return PeriodMoney(earned, total(opening) + outside.paid_in + earned - total(closing))


def money_since(
    *, tenant_id: int, starts: Sequence[datetime], at: datetime
) -> tuple[tuple[PeriodMoney, ...], TenantBalances]:
    """From each start until now, and the balances now; one query. Needs the tenant's scope."""
    end = midnight(day_of(at) + timedelta(days=1))
    places = [Position(moment, 0) for moment in (end, *starts)]
    (now, *opened), outside = period_sums(
        tenant_id=tenant_id, positions=places, periods=[(start, end) for start in starts]
    )
    return tuple(period_money(one, now, other) for one, other in zip(opened, outside, strict=True)), now


def total(balances: TenantBalances) -> int:
    """All three together."""
    return balances.available + balances.held + balances.earned
