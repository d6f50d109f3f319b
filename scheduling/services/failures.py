"""The platform fails: what was not delivered is given back, and the jobs wait again with their first arrival."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduling.models import (
    Award,
    AwardState,
    Event,
    FreedUnits,
    JobFloor,
    JobState,
    Lane,
    Server,
    ServerState,
    TrainingJob,
)
from scheduling.services.cancellation import HoldMissing
from scheduling.services.feed import event, events_append, job_subject
from scheduling.services.lanes import lane_lock
from scheduling.services.pools import may_change_cluster, pool_lock
from scheduling.services.servers import server_subject
from scheduling.services.settlement import ALIVE
from scheduling.services.units import Unit, UnitReader, units_release
from tenants import history
from tenants.access import Access, Refused
from tenants.ledger.postings import InsufficientFunds, Posting, available, held
from tenants.ledger.services import post_many
from tenants.scoping import scope_disabled


@dataclass(frozen=True)
class ServerLost:
    """`awards` were cut short, `refunded` micro-credits returned, `jobs` wait again, `floors` will be planned anew."""

    awards: int
    refunded: int
    jobs: int
    floors: int


@transaction.atomic
def server_lose(*, server: Server, by: Access, reason: str, at: datetime) -> ServerLost | Refused:
    """From the slot that is running on, the server delivers nothing.

    Every award with units there is void, all of it: a gang does not run without one of its servers. The slot that is
    running counts as not delivered. The owners keep what earlier slots brought.
    """
    if refusal := may_change_cluster(by, reason):
        return refusal
    pool_lock(server.pool)
    batch = lane_lock(pool_id=server.pool_id, lane=Lane.BATCH)
    lane_lock(pool_id=server.pool_id, lane=Lane.INSTANT)
    server.refresh_from_db()
    if server.state == ServerState.LOST:
        return Refused("already_lost", f"{server.name} is lost already.")
    before, server.state = server.state, ServerState.LOST
    server.save(update_fields=["state"])
    with scope_disabled("a lost server held units of several tenants"):
        lost = _void_all(server, (batch.settled_slot if batch else -1) + 1, at)
    after = {"state": server.state, "awards": lost.awards, "refunded": lost.refunded, "jobs": lost.jobs}
    subject = server_subject(server)
    history.append(
        at=at, by=by, action="server_lose", subject=subject, reason=reason, before={"state": before}, after=after
    )
    return lost


def _void_all(server: Server, slot: int, at: datetime) -> ServerLost:
    """`slot`: the first that is not delivered."""
    awards, reader = _awards_on(server, slot), UnitReader(server.pool)
    jobs = {job.pk: job for job in _locked([award.job_id for award in awards])}
    freed: defaultdict[str, defaultdict[Unit, float]] = defaultdict(lambda: defaultdict(float))
    for award in awards:
        for unit, amount in reader.units_of(award, jobs[award.job_id], since=slot).items():
            freed[award.lane][unit] += amount
        _void(award, slot)
    for lane, units in freed.items():
        units_release(Lane(lane), units)
    Award.objects.bulk_update(awards, ["state", "cut_at", "returned"], batch_size=1_000)
    _unsell(awards, slot)
    again = [award for award in awards if jobs[award.job_id].state != JobState.CANCELLED]
    _queue_again(server, again, jobs)
    floors = _floors_void(server, slot)
    refunded = sum(award.returned for award in awards)
    lost = ServerLost(len(awards), refunded, len(again), floors)
    events_append([_public(server, lost, at), *(_requeued(server, award, at) for award in again)])
    answer = post_many(postings=[_refund(server, award, at) for award in awards if award.returned])
    if isinstance(answer, InsufficientFunds):
        raise HoldMissing(f"server {server.pk}: {answer}")
    return lost


def _awards_on(server: Server, slot: int) -> list[Award]:
    """Alive, with units on the server in this slot or later."""
    # The database narrows it to rows with the server's number anywhere; what the number means is seen here.
    near = Award.objects.filter(
        pool=server.pool, state__in=ALIVE, end__gt=slot, allocation__contains=[[server.pk]]
    ).order_by("pk")
    return [award for award in near if _touches(award.allocation, server.pk, slot)]


def _touches(allocation: Sequence[Sequence[int]], server_id: int, slot: int) -> bool:
    return any(row[0] == server_id and row[2] > slot for row in allocation)


def _locked(job_ids: Sequence[int]) -> list[TrainingJob]:
    return list(TrainingJob.objects.select_for_update(of=("self",)).filter(pk__in=job_ids).order_by("pk"))


def _void(award: Award, slot: int) -> None:
    cut = max(slot, award.start)
    undelivered = award.charges[cut - award.start :]
    award.returned = sum(amount for parts in undelivered for _, amount in parts)
    award.state, award.cut_at = AwardState.VOID, cut


def _unsell(awards: Sequence[Award], slot: int) -> None:
    """What a refunded award had given up is no longer sold for its tenant's account."""
    freed = FreedUnits.objects.filter(award__in=awards, slot__gte=slot)
    freed.filter(sold=0).delete()
    freed.filter(sold__gt=0).update(amount=F("sold"))


def _queue_again(server: Server, awards: Sequence[Award], jobs: dict[int, TrainingJob]) -> None:
    """With the first arrival, in the batch lane: nobody asks the instant lane a second time."""
    for award in awards:
        job = jobs[award.job_id]
        job.state, job.lane, job.attempt = JobState.QUEUED, Lane.BATCH, job.attempt + 1
        job.reason_code = "server_lost"
        job.reason_numbers = {"server": server.name, "refunded": award.returned}
    changed = [jobs[award.job_id] for award in awards]
    fields = ["state", "lane", "attempt", "reason_code", "reason_numbers"]
    TrainingJob.objects.bulk_update(changed, fields, batch_size=1_000)


def _floors_void(server: Server, slot: int) -> int:
    """Waiting jobs that were promised cells there are promised others at the next interval: a new attempt."""
    promised = JobFloor.objects.filter(
        job__pool=server.pool, job__state=JobState.QUEUED, end__gt=slot, allocation__contains=[[server.pk]]
    ).select_related("job")
    void = [
        floor.job_id
        for floor in promised
        if floor.attempt == floor.job.attempt and _touches(floor.allocation, server.pk, slot)
    ]
    waiting = _locked(void)
    for job in waiting:
        job.attempt += 1
    TrainingJob.objects.bulk_update(waiting, ["attempt"], batch_size=1_000)
    return len(waiting)


def _refund(server: Server, award: Award, at: datetime) -> Posting:
    return Posting(
        key=f"refund:{award.pk}:1",
        kind="refund",
        entries=((held(award.tenant_id), -award.returned), (available(award.tenant_id), award.returned)),
        at=at,
        subject=job_subject(award.job_id),
        facts={"award": award.pk, "cause": "server_lost", "server": server.name, "from_slot": award.cut_at},
    )


def _public(server: Server, lost: ServerLost, at: datetime) -> Event:
    data = {"server": server.name, "awards": lost.awards, "refunded": lost.refunded}
    return event("server_lost", pool_id=server.pool_id, subject=f"server:{server.name}", at=at, data=data)


def _requeued(server: Server, award: Award, at: datetime) -> Event:
    data = {"job": award.job_id, "server": server.name, "refunded": award.returned}
    subject = job_subject(award.job_id)
    return event("job_requeued", pool_id=server.pool_id, tenant_id=award.tenant_id, subject=subject, at=at, data=data)
