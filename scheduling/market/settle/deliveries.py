"""Which slots were delivered: this is the one place that decides it.

A slot counts as delivered unless an outage covers it. An outage is a silence of the market's own clock that covers
whole slots and lasts longer than the pool's grace. The tick that ends it stores it, before anything is settled. A
component that knows better than the clock whether work continued (an engine that runs without the market) would narrow
`silent_slots`; failures of single awards are handled by `failures.award_fail`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from scheduling.models import Outage, Pool, Pulse
from tenants.common.repeated import RepeatedRead, Whose


def pulse(*, pool: Pool, at: datetime) -> Outage | None:
    """Record that the market is running. If it was silent for too long before, store that outage, once, and return
    it."""
    # Nearly always the last tick came in this slot or in the one before, so that no slot passed in silence.
    recent = Pulse.objects.filter(pool=pool, alive_at__lt=at, alive_at__gte=pool.slot_start(pool.slot_at(at) - 1))
    return None if recent.update(alive_at=at) else _pulse_after_silence(pool, at)


@transaction.atomic
def _pulse_after_silence(pool: Pool, at: datetime) -> Outage | None:
    before = Pulse.objects.select_for_update().filter(pool=pool).first()
    if before is None:  # nothing is known of the time before the first tick
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
    """Return the slots that were not delivered between two ticks: none within the grace, else all that passed as a
    whole.

    The slots in which the two ticks themselves came are not among them.
    """
    silent = range(max(pool.slot_at(alive_at) + 1, 0), max(pool.slot_at(at), 0))
    if pool.outage_grace_seconds is None or not silent:
        return range(0)
    late = at - pool.slot_start(silent.start + 1)
    return silent if late >= timedelta(seconds=pool.outage_grace_seconds) else range(0)


def outage_over(pool_id: int, slot: int) -> Outage | None:
    """Return the outage that covers the slot, or None if the slot was delivered or is still to come."""
    return next(iter(_outages(pool_id=pool_id, slot=slot)), None)


_outages = RepeatedRead(
    lambda pool_id, slot: Outage.objects.filter(pool=pool_id, start__lte=slot, end__gt=slot).order_by("start"),
    of=Whose.NONE,
    pool_id=-1,
    slot=-2,
)


def outage_next(pool_id: int, slot: int) -> int | None:
    """Return the first slot, from this one on, that an outage covers, or None."""
    later = Outage.objects.filter(pool=pool_id, end__gt=slot).order_by("start").values_list("start", flat=True).first()
    return None if later is None else max(later, slot)
