"""Writing a hundred rows of figures in one statement, sent as one document: to write each figure into SQL takes longer
than to work it out. JSON has floats as Python writes them, which read back exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from functools import cache

from django.db import connection

from tenants.scoping import TenantOwned, tenant_require


def rows_insert(rows: Sequence[TenantOwned], *, once: tuple[str, ...] = ()) -> None:
    """Insert rows of one model, with every column but the key. The columns `once` identify a row: one that is there
    already is written over. Needs the scope of their tenants."""
    if not rows:
        return
    names = _names(type(rows[0]))
    for tenant_id in {row.tenant_id for row in rows}:
        tenant_require(tenant_id)
    documents = [{name: getattr(row, name) for name in names} for row in rows]
    text = json.dumps(documents, default=_moment_text, allow_nan=False)
    with connection.cursor() as cursor:
        cursor.execute(_statement(type(rows[0]), once), [text])


@cache
def _names(model: type[TenantOwned]) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields if not field.primary_key)


@cache
def _statement(model: type[TenantOwned], once: tuple[str, ...]) -> str:
    table, names = model._meta.db_table, ", ".join(_names(model))
    assignments = ", ".join(f"{name} = EXCLUDED.{name}" for name in _names(model) if name not in once)
    over = f" ON CONFLICT ({', '.join(once)}) DO UPDATE SET {assignments}" if once else ""
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM json_populate_recordset(NULL::{table}, %s::json){over}"  # noqa: S608  of our own models


def _moment_text(moment: object) -> str:
    """Return a day, or a moment with all of its microseconds, as text."""
    if not isinstance(moment, date):
        raise TypeError(f"{type(moment).__name__} is no column that can be sent as JSON")
    return moment.isoformat()
