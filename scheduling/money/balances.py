"""Notices about money that runs out: in time, once, with the time that is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from scheduling.feed import EventKind, event
from scheduling.models import Event, Pool
from tenants.ledger.postings import available, held
from tenants.ledger.selectors import balances


def low_balance_events(pool: Pool, slot: int, spent: Mapping[int, int], at: datetime) -> list[Event]:
    """`spent`: what each tenant paid for the slot. Low is what would not last through the longest interval.

    What runs is paid for by what is held; the notice says how long the rest would go on paying as much as now.
    """
    names = [account(tenant_id) for tenant_id in spent for account in (available, held)]
    found = balances(accounts=names)
    low = {
        tenant_id: found[available(tenant_id)] // amount
        for tenant_id, amount in spent.items()
        if amount and found[available(tenant_id)] // amount < pool.clock_cap
    }
    warned = _warned_lately(pool, low, slot) if low else set()
    return [
        event(
            EventKind.LOW_BALANCE,
            pool_id=pool.pk,
            tenant_id=tenant_id,
            at=at,
            data={
                "slot": slot,
                "available": found[available(tenant_id)],
                "held": found[held(tenant_id)],
                "per_slot": spent[tenant_id],
                "slots_left": slots_left,
                "slot_seconds": pool.slot_seconds,
                "until": pool.slot_start(slot + 1 + slots_left).isoformat(),
            },
        )
        for tenant_id, slots_left in sorted(low.items())
        if tenant_id not in warned
    ]


def _warned_lately(pool: Pool, tenant_ids: Collection[int], slot: int) -> set[int]:
    """Who had a notice within the longest interval: once in that time is enough."""
    rows = (
        Event.objects.filter(kind=EventKind.LOW_BALANCE, pool=pool, tenant__in=tenant_ids)
        .order_by("tenant_id", "-id")
        .distinct("tenant_id")
        .values_list("tenant_id", "data__slot")
    )
    return {tenant_id for tenant_id, then in rows if then > slot - pool.clock_cap}
