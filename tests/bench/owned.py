"""What a benchmark does to its database that the product may not."""

from __future__ import annotations

from django.db import connection
from django.db.models import Model

from tenants.ownership import as_owner


def analyze() -> None:
    """As autovacuum would have done by then."""
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def overwrite(row: Model) -> None:
    """Save a row of which the product never changes what the benchmark has changed."""
    with as_owner():
        row.save()
