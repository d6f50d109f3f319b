"""Forecast how large the installation will be in a year, if it grows as in the last days."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.models import DateField, Model

from marketplace.upkeep.rights import TABLES
from scheduling.engines.launcher.strangers import MOST_HELD, looked_through

LOOKED_AT = timedelta(days=7)
DAY, YEAR = timedelta(days=1), 365
FILES = "files of programs"
INTERVALS = "scheduling_interval"


@dataclass(frozen=True)
class Growth:
    """The growth of one table, or of the files. `fresh` counts rows (or files) of the last `days`. `bytes` include
    indexes and what is stored beside the rows."""

    name: str
    rows: int
    bytes: int
    fresh: int
    days: float
    emptied: int = 0  # rows whose bytes are in archives; new rows are as large as the others

    @property
    def rows_a_day(self) -> float:
        return self.fresh / self.days

    @property
    def bytes_a_day(self) -> float:
        full = self.rows - self.emptied
        return self.bytes / full * self.rows_a_day if full > 0 else 0.0

    @property
    def bytes_in_a_year(self) -> float:
        """Return the bytes that a year adds."""
        return self.bytes_a_day * YEAR


def forecast(at: datetime) -> list[Growth]:
    """Return each table and the files of programs, the fastest growing first."""
    since = max(at - LOOKED_AT, _began(at))
    days = max(at - since, DAY / 24) / DAY
    lines = [*_tables(at, since, days, (at - _began(at)) / DAY), _files(settings.RUNS_DIR, since, days)]
    return sorted(lines, key=lambda one: (-one.bytes_in_a_year, one.name))


def _began(at: datetime) -> datetime:
    """Return when the installation began: the first entry of the history is older than everything that grows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(at) FROM tenants_auditentry")
        (first,) = cursor.fetchone()
    return first or at - DAY


def _tables(at: datetime, since: datetime, days: float, age: float) -> Iterator[Growth]:
    """Count new rows by a time that the rows have; without one, spread all rows over the installation's age."""
    models = {model._meta.db_table: model for model in apps.get_models(include_auto_created=True)}
    with connection.cursor() as cursor:
        for table in sorted(set(TABLES) & set(models)):
            column = _time(models[table])
            fresh = f'count(*) FILTER (WHERE "{column}" > %(since)s AND "{column}" <= %(at)s)' if column else "count(*)"
            cursor.execute(
                f"SELECT count(*), pg_total_relation_size('{table}'), {fresh} FROM {table}",  # noqa: S608  our own names
                {"since": since, "at": at},
            )
            rows, size, recent = cursor.fetchone()
            emptied = _archived(cursor) if table == INTERVALS else 0
            yield Growth(table, rows, size, recent, days if column else max(age, 1 / 24), emptied)


def _archived(cursor: Any) -> int:
    """Return the number of intervals whose input and answer are in an archive."""
    cursor.execute("SELECT coalesce(sum(last - first + 1), 0) FROM scheduling_intervalarchive")
    (count,) = cursor.fetchone()
    return int(count)


def _time(model: type[Model]) -> str | None:
    """Return the first time column that is never null; later rows have later values in it."""
    fields = model._meta.concrete_fields
    return next((str(one.column) for one in fields if isinstance(one, DateField) and not one.null), None)


def _files(root: Path, since: datetime, days: float) -> Growth:
    files = size = fresh = 0
    with contextlib.suppress(FileNotFoundError):  # there is no folder yet
        for entry in looked_through(root, deepest=MOST_HELD):
            if not entry.is_folder:
                about = entry.about
                files, size, fresh = files + 1, size + about.st_size, fresh + (about.st_mtime > since.timestamp())
    return Growth(FILES, files, size, fresh, days)
