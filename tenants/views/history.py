"""Who changed what, when and why: of one tenant, or of everything."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from tenants import selectors
from tenants.access import AccessRequest
from tenants.models import AuditEntry
from tenants.roles import Permission
from tenants.views.gate import requires

HISTORY_PAGE = 50


@require_safe
@requires(Permission.HISTORY_VIEW)
def history(request: AccessRequest) -> HttpResponse:
    return _history_page(request)


@require_safe
@requires(Permission.TENANT_HISTORY_VIEW)
def tenant_history(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    return _history_page(request)


def _history_page(request: AccessRequest) -> HttpResponse:
    before = request.GET.get("before", "")
    entries = selectors.audit_entries(request.access)
    if before.isascii() and before.isdigit() and len(before) < 19:
        entries = entries.filter(sequence__lt=int(before))
    rows: list[AuditEntry] = list(entries[: HISTORY_PAGE + 1])
    shown = rows[:HISTORY_PAGE]
    older = shown[-1].sequence if len(rows) > HISTORY_PAGE else None
    return render(request, "tenants/history.html", {"entries": shown, "older": older, "paged": bool(before)})
