"""Process an outage: slots that passed while the market stood still were not delivered, so nobody pays for them and
nothing is decided for them.

As in a market that is held, time passes without decisions; but here sold units were not delivered either. Every award
with a slot in the outage is void from there on, and its job waits again. Floors of waiting jobs that should have begun
meanwhile are planned anew by the next decision, as after a hold.
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
    """The slots [start, end) have passed undelivered. `awards` were cut short, `refunded` micro-credits returned, and
    `jobs` wait again."""

    start: int
    end: int
    awards: int
    refunded: int
    jobs: int


@transaction.atomic
def outage_pass(*, pool: Pool, outage: Outage, slot: int) -> Stopped | Busy | None:
    """Bring the clock from `slot`, which lies in the outage and is not decided, to the outage's end.

    Return None if that was done before. Events and postings carry the time of the outage's end, however late this runs.
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
