"""Read how many jobs come before a waiting one in the next interval, and how the market's estimates held."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from scheduling.jobs.read_estimates import Record, estimates_record
from scheduling.models import JobState, Lane, LaneClock, TrainingJob
from tenants.scoping import scope_disabled

MOST_COUNTED = 1_000


@dataclass(frozen=True)
class QueuePlace:
    """The place of a waiting job. `before` counts the jobs that came before it, of which `mine` are its tenant's.
    `more` says that no further ones were counted."""

    before: int
    mine: int
    more: bool
    decided_at: datetime  # the next interval, at the earliest
    record: Record

    @property
    def place(self) -> int:
        return self.before + 1

    @property
    def others(self) -> int:
        return self.before - self.mine


def queue_place(job: TrainingJob, *, at: datetime) -> QueuePlace | None:
    """Return the place of a job, or None if it waits for no interval: no lane looks at one that waits for another job
    or for a later slot, and so it is before nobody. Needs the tenant's scope. Takes three short queries.

    Jobs rent in the order in which they arrived. Where every slot is dealt out anew there is no such order, so None is
    returned.
    """
    pool = job.pool
    if (job.state, job.lane) != (JobState.QUEUED, Lane.BATCH) or pool.is_elastic:
        return None
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    slot = max(clock.frontier if clock else 0, pool.slot_at(at) + 1)
    if job.not_before > slot:
        return None
    if job.reason_code == "waiting_for_interval":  # it was told of one, maybe before the clock ticked
        slot = max(slot, job.reason_numbers.get("slot", slot))
    with scope_disabled("how many jobs came before is shown to whoever waits, and not whose they are"):
        queue = TrainingJob.objects.filter(pool=pool, lane=Lane.BATCH, state=JobState.QUEUED, not_before__lte=slot)
        earlier = queue.filter(Q(arrival__lt=job.arrival) | Q(arrival=job.arrival, pk__lt=job.pk))
        owners = list(earlier.order_by("arrival", "pk").values_list("tenant_id", flat=True)[: MOST_COUNTED + 1])
    counted = owners[:MOST_COUNTED]
    return QueuePlace(
        before=len(counted),
        mine=counted.count(job.tenant_id),
        more=len(owners) > MOST_COUNTED,
        decided_at=pool.slot_start(slot),
        record=estimates_record(pool),
    )
