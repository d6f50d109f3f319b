"""One job's charge, from the stored interval or answer that decided it to the postings in the book."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.audit.verification.answers import answer_rows, answer_verify, without_answer
from scheduling.audit.verification.archived import ARCHIVED, Archives
from scheduling.audit.verification.awards import award_place, terms_verify
from scheduling.audit.verification.course import sums_differ
from scheduling.audit.verification.findings import Finding
from scheduling.audit.verification.money import money_verify
from scheduling.audit.verification.replay import replay
from scheduling.jobs import UNKNOWN_JOB
from scheduling.models import Award, InstantAnswer, Lane, LaneClock, TrainingJob
from tenants.access import Refused
from tenants.scoping import scope_disabled

MOST_AWARDS = 50  # a job of an elastic pool has one for each slot; the verification of its intervals covers all


@dataclass(frozen=True)
class ChargeVerified:
    """The awards that were verified, oldest first; of very many only the newest. A job that was never served has none,
    and pays nothing."""

    job: TrainingJob
    awards: tuple[Award, ...]
    answers: int  # answers of the instant lane that were decided again
    findings: tuple[Finding, ...]


def charge_verify(*, job_id: int) -> ChargeVerified | Refused:
    """Decide the job's intervals, or its answer, again, split its payment again, and look for each part in the book."""
    with scope_disabled("a verification looks at everybody's awards and payments"):
        job = TrainingJob.objects.filter(pk=job_id).first()
        if job is None:
            return UNKNOWN_JOB
        awards = list(Award.objects.filter(job=job).select_related("interval").order_by("-pk")[:MOST_AWARDS])[::-1]
        if any(award.interval and award.interval.is_archived and Archives().row_of(award.interval) for award in awards):
            return ARCHIVED
        clock = LaneClock.objects.filter(pool=job.pool_id, lane=Lane.BATCH).first() or LaneClock()
        findings = [finding for award in awards for finding in _award(award)]
        findings += money_verify(awards, clock.settled_slot)
        answers = InstantAnswer.objects.filter(award__in=awards).count()
    return ChargeVerified(job, tuple(awards), answers, tuple(findings))


def _award(award: Award) -> list[Finding]:
    where, findings = f"award {award.pk} of job {award.job_id}", sums_differ(award)
    if award.interval is None:
        answers = list(InstantAnswer.objects.filter(award=award))
        rows = answer_rows(answers)
        findings += [finding for answer in answers for finding in answer_verify(answer, rows)]
        return findings + (without_answer([award]) if award.lane == Lane.INSTANT else [])
    replayed, flaws = replay(award.interval)
    findings += flaws
    if replayed is None:
        return findings
    place = award_place(replayed, award.job_id, award.start)
    bookings = {award_place(replayed, each.job, each.start): each for each in replayed.plan.bookings}
    booking = bookings.get(place)
    if booking is None:
        return [*findings, Finding(where, "decided again, its interval gives the job nothing")]
    return findings + terms_verify(award, booking, replayed)
