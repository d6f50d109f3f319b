"""Reading the limits of a pool's figures of fairness, and which of them are passed."""

from __future__ import annotations

from scheduling.models import FairnessAlert, Pool


def alerts_of(pool: Pool) -> list[FairnessAlert]:
    return list(FairnessAlert.objects.filter(pool=pool).order_by("measure"))


def alerts_passed(pool: Pool) -> list[FairnessAlert]:
    """Return the limits that are passed now."""
    return [row for row in alerts_of(pool) if row.passed_at is not None]
