"""What of a period's payments is a price, what a share of what renting gained, and what came back because a job would
have been worth more alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from scheduling.models import BETTER_ALONE, Award
from tenants.ledger.sums import paid_by_award
from tenants.models import Tenant


@dataclass(frozen=True)
class GainShares:
    """Micro-credits of a period: `gain` of what was paid is a share of the gain, `adjusted` came back."""

    gain: int = 0
    adjusted: int = 0


def gain_shares(*, tenant: Tenant, start: datetime, end: datetime, jobs: Collection[int]) -> GainShares:
    """Of awards of these jobs, those that money moved for. Needs the tenant's scope.

    Of a payment p that holds a dividend d, whoever has paid q of it has paid d * q // p of the dividend: so the parts
    of periods that follow each other add up to the whole.
    """
    rows = Award.objects.filter(Q(dividend__gt=0) | Q(adjusted__gt=0), tenant=tenant, job__in=jobs)
    awards = {award.pk: award for award in rows.only("dividend", "paid", "job")}
    if not awards:
        return GainShares()
    subjects = sorted({f"job:{award.job_id}" for award in awards.values()})
    gain = adjusted = 0
    for paid in paid_by_award(tenant_id=tenant.pk, subjects=subjects, start=start, end=end, cause=BETTER_ALONE):
        if award := awards.get(paid.award_id):
            gain += award.dividend * (paid.before + paid.within) // award.paid
            gain -= award.dividend * paid.before // award.paid
            adjusted += paid.returned
    return GainShares(gain, adjusted)
