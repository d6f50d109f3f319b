"""The market stopped: slots that passed meanwhile were not delivered, so nobody pays for them and nothing is decided.

Time went on as in a market that is held, with one difference: what was sold was not delivered either. Every award
with a slot in the outage is void from there on, and its job waits again. Promises of waiting jobs that should have
begun meanwhile are planned anew by the next decision, as after a hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from scheduling.feed import EventKind, event, events_append
from scheduling.market.calendar.lanes import Busy, lane_lock
from scheduling.market.settle.refunds import Cause, awards_void, refunds_post
from scheduling.market.settle.slots import awards_move
from scheduling.models import Award, Event, Lane, LaneClock, Outage, Pool, unsettled_from
from tenants.scoping import scope_disabled


@dataclass(frozen=True)
class Stopped:
    """Slots [start, end) are over, undelivered. `awards` were cut short, `refunded` micro-credits returned."""

    start: int
    end: int
    awards: int
    refunded: int
    jobs: int


@transaction.atomic
def outage_pass(*, pool: Pool, outage: Outage, slot: int) -> Stopped | Busy | None:
    """Bring the clock from `slot`, which lies in the outage and is not decided, to the outage's end.

    None: that was done before. What happens carries the time of the outage's end, however late it is done.
    """
    batch = lane_lock(pool_id=pool.pk, lane=Lane.BATCH, wait=False)
    if batch is None:
        return Busy()
    if (batch.decided_slot, batch.settled_slot) != (slot - 1, slot - 1):
        return None
    lane_lock(pool_id=pool.pk, lane=Lane.INSTANT)
    at = pool.slot_start(outage.end)
    with scope_disabled("a market stands still for all its tenants"):
        sold = Award.objects.filter(unsettled_from(slot), pool=pool, start__lt=outage.end)
        cause = Cause("market_stopped", {"start": slot, "end": outage.end})
        voided = awards_void(pool, list(sold.order_by("pk")), slot, cause, at)
        awards_move(pool, outage.end, at)
        LaneClock.objects.filter(pk=batch.pk).update(decided_slot=outage.end - 1, settled_slot=outage.end - 1)
        stopped = Stopped(slot, outage.end, len(voided.awards), voided.refunded, len(voided.again))
        events_append([_public(pool, stopped, outage, at), *voided.events])
        refunds_post(voided)
    return stopped


def _public(pool: Pool, stopped: Stopped, outage: Outage, at: datetime) -> Event:
    data = {
        "start": stopped.start,
        "end": stopped.end,
        "awards": stopped.awards,
        "refunded": stopped.refunded,
        "silent_since": outage.alive_at.isoformat(),
        "noticed_at": outage.noticed_at.isoformat(),
    }
    return event(EventKind.MARKET_STOPPED, pool_id=pool.pk, subject=f"pool {pool.slug}", at=at, data=data)
