"""A tenant takes a job back. Before its start most of the money returns; once it runs, its reservation is paid.

What it gives up early goes back on sale in the instant lane, and what that brings is the tenant's (`FreedUnits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from scheduling.core.types import OWN
from scheduling.models import (
    Award,
    AwardState,
    FreedUnits,
    JobState,
    Lane,
    LaneClock,
    Lend,
    TenantPolicy,
    TrainingJob,
)
from scheduling.models.jobs import LIVE_STATES
from scheduling.services.feed import event, events_append, job_subject
from scheduling.services.lanes import lane_lock
from scheduling.services.settlement import ALIVE, parts_by_account
from scheduling.services.units import Unit, UnitReader, units_release
from tenants.access import Access, Refused
from tenants.ledger.postings import InsufficientFunds, Posting, available, held
from tenants.ledger.services import post_many
from tenants.ledger.split import split
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED

UNKNOWN_JOB = Refused("unknown_job", "There is no such job.")


class HoldMissing(RuntimeError):
    """A booked award's payment is not held. The book allows no such thing, so something is broken."""


@transaction.atomic
def job_cancel(*, job_id: int, by: Access, at: datetime) -> TrainingJob | Refused:
    """The job as it is afterwards. A job that is cancelled already stays as it is."""
    if by.tenant is None or not by.allows(Permission.JOBS_CANCEL):
        return NOT_ALLOWED
    with scope(by.tenant):
        job = TrainingJob.objects.select_related("pool").filter(pk=job_id).first()
        if job is None:
            return UNKNOWN_JOB
        # Whoever decides about the job, starts it or pays for it holds one of the lanes; we wait for both.
        batch = lane_lock(pool_id=job.pool_id, lane=Lane.BATCH)
        lane_lock(pool_id=job.pool_id, lane=Lane.INSTANT)
        job.refresh_from_db(from_queryset=TrainingJob.objects.select_for_update(of=("self",)))
        if job.state == JobState.CANCELLED:
            return job
        if job.state not in LIVE_STATES:
            return Refused("already_over", f"The job is {job.get_state_display().lower()}.")
        award = Award.objects.filter(job=job, attempt=job.attempt, state__in=ALIVE).first()
        return _cancel(job, award, batch, by, at)


def _cancel(job: TrainingJob, award: Award | None, batch: LaneClock | None, by: Access, at: datetime) -> TrainingJob:
    job.state, job.ended_at = JobState.CANCELLED, at
    job.reason_code, job.reason_numbers = "cancelled_by", {"user": by.actor_name}
    job.save(update_fields=["state", "ended_at", "reason_code", "reason_numbers"])
    postings: list[Posting] = []
    if award is not None and award.state == AwardState.BOOKED:
        postings = _before_start(award, job, batch, at)
    elif award is not None:
        while_running(award, job, batch, at)
    data = {"job": job.pk, "by": by.actor_name, "returned": award.returned if award else 0}
    subject = job_subject(job.pk)
    events_append(
        [event("job_cancelled", pool_id=job.pool_id, tenant_id=job.tenant_id, subject=subject, at=at, data=data)]
    )
    if isinstance(answer := post_many(postings=postings), InsufficientFunds):
        raise HoldMissing(f"job {job.pk}: {answer}")
    return job


def _before_start(award: Award, job: TrainingJob, batch: LaneClock | None, at: datetime) -> list[Posting]:
    """Nothing of it is settled. All its units are free again, and all the money but what the rule keeps."""
    kept = kept_parts(award.charges, job.pool.cancellation_keep_percent)
    _free(award, job, batch, award.start, paid_for=award.phase == OWN)
    award.state, award.cut_at = AwardState.ENDED, award.start
    award.returned = award.paid - sum(amount for _, amount in kept)
    award.save(update_fields=["state", "cut_at", "returned"])
    return [cancellation(award, kept, at)] if award.paid else []


def while_running(award: Award, job: TrainingJob, batch: LaneClock | None, at: datetime) -> None:
    """The slot that is running is the last it uses. The award goes on being settled to its end."""
    settled = batch.settled_slot if batch else -1
    cut = max(job.pool.slot_at(at), settled + 1) + 1
    if cut < award.end:
        _free(award, job, batch, cut, paid_for=True)
        award.cut_at = cut
        award.save(update_fields=["cut_at"])


def kept_parts(charges: Sequence[Sequence[Sequence[int]]], keep_percent: int) -> list[tuple[int, int]]:
    """(owner, micro-credits) that stay with the owners of a cancelled award, each in proportion to its earnings.

    The whole is rounded once, down, in favour of who cancels; then it is split exactly.
    """
    earned: dict[int, int] = {}
    for slot in charges:
        for owner, amount in slot:
            earned[owner] = earned.get(owner, 0) + amount
    # In the order of every owners axis, the operator (0) last: what is left over goes to the first of equals.
    owners = sorted((owner for owner in earned if earned[owner]), key=lambda owner: (owner == 0, owner))
    keep = sum(earned.values()) * keep_percent // 100
    if not keep:
        return []
    return [(o, part) for o, part in zip(owners, split(keep, [earned[o] for o in owners]), strict=True) if part]


def cancellation(award: Award, kept: Sequence[tuple[int, int]], at: datetime) -> Posting:
    """All that is held for the award goes back to its tenant, or to the owners."""
    entries = [(held(award.tenant_id), -award.paid), *parts_by_account(kept).items()]
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


def _free(award: Award, job: TrainingJob, batch: LaneClock | None, since: int, *, paid_for: bool) -> None:
    """Units back on sale; those that the tenant owns or has paid for are sold for its account."""
    units = UnitReader(job.pool).units_of(award, job, since=since)
    units_release(Lane(award.lane), units)
    if not paid_for:
        return
    if award.phase == OWN:
        # Behind the frontier the next batch plan finds them among its owner's idle cells anyway.
        frontier = batch.frontier if batch else 0
        kept = TenantPolicy.objects.filter(pool=job.pool, tenant=award.tenant_id, lend=Lend.KEEP).exists()
        units = {} if kept else {unit: amount for unit, amount in units.items() if unit.slot < frontier}
    FreedUnits.objects.bulk_create(_freed(award, unit, amount) for unit, amount in units.items())


def _freed(award: Award, unit: Unit, amount: float) -> FreedUnits:
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
