"""Split a period's payments: how much is a share of what renting gained, beside the price, and how much was returned
because a job would have been worth more alone."""

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
    """Micro-credits of a period. `gain` is the part of what was paid that is a share of the gain; `adjusted` was
    returned.
    """

    gain: int = 0
    adjusted: int = 0


def gain_shares(*, tenant: Tenant, start: datetime, end: datetime, jobs: Collection[int]) -> GainShares:
    """Sum up the gain shares of awards of these jobs, the jobs for which money moved. Needs the tenant's scope.

    If a payment p contains a dividend d, then after q of p is paid, d * q // p of the dividend is paid. So the parts of
    successive periods add up to the whole.
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
