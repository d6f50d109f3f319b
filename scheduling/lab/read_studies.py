"""Studies as they stand, for whoever may see them."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from scheduling.models import LabStudy, StudyState
from tenants.models import Tenant


def studies_of_staff() -> QuerySet[LabStudy]:
    """All of them, the newest first, without what only their own pages show."""
    return LabStudy.objects.select_related("pool", "asked_by").defer("document")


def studies_of_owner(tenant: Tenant) -> QuerySet[LabStudy]:
    """Those that are shown to their owners, and are about this one."""
    return LabStudy.objects.filter(is_shown=True, state=StudyState.DONE, owners__contains=[tenant.slug])


def studies_ahead(study: LabStudy) -> int:
    """How many have their turn before it."""
    at_work = (StudyState.READING, StudyState.WAITING, StudyState.RUNNING)
    return LabStudy.objects.filter(state__in=at_work, pk__lt=study.pk).count()


def percent_done(study: LabStudy) -> int:
    """Of the replays, the one under way with its part."""
    return int(100 * (study.done + study.part) / study.total) if study.total else 0


def rules_of(study: LabStudy) -> list[str]:
    """The names of its rules, as its document has them."""
    rules: list[Any] = study.document.get("rules", [])
    return [rule if isinstance(rule, str) else str(rule.get("name", rule.get("rule"))) for rule in rules]
