"""Which slots were delivered: the one place that says so.

A slot counts as delivered unless an outage names it. An outage is a silence of the market's own clock that covers
whole slots and outlasts the pool's grace; it is written down by the tick that ends it, before anything is settled.
Whoever knows better than the clock whether work went on (an engine that runs without the market) narrows
`silent_slots`; what failed of a single award is told by `failures.award_fail`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from scheduling.models import Outage, Pool, Pulse


@transaction.atomic
def pulse(*, pool: Pool, at: datetime) -> Outage | None:
    """The market is at work. If it was silent for too long until now, that is an outage, written down once."""
    before = Pulse.objects.select_for_update().filter(pool=pool).first()
    if before is None:  # of the time before the first tick nothing is known
        Pulse.objects.bulk_create([Pulse(pool=pool, alive_at=at)], ignore_conflicts=True)
        return None
    if at <= before.alive_at:
        return None
    Pulse.objects.filter(pk=before.pk).update(alive_at=at)
    silent = silent_slots(pool, before.alive_at, at)
    if not silent:
        return None
    return Outage.objects.create(
        pool=pool, start=silent.start, end=silent.stop, alive_at=before.alive_at, noticed_at=at
    )


def silent_slots(pool: Pool, alive_at: datetime, at: datetime) -> range:
    """The slots that nobody delivered between two ticks: none within the grace, else all that passed wholly.

    The slot in which the last tick came, and the one in which the next came, are not among them.
    """
    silent = range(max(pool.slot_at(alive_at) + 1, 0), max(pool.slot_at(at), 0))
    if pool.outage_grace_seconds is None or not silent:
        return range(0)
    late = at - pool.slot_start(silent.start + 1)
    return silent if late >= timedelta(seconds=pool.outage_grace_seconds) else range(0)


def outage_over(pool_id: int, slot: int) -> Outage | None:
    """The outage in which the slot passed undelivered; None: it was delivered, or is still to come."""
    return Outage.objects.filter(pool=pool_id, start__lte=slot, end__gt=slot).first()


def outage_next(pool_id: int, slot: int) -> int | None:
    """The first slot from this one on that an outage names."""
    later = Outage.objects.filter(pool=pool_id, end__gt=slot).order_by("start").values_list("start", flat=True).first()
    return None if later is None else max(later, slot)
