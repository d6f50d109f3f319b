"""Set the price of a unit and slot of an elastic pool. A price holds from the next undecided slot on; decided slots
keep theirs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from scheduling.cluster import may_change_cluster, pool_lock
from scheduling.feed import EventKind, event, events_append
from scheduling.market.calendar import lane_lock
from scheduling.market.elastic import NOT_ELASTIC, prices_refusal, prices_write, use_prices
from scheduling.models import Lane, LaneClock, Pool, ResourceKind
from tenants import history
from tenants.access import Access, Refused


@transaction.atomic
def use_prices_set(*, pool: Pool, prices: Mapping[str, int], by: Access, reason: str, at: datetime) -> int | Refused:
    """Set prices, and return the slot from which they hold. `prices` maps resource name -> micro-credits; other
    resources keep their price."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    if not pool.is_elastic:
        return NOT_ELASTIC
    kinds = list(ResourceKind.objects.filter(pool=pool).values_list("name", flat=True))
    if refusal := prices_refusal(prices, kinds):
        return refusal
    pool_lock(pool)
    clock = lane_lock(pool_id=pool.pk, lane=Lane.BATCH)
    first = _first_free(pool, clock, at)
    before = use_prices(pool, first)
    after = before | dict(prices)
    if before != after:
        prices_write(pool, {name: after[name] for name in after if after[name] != before[name]}, first, at)
        data = {"lane": Lane.BATCH.value, "from": first, "prices": after}
        subject = f"pool {pool.slug}"
        events_append([event(EventKind.USE_PRICES_SET, pool_id=pool.pk, subject=subject, at=at, data=data)])
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


def _first_free(pool: Pool, clock: LaneClock | None, at: datetime) -> int:
    """Return the first slot with a new price. The running slot is decided, or soon will be, at the price
    when it began."""
    return max(pool.slot_at(at), clock.decided_slot if clock else -1, -1) + 1
