"""What an operator asks for a unit and slot of an elastic pool. A price holds from the next slot that is not decided;
what is decided keeps its price."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from scheduling.models import Lane, LaneClock, Pool, ResourceKind, UsePrice
from scheduling.services.feed import event, events_append
from scheduling.services.lanes import lane_lock
from scheduling.services.pools import may_change_cluster, pool_lock
from scheduling.snapshots.use_prices import use_prices
from tenants import history
from tenants.access import Access, Refused
from tenants.ledger.postings import MICRO

MOST_PRICE = 10**6 * MICRO
NOT_ELASTIC = Refused("not_elastic", "Only an elastic pool has prices of use; elsewhere the market makes the prices.")


@transaction.atomic
def use_prices_set(*, pool: Pool, prices: Mapping[str, int], by: Access, reason: str, at: datetime) -> int | Refused:
    """The slot from which they hold. `prices`: resource name -> micro-credits; what is not named keeps its price."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    if refusal := prices_refusal(pool, prices):
        return refusal
    pool_lock(pool)
    clock = lane_lock(pool_id=pool.pk, lane=Lane.BATCH)
    first = _first_free(pool, clock, at)
    before = use_prices(pool, first)
    after = before | dict(prices)
    if before != after:
        _write(pool, {name: after[name] for name in after if after[name] != before[name]}, first, at)
        data = {"lane": Lane.BATCH.value, "from": first, "prices": after}
        subject = f"pool {pool.slug}"
        events_append([event("use_prices_set", pool_id=pool.pk, subject=subject, at=at, data=data)])
        history.append(
            at=at,
            by=by,
            action="use_prices_set",
            subject=subject,
            reason=reason,
            before={"prices": before},
            after={"prices": after, "from_slot": first},
        )
    return first


def prices_refusal(pool: Pool, prices: Mapping[str, int]) -> Refused | None:
    """Why these cannot be the prices of a pool that exists."""
    if not pool.is_elastic:
        return NOT_ELASTIC
    return amounts_refusal(prices, list(ResourceKind.objects.filter(pool=pool).values_list("name", flat=True)))


def amounts_refusal(prices: Mapping[str, int], resources: list[str]) -> Refused | None:
    for name, amount in prices.items():
        if name not in resources:
            return Refused("invalid_price", f"{name}: there is no such resource; there are {', '.join(resources)}.")
        if not 0 <= amount <= MOST_PRICE:
            return Refused("invalid_price", f"{name}: a price is 0 to {MOST_PRICE // MICRO:,} credits.")
    return None


def _write(pool: Pool, prices: Mapping[str, int], first: int, at: datetime) -> None:
    kinds = dict(ResourceKind.objects.filter(pool=pool).values_list("name", "pk"))
    UsePrice.objects.bulk_create(
        UsePrice(pool=pool, resource_id=kinds[name], from_slot=first, amount=amount, set_at=at)
        for name, amount in prices.items()
    )


def _first_free(pool: Pool, clock: LaneClock | None, at: datetime) -> int:
    """The running slot is decided or will be in a moment, at the price that stood when it began."""
    return max(pool.slot_at(at), clock.decided_slot if clock else -1, -1) + 1
