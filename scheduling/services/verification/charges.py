"""One job's charge, from the stored interval that decided it to the postings in the book."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.models import Award, Lane, LaneClock, TrainingJob
from scheduling.services.verification.awards import terms_verify
from scheduling.services.verification.findings import Finding, differences
from scheduling.services.verification.money import money_verify
from scheduling.services.verification.replay import replay
from tenants.access import Refused
from tenants.scoping import scope_disabled

MOST_AWARDS = 50  # in an elastic pool a job has one for each slot; all of them are verified with the pool's intervals
UNKNOWN_JOB = Refused("unknown_job", "There is no such job.")


@dataclass(frozen=True)
class ChargeVerified:
    """The awards that were looked at, oldest first, of many the newest; none is the charge of a job that was never
    served: nothing."""

    job: TrainingJob
    awards: tuple[Award, ...]
    findings: tuple[Finding, ...]


def charge_verify(*, job_id: int) -> ChargeVerified | Refused:
    """Decide the job's intervals again, split its payment again, and look for each part in the book."""
    with scope_disabled("a verification looks at everybody's awards and payments"):
        job = TrainingJob.objects.filter(pk=job_id).first()
        if job is None:
            return UNKNOWN_JOB
        awards = list(Award.objects.filter(job=job).select_related("interval").order_by("-pk")[:MOST_AWARDS])[::-1]
        clock = LaneClock.objects.filter(pool=job.pool_id, lane=Lane.BATCH).first() or LaneClock()
        found = [finding for award in awards for finding in _award(award)]
        found += money_verify(awards, clock.settled_slot)
    return ChargeVerified(job, tuple(awards), tuple(found))


def _award(award: Award) -> list[Finding]:
    where = f"award {award.pk} of job {award.job_id}"
    charged = sum(amount for slot in award.charges for _, amount in slot)
    found = differences(where, {"the sum of its charges": (charged, award.paid)})
    if award.interval is None:  # the instant lane answers at once, and keeps no interval
        return found
    replayed, flaws = replay(award.interval)
    found += flaws
    if replayed is None:
        return found
    booking = next((booking for booking in replayed.plan.bookings if booking.job == award.job_id), None)
    if booking is None:
        return [*found, Finding(where, "decided again, its interval gives the job nothing")]
    return found + terms_verify(award, booking, replayed)
