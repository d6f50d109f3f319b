"""Forget what programs reported of jobs that ended long ago. What followed from the reports stays in the intervals'
stored views and in events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import QuerySet

from scheduling.models import JobReport
from tenants.scoping import scope_disabled

PIECE = 5_000  # reports that are read in one transaction


@dataclass(frozen=True)
class Forgotten:
    """How many reports were forgotten. `last` is the job up to which they were read, or None if that was the last."""

    reports: int
    last: int | None


def reports_over(before: datetime) -> QuerySet[JobReport]:
    """Return the reports of jobs that ended before that moment. Needs a scope."""
    return JobReport.objects.filter(job__ended_at__lt=before)


@transaction.atomic
def reports_forget(*, before: datetime, after: int = 0, most: int = PIECE) -> Forgotten:
    """Forget the reports of one piece of at most `most` jobs after the job `after`, the oldest jobs first."""
    with scope_disabled("what every tenant's programs reported is as old"):
        page = list(JobReport.objects.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:most])
        if not page:
            return Forgotten(0, None)
        numbers = list(reports_over(before).filter(pk__gt=after, pk__lte=page[-1]).values_list("pk", flat=True))
        if numbers:
            JobReport.objects.filter(pk__in=numbers)._raw_delete(using=connection.alias)
    return Forgotten(len(numbers), None if len(page) < most else page[-1])
