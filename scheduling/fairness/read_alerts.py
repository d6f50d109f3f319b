"""Limits of fairness that were passed, and where every figure stands against its own."""

from __future__ import annotations

from scheduling.models import FairnessAlert, Pool


def alerts_of(pool: Pool) -> list[FairnessAlert]:
    return list(FairnessAlert.objects.filter(pool=pool).order_by("measure"))


def alerts_passed(pool: Pool) -> list[FairnessAlert]:
    """Those that are beyond their limit now."""
    return [row for row in alerts_of(pool) if row.passed_at is not None]
