"""Awards that were rented for jobs whose plan at home is still a draft (K4)."""

from __future__ import annotations

from django.db.models import Q

from scheduling.models import Award, AwardState, JobState, RentState

# Of an award that was cut short, or whose job ended before its time: so it does in its owner's world.
CUT_SHORT = Q(state=AwardState.VOID) | Q(job__state__in=(JobState.CANCELLED, JobState.FAILED))


def rents_open(pool_id: int, most: int | None = None) -> dict[int, Award]:
    """By job, in order: awards whose jobs have not started in their owner's world alone, nor been dropped there (K4).
    A run that was cut short is cut in both worlds."""
    rows = Award.objects.filter(~CUT_SHORT, pool=pool_id, rent=RentState.OPEN)
    found = rows.select_related("job").order_by("job_id")
    return {award.job_id: award for award in (found if most is None else found[:most])}
