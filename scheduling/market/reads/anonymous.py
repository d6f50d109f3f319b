"""Read the awards behind a tenant's money: its own with their names, those of other tenants without names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F

from scheduling.models import CHARGES, Award
from tenants.scoping import scope_disabled


@dataclass(frozen=True)
class AwardSeen:
    """An award as a tenant may see it. For an award of another tenant `job_id` is None and `job_name` empty. `part` is
    the reader's part of its whole price."""

    award_id: int
    pool_id: int
    lane: str
    state: str
    interval: int | None  # number; None in the instant lane
    start: int
    end: int
    workers: int
    ps: int
    worker_slots: int  # over its whole life
    paid: int  # by its terms, less the refund when its rent was closed
    mine: int  # the part of `paid` that the reader's cells earn by its terms
    job_id: int | None
    job_name: str
    by: str  # the person who submitted the job; empty for jobs of other tenants

    @property
    def part(self) -> float:
        return self.mine / self.paid if self.paid else 0.0

    @property
    def is_own(self) -> bool:
        return self.job_id is not None


def awards_seen(*, tenant_id: int, award_ids: Iterable[int]) -> dict[int, AwardSeen]:
    """Read these awards by id, no matter whose they are. Takes one query."""
    with scope_disabled("who earns from an award may know its size, lane and times, and never whose it is"):
        rows = Award.objects.filter(pk__in=set(award_ids)).only(*_READ, *_JOB).order_by("pk")
        awards = list(rows.select_related("job__submitted_by").annotate(interval_number=F("interval__number")))
    return {award.pk: _row(award, tenant_id) for award in awards}


_READ: tuple[str, ...] = (
    "pool",
    "tenant",
    "lane",
    "state",
    "start",
    "end",
    "workers",
    "ps",
    "allocation",
    "paid",
    *CHARGES,
)
_READ += ("rent", "adjusted")
_JOB = ("job__name", "job__submitted_by__name", "job__submitted_by__email")


def _row(award: Award, tenant_id: int) -> AwardSeen:
    own = award.tenant_id == tenant_id
    return AwardSeen(
        award_id=award.pk,
        pool_id=award.pool_id,
        lane=award.lane,
        state=award.state,
        interval=award.interval_number,  # type: ignore[attr-defined]  # of the query above
        start=award.start,
        end=award.end,
        workers=award.workers,
        ps=award.ps,
        worker_slots=sum(row[3] * (row[2] - row[1]) for row in award.allocation),
        paid=award.paid - award.adjusted,
        mine=earned_from(award, tenant_id),
        job_id=award.job_id if own else None,
        job_name=award.job.name if own else "",
        by=str(award.job.submitted_by or "") if own else "",
    )


def earned_from(award: Award, owner_id: int, *, since: int = 0) -> int:
    """Return what one owner earns by the terms of an award from slot `since` on."""
    return sum(award.parts_of(owner_id)[max(since - award.start, 0) :])
