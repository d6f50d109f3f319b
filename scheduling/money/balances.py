"""Warn tenants whose money runs out: early enough, once, and with the time that is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import F, Func, IntegerField, JSONField
from django.db.models.functions import Cast

from scheduling.core.stored_charges import slot_parts
from scheduling.feed import EventKind, event
from scheduling.models import ALIVE, Award, Event, Lane, LaneClock, Pool, RentState
from tenants.ledger.postings import available, held
from tenants.ledger.selectors import balances


def low_balance_events(pool: Pool, slot: int, spent: Mapping[int, int], at: datetime) -> list[Event]:
    """Return the events about low balances. `spent` is what each tenant paid for the slot. A balance is low if it would
    not last through the longest interval at the rate at which the tenant spends now in all pools.

    Running jobs are paid from held credits. The event says how long the available credits would last at the same rate.
    """
    spent = _in_all_pools(pool, spent)
    names = [account(tenant_id) for tenant_id in spent for account in (available, held)]
    balances_now = balances(accounts=names)
    low = {
        tenant_id: balances_now[available(tenant_id)] // amount
        for tenant_id, amount in spent.items()
        if amount and balances_now[available(tenant_id)] // amount < pool.clock_cap
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
                "available": balances_now[available(tenant_id)],
                "held": balances_now[held(tenant_id)],
                "per_slot": spent[tenant_id],
                "slots_left": slots_left,
                "slot_seconds": pool.slot_seconds,
                "until": pool.slot_start(slot + 1 + slots_left).isoformat(),
            },
        )
        for tenant_id, slots_left in sorted(low.items())
        if tenant_id not in warned
    ]


def _in_all_pools(pool: Pool, spent: Mapping[int, int]) -> dict[int, int]:
    """Return what each tenant pays in all pools, in micro-credits per slot of this pool. For other pools this is the
    cost of their running slots."""
    spent_in_all = dict(spent)
    if not LaneClock.objects.filter(lane=Lane.BATCH).exclude(pool=pool).exists():
        return spent_in_all
    # Each pool's clock is joined to know its running slot: there may be hundreds of pools, but a tenant is in few.
    awards = Award.objects.filter(tenant__in=spent, state__in=ALIVE, paid__gt=0, pool__clocks__lane=Lane.BATCH)
    rows = awards.exclude(pool=pool).exclude(rent=RentState.OPEN).annotate(running=F("pool__clocks__settled_slot") + 1)
    place = Cast(F("running") - F("start"), IntegerField())
    parts = Func(F("lists"), place, arg_joiner=" -> ", template="(%(expressions)s)", output_field=JSONField())
    rows = rows.filter(start__lte=F("running"), end__gt=F("running")).annotate(place=place, parts=parts)
    columns = ("tenant", "pool", "pool__slot_seconds", "place", "owners", "amounts", "parts")
    elsewhere: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    for tenant_id, pool_id, seconds, *stored in rows.values_list(*columns):
        elsewhere[tenant_id, pool_id, seconds] += sum(amount for _, amount in slot_parts(*stored))
    for (tenant_id, _, seconds), amount in elsewhere.items():
        spent_in_all[tenant_id] += (2 * amount * pool.slot_seconds + seconds) // (2 * seconds)
    return spent_in_all


def _warned_lately(pool: Pool, tenant_ids: Collection[int], slot: int) -> set[int]:
    """Return the tenants that were warned within the longest interval, in any pool: once in that time is enough."""
    rows = (
        Event.objects.filter(kind=EventKind.LOW_BALANCE, tenant__in=tenant_ids)
        .order_by("tenant_id", "-id")
        .distinct("tenant_id")
        .select_related("pool")
    )
    since = pool.slot_start(slot - pool.clock_cap)
    return {
        row.tenant_id for row in rows if row.tenant_id and row.pool and row.pool.slot_start(row.data["slot"]) > since
    }
