"""Who changed what, when and why: of one tenant, or of everything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from tenants import selectors
from tenants.access import AccessRequest
from tenants.models import AuditEntry
from tenants.roles import Permission
from tenants.views.gate import requires
from tenants.views.tables import Column, Table, asks_csv, csv_response

HISTORY_PAGE = 50


def _moment(entry: AuditEntry) -> str:
    return entry.at.astimezone(UTC).isoformat(timespec="microseconds")


def _json(values: Mapping[str, Any] | None) -> str:
    return "" if values is None else json.dumps(values, sort_keys=True, ensure_ascii=False)


# All that an entry's fingerprint is made of but two ids, so that the export shows what the chain holds.
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


@require_safe
@requires(Permission.HISTORY_VIEW)
def history(request: AccessRequest) -> HttpResponseBase:
    return _history_page(request)


@require_safe
@requires(Permission.TENANT_HISTORY_VIEW)
def tenant_history(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    return _history_page(request)


def _history_page(request: AccessRequest) -> HttpResponseBase:
    entries = selectors.audit_entries(request.access)
    if asks_csv(request):
        tenant = request.access.tenant
        columns, file = (_COLUMNS, f"history-{tenant.slug}") if tenant else ((*_COLUMNS, _WHOSE), "history")
        return csv_response(request, entries, Table(columns, sort="-sequence", file=file))
    return _page(request, entries)


def _page(request: AccessRequest, entries: QuerySet[AuditEntry]) -> HttpResponse:
    before = request.GET.get("before", "")
    if before.isascii() and before.isdigit() and len(before) < 19:
        entries = entries.filter(sequence__lt=int(before))
    rows: list[AuditEntry] = list(entries[: HISTORY_PAGE + 1])
    shown = rows[:HISTORY_PAGE]
    older = shown[-1].sequence if len(rows) > HISTORY_PAGE else None
    return render(request, "tenants/history.html", {"entries": shown, "older": older, "paged": bool(before)})
