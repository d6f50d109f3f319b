"""Process an outage: slots that passed while the market stood still were not delivered, so nobody pays for them and
nothing is decided for them.

As in a market that is held, time passes without decisions; but here sold units were not delivered either. Every award
with a slot in the outage is void from there on, and its job waits again. An award that was given up gets back what it
pays for the slots of the outage, and pays on after it, as its tenant sells those units. Floors of waiting jobs
that should have begun meanwhile are planned anew by the next decision, as after a hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from scheduling.feed import EventKind, event, events_append
from scheduling.market.calendar.lanes import Busy, lane_lock
from scheduling.market.settle.payments import paid_late
from scheduling.market.settle.refunds import Cause, awards_void, refunds_post, slots_pay_back
from scheduling.market.settle.rents import Closing, rents_close
from scheduling.market.settle.slots import awards_move
from scheduling.models import Award, Event, Lane, LaneClock, Outage, Pool, RentState, unsettled_from
from tenants.scoping import scope_disabled


@dataclass(frozen=True)
class Stopped:
    """The slots [start, end) have passed undelivered. `awards` lost slots, `refunded` micro-credits returned, and
    `jobs` wait again. `arrears` micro-credits were paid for slots before the outage, of rents that were open."""

    start: int
    end: int
    awards: int
    refunded: int
    jobs: int
    arrears: int


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
        sold = list(Award.objects.filter(unsettled_from(slot), pool=pool, start__lt=outage.end).order_by("pk"))
        over = [award for award in sold if award.is_given_up]
        lost = [award for award in sold if not award.is_given_up]
        cause = Cause("market_stopped", {"start": slot, "end": outage.end})
        open_rents = [Closing(award) for award in over if award.rent == RentState.OPEN]
        arrears, _ = rents_close(pool, open_rents, slot - 1, at) if open_rents else ([], [])
        back = slots_pay_back(pool, over, slot, cause, at, outage_end=outage.end)
        voided = awards_void(pool, lost, slot, cause, at)
        awards_move(pool, outage.end, at)
        LaneClock.objects.filter(pk=batch.pk).update(decided_slot=outage.end - 1, settled_slot=outage.end - 1)
        refunded = back.refunded + voided.refunded
        late = paid_late(arrears)
        lost_slots = len(over) + len(voided.awards)
        stopped = Stopped(slot, outage.end, lost_slots, refunded, len(voided.again), late.owners + late.operator)
        events_append([_public(pool, stopped, outage, at), *back.events, *voided.events])
        refunds_post([*arrears, *back.postings, *voided.postings])
    return stopped


def _public(pool: Pool, stopped: Stopped, outage: Outage, at: datetime) -> Event:
    data = {
        "start": stopped.start,
        "end": stopped.end,
        "awards": stopped.awards,
        "refunded": stopped.refunded,
        "arrears": stopped.arrears,
        "silent_since": outage.alive_at.isoformat(),
        "noticed_at": outage.noticed_at.isoformat(),
    }
    return event(EventKind.MARKET_STOPPED, pool_id=pool.pk, subject=f"pool {pool.slug}", at=at, data=data)
