"""Read the prices of use of an elastic pool: those of the next slot, and their history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from scheduling.models import Lane, LaneClock, Pool, ResourceKind, UsePrice
from tenants.ledger.amounts import credits_of

MOST_CHANGES = 100


@dataclass(frozen=True)
class UsePriceRow:
    """One price that was set. `amount` is micro-credits for a unit and slot."""

    resource: str
    label: str
    from_slot: int
    starts_at: datetime
    amount: int
    set_at: datetime


@dataclass(frozen=True)
class UsePricesNow:
    """The prices of use of a pool. `slot` is the next one that is not decided. `prices` are by resource name, in the
    pool's order."""

    pool: str
    elastic: bool
    slot: int
    prices: dict[str, int]
    history: tuple[UsePriceRow, ...]


def use_prices(pool: Pool, slot: int) -> dict[str, int]:
    """Return the micro-credits for a unit in the slot by resource name, in the order of the pool's resources; 0 where
    no price was set."""
    newest = UsePrice.objects.filter(pool=pool, from_slot__lte=slot).order_by("resource_id", "-from_slot", "-pk")
    prices = dict(newest.distinct("resource_id").values_list("resource_id", "amount"))
    kinds = ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("pk", "name")
    return {name: prices.get(pk, 0) for pk, name in kinds}


def in_credits(prices: Mapping[str, int]) -> dict[str, float]:
    """Return the prices in credits, as the core uses them."""
    return {name: credits_of(amount) for name, amount in prices.items()}


def use_prices_of(pool: Pool, at: datetime) -> UsePricesNow:
    """Return the prices of the next slot and the newest changes of prices. Takes four short queries."""
    decided = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).values_list("decided_slot", flat=True).first()
    slot = max(pool.slot_at(at), -1 if decided is None else decided, -1) + 1
    kinds = {kind.pk: kind for kind in ResourceKind.objects.filter(pool=pool).order_by("pk")}
    rows = list(UsePrice.objects.filter(pool=pool).order_by("-pk")[:MOST_CHANGES])
    return UsePricesNow(
        pool=pool.slug,
        elastic=pool.is_elastic,
        slot=slot,
        prices=use_prices(pool, slot),
        history=tuple(_row(pool, kinds[row.resource_id], row) for row in rows),
    )


def _row(pool: Pool, kind: ResourceKind, row: UsePrice) -> UsePriceRow:
    return UsePriceRow(kind.name, kind.label, row.from_slot, pool.slot_start(row.from_slot), row.amount, row.set_at)
