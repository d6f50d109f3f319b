"""Read the list of a tenant's jobs: the filter that an address asks for, and what each row says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject

from scheduling.market.reads import JobView, first_slot, job_view, paid_beside
from scheduling.models import Award, JobState, Lane, TrainingJob
from scheduling.models.jobs import LIVE_STATES, SavedView
from tenants.common.zones import midnight
from tenants.models import User

ALIVE, OVER = "alive", "over"  # filters beside the states themselves
GROUPS: Mapping[str, tuple[JobState, ...]] = {
    ALIVE: LIVE_STATES,
    OVER: tuple(state for state in JobState if state not in LIVE_STATES),
}
# Fields of an award that are enough to explain its job in a row; they are fetched with the row itself.
AWARD_FIELDS = ("phase", "start", "end", "workers", "ps", "paid", "returned", "attempt", "work_left", "work")


@dataclass(frozen=True)
class JobsQuestion:
    """The filter of the list. Days are whole days of the reader's zone, both included."""

    state: str = ""
    lane: str = ""
    pool: str = ""  # a slug
    name: str = ""  # how the name begins
    mine: bool = False
    since: date | None = None
    until: date | None = None
    array: int | None = None  # only its members

    @property
    def is_open(self) -> bool:
        """Return whether nothing is filtered."""
        return self == JobsQuestion()


def jobs_rows(question: JobsQuestion, person: User | None) -> QuerySet[TrainingJob]:
    """Return the jobs that the filter lets through. Needs the tenant's scope. Every filter but lane and pool is
    the beginning of an index, or cheap beside one."""
    rows = TrainingJob.objects.select_related("pool", "tenant")
    if question.state in GROUPS:
        rows = rows.filter(state__in=GROUPS[question.state])
    elif question.state in JobState.values:
        rows = rows.filter(state=question.state)
    if question.array is not None:
        rows = rows.filter(array=question.array)
    if question.lane in Lane.values:
        rows = rows.filter(lane=question.lane)
    if question.pool:
        rows = rows.filter(pool__slug=question.pool)
    if question.name:
        # This is written as a range, so that the index serves it; "\U0010ffff" comes after every letter.
        rows = rows.filter(name__gte=question.name, name__lt=question.name + "\U0010ffff")
    if question.mine and person is not None:
        rows = rows.filter(submitted_by=person)
    if question.since:
        rows = rows.filter(submitted_at__gte=midnight(question.since))
    if question.until:
        rows = rows.filter(submitted_at__lt=midnight(question.until + timedelta(days=1)))
    return rows


def jobs_folded(question: JobsQuestion, person: User | None) -> QuerySet[TrainingJob]:
    """Return the same with one row for each array: its first member of those that the filter lets through. Members
    differ in state and name alone."""
    rows = jobs_rows(question, person)
    if not question.state and not question.name:
        return rows.filter(array_place=0)
    others = jobs_rows(question, person).filter(array=OuterRef("array"), array_place__lt=OuterRef("array_place"))
    return rows.filter(~Exists(others))


def with_awards(rows: QuerySet[TrainingJob]) -> QuerySet[TrainingJob]:
    """Add to each row what its newest award says, as `given`; None where it has none. This may be an award from before
    a loss: what was paid for it counts."""
    award = Award.objects.filter(job=OuterRef("pk"))
    newest_award = award.order_by("-attempt", "-start").values(
        newest_award=JSONObject(
            **{name: F(name) for name in AWARD_FIELDS}, paid_before=paid_beside(), begun=first_slot()
        )
    )
    return rows.annotate(given=Subquery(newest_award[:1]))


def row_view(row: TrainingJob, at: datetime | None = None) -> JobView:
    """Return the view of a row of `with_awards`. It asks the database nothing, and is made once for each row. `at`: see
    `job_view`."""
    view: JobView | None = row.__dict__.get("view")
    if view is None:
        view = row.__dict__["view"] = job_view(row.pool, row, _award(getattr(row, "given", None)), at)
    return view


def _award(fields: Mapping[str, Any] | None) -> Award | None:
    """Return the award that `with_awards` read."""
    if fields is None:
        return None
    award = Award(**{name: value for name, value in fields.items() if name != "begun"})
    award.begun = fields["begun"]
    return award


@dataclass(frozen=True)
class JobsSummary:
    running: int
    awarded: int
    waiting: int


def jobs_summary() -> JobsSummary:
    """Count the tenant's jobs that are alive: they are few, whatever came before. Needs the tenant's scope."""
    states = list(TrainingJob.objects.filter(state__in=LIVE_STATES).values_list("state", flat=True))
    return JobsSummary(*(states.count(state) for state in (JobState.RUNNING, JobState.AWARDED, JobState.QUEUED)))


def views_of(person: User | None) -> list[SavedView]:
    return list(SavedView.objects.filter(person=person)) if person else []


def jobs_chosen(ids: Sequence[int]) -> list[TrainingJob]:
    """Return those of these jobs that are the open tenant's, oldest first."""
    return list(TrainingJob.objects.filter(pk__in=ids).select_related("pool").order_by("pk"))
