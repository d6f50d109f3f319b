"""Handle failures of the platform: refund what was not delivered, and let the jobs wait again with their first
arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import transaction

from scheduling.cluster import may_change_cluster, pool_lock, server_subject
from scheduling.feed import EventKind, event, events_append, job_event
from scheduling.market.calendar import lane_lock
from scheduling.market.settle import (
    AT_ONCE,
    Cause,
    Next,
    awards_void,
    job_waits_after_its_end,
    jobs_locked,
    refunds_post,
    slots_pay_back,
)
from scheduling.models import (
    ALIVE,
    Award,
    AwardState,
    Event,
    JobFloor,
    JobState,
    Lane,
    Server,
    ServerState,
    TrainingJob,
)
from tenants import history
from tenants.access import Access, Refused
from tenants.scoping import scope_disabled

ENGINE_ERROR = "engine_error"
LONGEST_DETAIL = 200  # characters of an engine's sentence about what went wrong
MOST_LOSSES = 5  # losses of one job in a row, without an epoch more than before


@dataclass(frozen=True)
class ServerLost:
    """What the loss of a server did: `awards` lost slots, `refunded` micro-credits returned, `jobs` wait again, and
    `floors` will be planned anew."""

    awards: int
    refunded: int
    jobs: int
    floors: int


@dataclass(frozen=True)
class AwardFailed:
    """An award that the engine could not run. `slot` is the first one that is not paid for. `waits`: the job was queued
    again. `repeated`: the award was void before."""

    award: Award
    slot: int
    refunded: int
    waits: bool
    repeated: bool


@transaction.atomic
def server_lose(*, server: Server, by: Access, reason: str, at: datetime) -> ServerLost | Refused:
    """Mark a server as lost: from the current slot on it delivers nothing.

    Every award with units there becomes void as a whole, since a gang does not run without one of its servers. The
    current slot counts as not delivered. The owners are paid for the slots before it, also if those wait for a late
    settlement. An award that was given up in the current slot gets that slot back, and pays on.
    """
    if refusal := may_change_cluster(by, reason):
        return refusal
    pool_lock(server.pool)
    settled_slot, decided_slot = _lanes_locked(server.pool_id)
    slot = max(settled_slot + 1, server.pool.slot_at(at))
    server.refresh_from_db()
    if server.state == ServerState.LOST:
        return Refused("already_lost", f"{server.name} is lost already.")
    before, server.state = server.state, ServerState.LOST
    server.lost_from, server.lost_after = slot, decided_slot
    server.save(update_fields=["state", "lost_from", "lost_after"])
    with scope_disabled("a lost server held units of several tenants"):
        lost = _lose(server, slot, at)
    after = {"state": server.state, "awards": lost.awards, "refunded": lost.refunded, "jobs": lost.jobs}
    after |= {"lost_from": server.lost_from, "lost_after": server.lost_after}
    subject = server_subject(server)
    history.append(
        at=at, by=by, action="server_lose", subject=subject, reason=reason, before={"state": before}, after=after
    )
    return lost


@transaction.atomic
def award_fail(
    *, award_id: int, slot: int, detail: str, at: datetime, losses: int = 0, gone_at: datetime | None = None
) -> AwardFailed | Refused:
    """Void an award that the engine could not run from `slot` on, by no fault of its tenant. Calling it again changes
    nothing.

    What is settled stays settled: the refund begins with the first slot that is not. Slots before `slot` were
    delivered, and are paid for. An award that is void from a later slot on becomes void from this one on. If its tenant
    gave it up, it gets back the slots from `slot` on until then, and pays on to its end: nothing more of it was to be
    delivered. If all of it is settled, and its job was stopped as its time was over, the job waits again all the same.
    `detail` says what went wrong, in the engine's words. `losses` is how often in a row this job was lost without
    progress. It waits longer each time and is given up in the end, since another try does not help.
    `gone_at` is the moment after which its gang cannot run any more, where nobody can say whether it runs now. The job
    does not begin before that.
    """
    with scope_disabled("an engine fails for whoever runs on it"):
        award = Award.objects.select_related("pool").filter(pk=award_id).first()
        if award is None:
            return Refused("unknown_award", "There is no such award.")
        settled_slot, _ = _lanes_locked(award.pool_id)
        first = max(settled_slot + 1, slot)
        award.refresh_from_db(from_queryset=Award.objects.select_related("pool").select_for_update(of=("self",)))
        if award.state == AwardState.VOID and first >= award.paid_until:
            return AwardFailed(award, award.paid_until, award.returned, waits=False, repeated=True)
        if award.state not in (*ALIVE, AwardState.VOID) or first >= award.used_until:
            if slot < award.end and _waits_after_its_end(award, first, detail, losses, at):
                return AwardFailed(award, award.paid_until, award.returned, waits=losses < MOST_LOSSES, repeated=False)
            return Refused("already_over", "All that was sold with this award is delivered or given back.")
        if award.is_given_up:
            cause = Cause(ENGINE_ERROR, {"detail": detail[:LONGEST_DETAIL]})
            back = slots_pay_back(award.pool, [award], first, cause, at)
            events_append(back.events)
            refunds_post(back.postings)
            return AwardFailed(award, max(first, award.start), award.returned, waits=False, repeated=False)
        following = after_losses(losses, award.pool.slot_at(at))
        if gone_at is not None and gone_at > at and not following.given_up:
            free = award.pool.slot_at(gone_at - timedelta.resolution) + 1
            following = replace(following, not_before=max(following.not_before, free))
        cause = Cause(ENGINE_ERROR, {"detail": detail[:LONGEST_DETAIL]} | _tries(losses, following))
        voided = awards_void(award.pool, [award], first, cause, at, following)
        events_append(voided.events)
        refunds_post(voided.postings)
    return AwardFailed(award, award.paid_until, award.returned, waits=bool(voided.again), repeated=False)


def _waits_after_its_end(award: Award, slot: int, detail: str, losses: int, at: datetime) -> bool:
    """Let the job of an award that is over wait again, or give it up after too many losses, if the clock stopped it
    before this loss was heard of. Return whether it did."""
    following = after_losses(losses, award.pool.slot_at(at))
    cause = Cause(ENGINE_ERROR, {"detail": detail[:LONGEST_DETAIL]} | _tries(losses, following))
    event = job_waits_after_its_end(award, slot, cause, following, at)
    events_append([event] if event else [])
    return event is not None


def after_losses(losses: int, slot: int) -> Next:
    """Return how a job continues after `losses` in a row, the last one in this slot: it waits for 0, 2, 4, then 8
    slots, and is given up after the fifth loss."""
    if losses >= MOST_LOSSES:
        return Next(given_up=True)
    return AT_ONCE if losses < 2 else Next(not_before=slot + 2 ** (losses - 1))


def _tries(losses: int, following: Next) -> dict[str, int]:
    """Return the numbers of the reason beside its detail: how often the job was lost, if more than once, and until
    which slot it waits."""
    often = {"losses": losses} if losses > 1 else {}
    return often | ({"next_slot": following.not_before} if following.not_before else {})


def _lanes_locked(pool_id: int) -> tuple[int, int]:
    """Lock both lanes, so that neither moves an award. Return the last slots that are settled and decided."""
    batch = lane_lock(pool_id=pool_id, lane=Lane.BATCH)
    lane_lock(pool_id=pool_id, lane=Lane.INSTANT)
    return (batch.settled_slot, batch.decided_slot) if batch else (-1, -1)


def _lose(server: Server, slot: int, at: datetime) -> ServerLost:
    """Void the awards and floors of a lost server. `slot` is the first one that is not delivered."""
    cause = Cause("server_lost", {"server": server.name})
    awards = awards_on(server, slot)
    over = [award for award in awards if award.is_given_up]
    back = slots_pay_back(server.pool, over, slot, cause, at)
    voided = awards_void(server.pool, [award for award in awards if not award.is_given_up], slot, cause, at)
    floors = _floors_void(server, slot, at)
    refunded = back.refunded + voided.refunded
    lost = ServerLost(len(over) + len(voided.awards), refunded, len(voided.again), floors)
    events_append([_public(server, lost, at), *back.events, *voided.events])
    refunds_post([*back.postings, *voided.postings])
    return lost


def awards_on(server: Server, slot: int) -> list[Award]:
    """Return the living awards with units on the server in this slot or later. An award that its tenant gave up before
    that slot is on no server any more."""
    # The database finds rows with the server's id at any place in the allocation; here only its own column counts.
    near = Award.objects.filter(
        pool=server.pool, state__in=ALIVE, end__gt=slot, allocation__contains=[[server.pk]]
    ).order_by("pk")
    return [award for award in near if award.used_until > slot and _touches(award.allocation, server.pk, slot)]


def _touches(allocation: Sequence[Sequence[int]], server_id: int, slot: int) -> bool:
    return any(row[0] == server_id and row[2] > slot for row in allocation)


def _floors_void(server: Server, slot: int, at: datetime) -> int:
    """Start a new attempt of each waiting job that was promised cells on the server, so that the next interval promises
    it others. A promise there to a job that was served otherwise is void because the server is lost
    (`scheduling.market.view.floors`)."""
    void = floors_on(server, slot)
    waiting = jobs_locked(void)
    for job in waiting:
        job.attempt += 1
    TrainingJob.objects.bulk_update(waiting, ["attempt"], batch_size=1_000)
    events_append(_replanned(job, server, at) for job in waiting)
    return len(waiting)


def _replanned(job: TrainingJob, server: Server, at: datetime) -> Event:
    data = {"job": job.pk, "reason": "floor_lost", "server": server.name}
    return job_event(EventKind.JOB_REQUEUED, job, at=at, data=data)


def floors_on(server: Server, slot: int) -> list[int]:
    """Return the ids of the waiting jobs whose floor has units on the server in this slot or later."""
    promised = JobFloor.objects.filter(
        job__pool=server.pool, job__state=JobState.QUEUED, end__gt=slot, allocation__contains=[[server.pk]], draft=False
    ).select_related("job")
    return [
        floor.job_id
        for floor in promised
        if floor.attempt == floor.job.attempt and _touches(floor.allocation, server.pk, slot)
    ]


def _public(server: Server, lost: ServerLost, at: datetime) -> Event:
    data = {"server": server.name, "awards": lost.awards, "refunded": lost.refunded}
    return event(EventKind.SERVER_LOST, pool_id=server.pool_id, subject=f"server:{server.name}", at=at, data=data)
