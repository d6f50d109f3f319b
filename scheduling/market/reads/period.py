"""What a tenant earned and spent in a period: the one rule for every page that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenants.common.zones import day_of, midnight
from tenants.ledger.movements import Outside, Position, period_sums
from tenants.ledger.postings import TenantBalances


@dataclass(frozen=True)
class PeriodMoney:
    """Micro-credits earned and spent. Together with payments from outside and back they are the whole difference of the
    balances."""

    earned: int
    spent: int


def period_money(opening: TenantBalances, closing: TenantBalances, outside: Outside) -> PeriodMoney:
    """Return what was earned and spent between two balances. Earned is what the account "earned" gained, plus what left
    it to be spent. Spent is all else that the total lost; every other movement leaves the total as it is."""
    earned = closing.earned - opening.earned + outside.off_earned
    return PeriodMoney(earned, total(opening) + outside.paid_in + earned - total(closing))


def money_since(
    *, tenant_id: int, starts: Sequence[datetime], at: datetime
) -> tuple[tuple[PeriodMoney, ...], TenantBalances]:
    """Return what was earned and spent from each start until now, and the balances now. Takes one query. Needs the
    tenant's scope."""
    end = midnight(day_of(at) + timedelta(days=1))
    places = [Position(moment, 0) for moment in (end, *starts)]
    (now, *opened), outside = period_sums(
        tenant_id=tenant_id, positions=places, periods=[(start, end) for start in starts]
    )
    return tuple(period_money(one, now, other) for one, other in zip(opened, outside, strict=True)), now


def total(balances: TenantBalances) -> int:
    """Return the sum of the three balances."""
    return balances.available + balances.held + balances.earned
