"""Changes that a benchmark makes to its database, and that the product may not make."""

from __future__ import annotations

from django.db import connection
from django.db.models import Model

from tenants.common.ownership import as_owner


def analyze() -> None:
    """Analyze the database, as autovacuum would have done by then."""
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def overwrite(row: Model) -> None:
    """Save a row with a change that the product itself never makes."""
    with as_owner():
        row.save()
