"""Read the budgets of the open tenant."""

from __future__ import annotations

from django.db.models import QuerySet

from scheduling.models import Budget


def budget_list() -> QuerySet[Budget]:
    return Budget.objects.select_related("member")
