"""Statements: a month or any days as a page, for the printer, and as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.selectors.statements import (
    NOT_DELIVERED,
    back_rows,
    charges_by_job,
    earned_rows,
    months_with_entries,
    named,
    reconciled_all,
    spent_rows_of,
    statement_head,
    statement_view,
)
from scheduling.selectors.uncharged import CHUNK, jobs_of_period
from scheduling.views.csv_rows import credits_text, csv_stream
from scheduling.views.money_gate import money_reader
from scheduling.views.periods import Days, days_asked, month_after, month_before
from tenants.access import AccessRequest
from tenants.ledger.sums import earned_by_award, moved_by_subject
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
    """The whole statement, part by part. The amounts of a part add up to the line that closes it."""
    head = statement_head(tenant=tenant, start=days.start, end=days.end)
    yield _cells("balance", days.start.isoformat(), "Opened", amount=head.opening.total)
    for line in head.lines:
        yield _cells("movement", "", line.title, amount=line.total)
    yield _cells("balance", days.end.isoformat(), "Closed", amount=head.closing.total)
    yield from _earned(tenant, days)
    moved = moved_by_subject(tenant_id=tenant.pk, start=days.start, end=days.end)
    for spent in named(spent_rows_of(moved)):
        yield _cells("spent", spent.last_at.isoformat(), spent.name, spent.job_id, amount=spent.amount)
    count = sum(row.payments for row in moved if row.kind in NOT_DELIVERED)
    for back in back_rows(tenant, days.start, days.end, limit=count + 1):
        cells = (back.at.isoformat(), back.name, back.job_id)
        yield _cells("given back", *cells, amount=back.returned, reason=back.cause)
    ids = jobs_of_period(tenant=tenant, start=days.start, end=days.end, moved=moved)
    for job in reconciled_all(job_ids=ids, charges=charges_by_job(moved)):
        submitted = job.submitted_at.isoformat()
        yield _cells("job", submitted, job.name, job.job_id, job.lane, amount=job.charge, reason=job.reason)


def _earned(tenant: Tenant, days: Days) -> Iterator[Cells]:
    found = earned_by_award(tenant_id=tenant.pk, start=days.start, end=days.end)
    for begin in range(0, len(found), CHUNK):
        for row in earned_rows(tenant, found[begin : begin + CHUNK], begin + 1):
            price = "" if row.unit_price is None else credits_text(row.unit_price)
            yield _cells(
                "earned",
                row.first_at.isoformat(),
                row.borrower,
                lane=row.lane,
                interval=row.interval,
                quantity=f"{row.quantity:.6f}" if row.quantity else "",
                unit_price=price,
                amount=row.amount,
            )


def _cells(
    part: str,
    time: str,
    what: str,
    job: int | None = None,
    lane: str = "",
    *,
    amount: int,
    interval: int | None = None,
    quantity: str = "",
    unit_price: str = "",
    reason: str = "",
) -> Cells:
    return (part, time, what, job, lane, interval, quantity, unit_price, credits_text(amount), reason)
