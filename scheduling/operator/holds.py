"""Hold, drain or resume a pool. Meanwhile time passes, and what was sold is paid and delivered.

On hold nothing new is decided; jobs may still be submitted to the batch lane, and wait. In a draining pool nothing new
is accepted either, so that the pool comes to rest.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduling.cluster import may_change_cluster, pool_lock
from scheduling.feed import EventKind, event, events_append
from scheduling.market.calendar import lane_lock
from scheduling.models import Lane, LaneClock, Pool
from tenants import history
from tenants.access import Access, Refused


def pool_hold(*, pool: Pool, by: Access, reason: str, at: datetime) -> Refused | None:
    """Stop deciding until the pool is resumed."""
    return _change("pool_hold", EventKind.POOL_HELD, pool, held=True, draining=False, by=by, reason=reason, at=at)


def pool_drain(*, pool: Pool, by: Access, reason: str, at: datetime) -> Refused | None:
    """Stop deciding and accepting until the pool is resumed."""
    return _change("pool_drain", EventKind.POOL_DRAINING, pool, held=True, draining=True, by=by, reason=reason, at=at)


def pool_resume(*, pool: Pool, by: Access, reason: str, at: datetime) -> Refused | None:
    """Decide again from the next boundary on; boundaries that passed meanwhile stay undecided."""
    return _change("pool_resume", EventKind.POOL_RESUMED, pool, held=False, draining=False, by=by, reason=reason, at=at)


@transaction.atomic
def _change(
    action: str, kind: EventKind, pool: Pool, *, held: bool, draining: bool, by: Access, reason: str, at: datetime
) -> Refused | None:
    if refusal := may_change_cluster(by, reason):
        return refusal
    pool_lock(pool)
    for lane in (Lane.BATCH, Lane.INSTANT):  # in the order of the locks
        lane_lock(pool_id=pool.pk, lane=lane)
    before = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).values("held", "draining").get()
    after = {"held": held, "draining": draining}
    if before == after:
        return None
    LaneClock.objects.filter(pool=pool).update(**after)
    subject = f"pool {pool.slug}"
    events_append([event(kind, pool_id=pool.pk, subject=subject, at=at, data={"reason": reason})])
    history.append(at=at, by=by, action=action, subject=subject, reason=reason, before=before, after=after)
    return None
