"""Compute what losing a server would refund, before an operator declares it lost. The arithmetic is that of
`runs/failures.py`, but nothing is written."""

from __future__ import annotations

from datetime import datetime

from scheduling.jobs import slot_running
from scheduling.market.settle import awards_beside
from scheduling.models import Award, Lane, LaneClock, Server, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.runs import ServerLost, awards_on, floors_on
from tenants.scoping import scope_disabled


def server_loss_preview(*, server: Server, at: datetime) -> ServerLost:
    """Return what would follow if it were lost now. Every slot that passes, and every new award, changes it."""
    clock = LaneClock.objects.filter(pool=server.pool, lane=Lane.BATCH).first()
    slot = slot_running(server.pool, clock, at)
    with scope_disabled("a lost server holds units of several tenants"):
        awards = awards_on(server, slot)
        awards += awards_beside(awards, slot) or ()
        alive = TrainingJob.objects.filter(pk__in=[award.job_id for award in awards], state__in=LIVE_STATES)
        refunded = sum(_undelivered(award, slot) for award in awards)
        return ServerLost(len(awards), refunded, alive.count(), len(floors_on(server, slot)))


def _undelivered(award: Award, slot: int) -> int:
    """Return the micro-credits that are refunded if the slot is the first that is not delivered. An award that was
    given up pays on for the slots after that."""
    first, end = max(slot, award.start), award.used_until if award.is_given_up else award.end
    rest = award.owed[first - award.start : max(end, first) - award.start]
    return sum(amount for parts in rest for _, amount in parts)
