"""What a unit costs in a slot of an elastic pool, as its operator set it."""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.models import Pool, ResourceKind, UsePrice
from tenants.ledger.postings import MICRO


def use_prices(pool: Pool, slot: int) -> dict[str, int]:
    """Resource name -> micro-credits for a unit, in the order of the pool's resources; 0 where nothing was set."""
    newest = UsePrice.objects.filter(pool=pool, from_slot__lte=slot).order_by("resource_id", "-from_slot", "-pk")
    found = dict(newest.distinct("resource_id").values_list("resource_id", "amount"))
    kinds = ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("pk", "name")
    return {name: found.get(pk, 0) for pk, name in kinds}


def in_credits(prices: Mapping[str, int]) -> dict[str, float]:
    """As the core counts them."""
    return {name: amount / MICRO for name, amount in prices.items()}
