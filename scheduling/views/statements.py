"""Statements: a month or any days as a page, for the printer, and as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.selectors.statement_rows import statement_rows
from scheduling.selectors.statements import months_with_entries, statement_view
from scheduling.views.csv_rows import credits_text, csv_stream
from scheduling.views.money_gate import money_reader
from scheduling.views.periods import Days, days_asked, month_after, month_before
from tenants.access import AccessRequest
from tenants.models import Tenant
from tenants.views.gate import open_tenant

HEADINGS = ("part", "time", "what", "job", "lane", "interval", "quantity", "unit_price", "amount", "reason")
MOST_PRINTED = 2_000  # rows of each list on the printed page
Cells = tuple[object, ...]


@require_safe
@money_reader
def tenant_statements(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Every month in which money moved, with its opening and closing."""
    tenant = open_tenant(request)
    today = datetime.now(UTC).date()
    months = [
        (Days(first, month_before(month_after(first).first).last), head)
        for first, head in months_with_entries(tenant=tenant)
    ]
    default = Days(today.replace(day=1), today)
    return render(request, "scheduling/statements.html", {"tenant": tenant, "months": months, "default": default})


@require_safe
@money_reader
def tenant_statement(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    """One of them. `?print`: for the printer, with many more rows."""
    tenant = open_tenant(request)
    days = days_asked(request.GET, today=datetime.now(UTC).date(), default="month")
    if request.GET.get("format") == "csv":
        return csv_stream(request, f"statement-{tenant.slug}-{days.first}-{days.last}", HEADINGS, _rows(tenant, days))
    printed = "print" in request.GET
    most = {"most": MOST_PRINTED} if printed else {}
    context = {
        "tenant": tenant,
        "days": days,
        "statement": statement_view(tenant=tenant, start=days.start, end=days.end, **most),
        "before": month_before(days.first),
        "after": month_after(days.first),
        "made_at": timezone.now(),
        "print": printed,
    }
    return render(request, "scheduling/statement_print.html" if printed else "scheduling/statement.html", context)


def _rows(tenant: Tenant, days: Days) -> Iterator[Cells]:
    for row in statement_rows(tenant=tenant, start=days.start, end=days.end):
        yield (
            row.part,
            row.at.isoformat() if row.at else "",
            row.what,
            row.job,
            row.lane,
            row.interval,
            f"{row.quantity:.6f}" if row.quantity else "",
            "" if row.unit_price is None else credits_text(row.unit_price),
            credits_text(row.amount),
            row.reason,
        )
