"""The pages of the history: who changed what, when and why, in one tenant or everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from tenants import selectors
from tenants.access import AccessRequest
from tenants.forms import HistoryForm
from tenants.models import AuditEntry
from tenants.roles import Permission
from tenants.views.gate import requires
from tenants.views.tables import Column, Table, asks_csv, csv_response, table_of

ENTRIES = 32  # on one page


def _moment(entry: AuditEntry) -> str:
    return entry.at.astimezone(UTC).isoformat(timespec="microseconds")


def _json(values: Mapping[str, Any] | None) -> str:
    return "" if values is None else json.dumps(values, sort_keys=True, ensure_ascii=False)


# The fields of an entry's fingerprint except two ids, so that the export shows what the chain holds.
_COLUMNS = (
    Column("sequence", "number"),
    Column("at", "at", value=_moment),
    Column("action", "action"),
    Column("subject", "subject"),
    Column("actor_name", "by"),
    Column("reason", "reason"),
    Column("before", "before", value=lambda entry: _json(entry.before)),
    Column("after", "after", value=lambda entry: _json(entry.after)),
    Column("previous_hash", "previous_fingerprint"),
    Column("hash", "fingerprint"),
)
_WHOSE = Column("tenant", "tenant", value=lambda entry: entry.tenant.slug if entry.tenant else "")

_PAGE_COLUMNS = (
    Column("sequence", "No.", order="sequence"),
    Column("at", "Time"),
    Column("action", "What", order="action"),
    Column("tenant", "Tenant", order="tenant__name"),
    Column("actor_name", "By", order="actor_name"),
    Column("reason", "Why"),
    Column("hash", "Fingerprint"),
)
_ALL = Table(_PAGE_COLUMNS, sort="-sequence", rows=ENTRIES)
_OWN = Table(tuple(column for column in _PAGE_COLUMNS if column.name != "tenant"), sort="-sequence", rows=ENTRIES)


@require_safe
@requires(Permission.HISTORY_VIEW)
def history(request: AccessRequest) -> HttpResponseBase:
    return _history_page(request)


@require_safe
@requires(Permission.TENANT_HISTORY_VIEW)
def tenant_history(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    return _history_page(request)


def _history_page(request: AccessRequest) -> HttpResponseBase:
    form = HistoryForm(request.GET)
    entries = form.filtered(selectors.audit_entries(request.access))
    tenant = request.access.tenant
    if asks_csv(request):
        columns, file = (_COLUMNS, f"history-{tenant.slug}") if tenant else ((*_COLUMNS, _WHOSE), "history")
        return csv_response(request, entries, Table(columns, sort="-sequence", file=file))
    table = table_of(request, entries, _OWN if tenant else _ALL)
    return render(request, "tenants/history.html", {"table": table, "form": form, "rows": table.rows})
