"""Awards that were rented for jobs whose plan at home is still a draft (K4)."""

from __future__ import annotations

from django.db.models import F, Q

from scheduling.models import Award, AwardState, JobState, RentState

# Of an award that was cut short, or whose job ended before its time: so it does in its owner's world. Where a piece of
# a job was lost, all that it had before was of an earlier attempt.
CUT_SHORT = (
    Q(state=AwardState.VOID)
    | Q(job__state__in=(JobState.CANCELLED, JobState.FAILED))
    | Q(attempt__lt=F("job__attempt"))
)


def rents_open(pool_id: int, most: int | None = None) -> dict[int, list[Award]]:
    """By job, in order: awards whose jobs have not started in their owner's world alone, nor been dropped there (K4);
    several where a job rents in pieces. A run that was cut short is cut in both worlds. `most`: awards."""
    rows = Award.objects.filter(~CUT_SHORT, pool=pool_id, rent=RentState.OPEN)
    rents: dict[int, list[Award]] = {}
    open_rows = rows.select_related("job").order_by("job_id", "pk")
    for award in open_rows if most is None else open_rows[:most]:
        rents.setdefault(award.job_id, []).append(award)
    return rents
