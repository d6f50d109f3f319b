"""Reading studies, for the staff and for owners."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from scheduling.models import LabStudy, StudyState
from tenants.models import Tenant


def studies_of_staff() -> QuerySet[LabStudy]:
    """Return all studies, newest first, without the columns that only their own pages show."""
    return LabStudy.objects.select_related("pool", "asked_by").defer("document")


def studies_of_owner(tenant: Tenant) -> QuerySet[LabStudy]:
    """Return the studies that are shown to their owners, and are about this one."""
    return LabStudy.objects.filter(is_shown=True, state=StudyState.DONE, owners__contains=[tenant.slug])


def studies_ahead(study: LabStudy) -> int:
    """Return how many studies have their turn before this one."""
    at_work = (StudyState.READING, StudyState.WAITING, StudyState.RUNNING)
    return LabStudy.objects.filter(state__in=at_work, pk__lt=study.pk).count()


def percent_done(study: LabStudy) -> int:
    """Return the part of the replays that is done; the one under way counts with its part."""
    return int(100 * (study.done + study.part) / study.total) if study.total else 0


def rules_of(study: LabStudy) -> list[str]:
    """Return the names of a study's rules, as its document has them."""
    rules: list[Any] = study.document.get("rules", [])
    return [rule if isinstance(rule, str) else str(rule.get("name", rule.get("rule"))) for rule in rules]
