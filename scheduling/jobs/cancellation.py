"""Cancel jobs and arrays of jobs for their tenant.

Before a job's start most of its money is returned; once it runs, its reservation stays paid. Units that it gives up
early go back on sale in the instant lane, and the tenant gets what they bring (`FreedUnits`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.core.types import OWN
from scheduling.feed import EventKind, events_append, job_event, job_subject
from scheduling.jobs.cancel_preview import costs_more, has_begun, kept_parts, slot_running
from scheduling.jobs.read_rows import UNKNOWN_JOB
from scheduling.market.calendar import CalendarUnit, UnitReader, lane_lock, units_release
from scheduling.market.settle import HoldMissing, cut_told, parts_by_account, sales_return
from scheduling.models import (
    ALIVE,
    Award,
    AwardState,
    Event,
    FreedUnits,
    JobArray,
    JobState,
    Lane,
    LaneClock,
    Lend,
    RentState,
    TenantPolicy,
    TrainingJob,
)
from scheduling.models.jobs import LIVE_STATES
from tenants.access import Access, Refused
from tenants.ledger.postings import InsufficientFunds, Posting, available, held
from tenants.ledger.services import post_many
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED

UNKNOWN_ARRAY = Refused("unknown_job", "There is no such array of jobs.")


@transaction.atomic
def job_cancel(*, job_id: int, by: Access, at: datetime, most: int | None = None) -> TrainingJob | Refused:
    """Cancel the job, and return it as it is afterwards. A job that is cancelled already stays as it is. `most` are
    the micro-credits that somebody was shown as what it costs: it is not cancelled if it costs more by now."""
    if by.tenant is None or not by.allows(Permission.JOBS_CANCEL):
        return NOT_ALLOWED
    with scope(by.tenant):
        job = TrainingJob.objects.select_related("pool").filter(pk=job_id).first()
        if job is None:
            return UNKNOWN_JOB
        # Code that decides about the job, starts it or pays for it holds the lock of one lane; we wait for both.
        batch = lane_lock(pool_id=job.pool_id, lane=Lane.BATCH)
        lane_lock(pool_id=job.pool_id, lane=Lane.INSTANT)
        job.refresh_from_db(from_queryset=TrainingJob.objects.select_for_update(of=("self",)))
        if job.state == JobState.CANCELLED:
            return job
        if job.state not in LIVE_STATES:
            return Refused("already_over", f"The job is {job.get_state_display().lower()}.")
        if refusal := costs_more([job], most, at):
            return refusal
        awards = list(Award.objects.filter(job=job, attempt=job.attempt, state__in=ALIVE).order_by("start"))
        events, postings = _cancel(job, awards, batch, by, at)
        _tell_and_pay(events, postings)
        return job


@transaction.atomic
def array_cancel(*, array_id: int, by: Access, at: datetime, most: int | None = None) -> int | Refused:
    """Cancel all members that are not over, in one act, and return how many these were. `most` is as for one job, and
    of all of them."""
    if by.tenant is None or not by.allows(Permission.JOBS_CANCEL):
        return NOT_ALLOWED
    with scope(by.tenant):
        array = JobArray.objects.filter(pk=array_id).first()
        if array is None:
            return UNKNOWN_ARRAY
        batch = lane_lock(pool_id=array.pool_id, lane=Lane.BATCH)
        lane_lock(pool_id=array.pool_id, lane=Lane.INSTANT)
        rows = TrainingJob.objects.filter(array=array, state__in=LIVE_STATES).select_related("pool").order_by("pk")
        jobs = list(rows.select_for_update(of=("self",)))
        if refusal := costs_more(jobs, most, at):
            return refusal
        awards: defaultdict[tuple[int, int], list[Award]] = defaultdict(list)
        for award in Award.objects.filter(job__in=jobs, state__in=ALIVE).order_by("start"):
            awards[award.job_id, award.attempt].append(award)
        outcomes = [_cancel(job, awards[job.pk, job.attempt], batch, by, at) for job in jobs]
        _tell_and_pay(
            [event for events, _ in outcomes for event in events],
            [posting for _, postings in outcomes for posting in postings],
        )
        return len(jobs)


def _cancel(
    job: TrainingJob, awards: Sequence[Award], batch: LaneClock | None, by: Access, at: datetime
) -> tuple[list[Event], list[Posting]]:
    """Cancel one job, and return the events and postings, which the caller writes last. `awards` are those that are
    alive, in their order; there is more than one where the job goes on in pieces."""
    job.state, job.ended_at = JobState.CANCELLED, at
    job.reason_code, job.reason_numbers = "cancelled_by", {"user": by.actor_name}
    job.save(update_fields=["state", "ended_at", "reason_code", "reason_numbers"])
    postings, cuts = list[Posting](), list[dict[str, Any]]()
    for award in awards:
        some, cut = award_give_up(award, job, batch, at)
        postings += some
        cuts.append(cut)
    data = {"job": job.pk, "by": by.actor_name, **(cuts[0] if cuts else {"award": None, "returned": 0})}
    events = [job_event(EventKind.JOB_CANCELLED, job, at=at, data=data)]
    return [*events, *(given_up_event(job, cut, at) for cut in cuts[1:])], postings


def award_give_up(
    award: Award, job: TrainingJob, batch: LaneClock | None, at: datetime
) -> tuple[list[Posting], dict[str, Any]]:
    """Give an award up, and return what is paid back and what an event reports of the cut. Before its start most of the
    money is returned."""
    if not has_begun(award, slot_running(job.pool, batch, at)):
        postings, cut = _before_start(award, job, batch, at)
        return postings, {**cut, "returned": award.returned}
    return [], {**while_running(award, job, batch, at), "returned": 0}


def given_up_event(job: TrainingJob, cut: dict[str, Any], at: datetime) -> Event:
    """Return the event for a further award of a job that its tenant cancelled, or whose program has ended."""
    return job_event(EventKind.AWARD_GIVEN_UP, job, at=at, data={"job": job.pk, **cut})


def _tell_and_pay(events: Sequence[Event], postings: Sequence[Posting]) -> None:
    events_append(events)
    if isinstance(answer := post_many(postings=postings), InsufficientFunds):
        raise HoldMissing(str(answer))


def _before_start(
    award: Award, job: TrainingJob, batch: LaneClock | None, at: datetime
) -> tuple[list[Posting], dict[str, Any]]:
    """Give up an award of which nothing is settled: free all its units, and return all its money but what the rule
    keeps. Nothing is held for it then, so its rent is closed. Return the postings, and what an event reports of the
    cut."""
    parts = kept_parts(award.charges, job.pool.cancellation_keep_percent)
    freed = _free(award, job, batch, award.start, paid_for=award.phase == OWN)
    if award.phase != OWN:  # own units are the same tenant's, and given up anew
        sales_return({award.pk: range(award.start, award.end)})
    award.state, award.cut_at = AwardState.ENDED, award.start
    award.returned = award.paid - sum(amount for _, amount in parts)
    award.rent = RentState.CLOSED if award.rent == RentState.OPEN else award.rent
    award.save(update_fields=["state", "cut_at", "returned", "rent"])
    return [cancellation(award, parts, at)] if award.paid else [], cut_told(award, freed)


def while_running(award: Award, job: TrainingJob, batch: LaneClock | None, at: datetime) -> dict[str, Any]:
    """Give up a running award after the slot that runs, and return what an event reports of the cut. The award goes on
    being settled to its end. An engine opens a gang a moment before its first slot: an award whose program ends in that
    moment is given up after the first slot, so that nobody takes it for one that was given up before it began."""
    cut, freed = max(slot_running(job.pool, batch, at), award.start) + 1, None
    if cut < award.end:
        freed = _free(award, job, batch, cut, paid_for=True)
        award.cut_at = cut
        award.save(update_fields=["cut_at"])
    return cut_told(award, freed)


def cancellation(award: Award, parts: Sequence[tuple[int, int]], at: datetime) -> Posting:
    """Return the posting by which all that is held for the award goes back to its tenant, or to the owners."""
    entries = [(held(award.tenant_id), -award.paid), *parts_by_account(parts).items()]
    if award.returned:
        entries.append((available(award.tenant_id), award.returned))
    return Posting(
        key=f"cancel:{award.pk}",
        kind="cancel",
        entries=tuple(entries),
        at=at,
        subject=job_subject(award.job_id),
        facts={"award": award.pk, "kept": award.paid - award.returned},
    )


def _free(
    award: Award, job: TrainingJob, batch: LaneClock | None, since: int, *, paid_for: bool
) -> tuple[int, int] | None:
    """Put the award's units back on sale from slot `since` on. Those that the tenant owns or has paid for are sold for
    its account, in the slots [begin, end) that are returned."""
    units = UnitReader(job.pool).units_of(award, job, since=since)
    units_release(Lane(award.lane), units)
    if not paid_for:
        return None
    until = award.end
    if award.phase == OWN:
        # From the frontier on, the next batch plan finds them among its owner's idle cells anyway.
        until = min(until, batch.frontier if batch else 0)
        if TenantPolicy.objects.filter(pool=job.pool, tenant=award.tenant_id, lend=Lend.KEEP).exists():
            return None
    if until <= since:
        return None
    given_up = {unit: amount for unit, amount in units.items() if unit.slot < until}
    FreedUnits.objects.bulk_create(freed_of(award, unit, amount) for unit, amount in given_up.items())
    return since, until


def freed_of(award: Award, unit: CalendarUnit, amount: float) -> FreedUnits:
    """Return a row, not saved, for what an award gave up at one position of the calendar."""
    return FreedUnits(
        tenant_id=award.tenant_id,
        award=award,
        pool_id=award.pool_id,
        server_id=unit.server_id,
        resource_id=unit.resource_id,
        part=unit.part,
        slot=unit.slot,
        amount=amount,
    )
