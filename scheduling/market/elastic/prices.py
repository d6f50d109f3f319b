"""Check and write prices of use. This is a module of its own because a new pool comes with its first prices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from scheduling.models import Pool, ResourceKind, UsePrice
from tenants.access import Refused
from tenants.ledger.amounts import MICRO

MOST_CREDITS = 10**6  # for one unit and slot
MOST_PRICE = MOST_CREDITS * MICRO
NOT_ELASTIC = Refused("not_elastic", "Only an elastic pool has prices of use; elsewhere the market makes the prices.")


def prices_refusal(prices: Mapping[str, int], resources: Collection[str]) -> Refused | None:
    """Return why these prices (micro-credits by resource name) are not valid, or None."""
    for name, amount in prices.items():
        if name not in resources:
            there = ", ".join(resources)
            return Refused("invalid_price", f"{name[:40]}: there is no such resource; there are {there}.")
        if not 0 <= amount <= MOST_PRICE:
            return Refused("invalid_price", f"{name}: a price is 0 to {MOST_CREDITS:,} credits.")
    return None


def prices_write(pool: Pool, prices: Mapping[str, int], first: int, at: datetime) -> None:
    """Store the prices, in micro-credits by resource name. They hold from slot `first` on."""
    if not prices:
        return
    kinds = dict(ResourceKind.objects.filter(pool=pool).values_list("name", "pk"))
    UsePrice.objects.bulk_create(
        UsePrice(pool=pool, resource_id=kinds[name], from_slot=first, amount=amount, set_at=at)
        for name, amount in prices.items()
    )
