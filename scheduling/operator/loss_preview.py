"""What losing a server would refund, before anybody declares it. The same arithmetic as `failures`, nothing written."""

from __future__ import annotations

from datetime import datetime

from scheduling.jobs import slot_running
from scheduling.market.settle import awards_beside
from scheduling.models import Award, Lane, LaneClock, Server, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.runs import ServerLost, awards_on, floors_on
from tenants.scoping import scope_disabled


def server_loss_preview(*, server: Server, at: datetime) -> ServerLost:
    """If it were lost now: every slot that passes, and every award that is made, changes it."""
    clock = LaneClock.objects.filter(pool=server.pool, lane=Lane.BATCH).first()
    slot = slot_running(server.pool, clock, at)
    with scope_disabled("a lost server holds units of several tenants"):
        awards = awards_on(server, slot)
        awards += awards_beside(awards, slot) or ()
        alive = TrainingJob.objects.filter(pk__in=[award.job_id for award in awards], state__in=LIVE_STATES)
        refunded = sum(_undelivered(award, slot) for award in awards)
        return ServerLost(len(awards), refunded, alive.count(), len(floors_on(server, slot)))


def _undelivered(award: Award, slot: int) -> int:
    """Micro-credits that come back if the slot is the first that is not delivered."""
    rest = award.owed[max(slot, award.start) - award.start :]
    return sum(amount for parts in rest for _, amount in parts)
