"""The pages of statements: a month or any days on screen, for the printer, and as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.books.pages.money_gate import money_reader
from scheduling.books.pages.periods import Days, days_asked, month_after, month_before
from scheduling.books.read_statement_rows import statement_rows
from scheduling.books.read_statements import months_with_entries, statement_view
from scheduling.cluster import pool_list
from tenants.access import AccessRequest
from tenants.common.csv_files import csv_pieces
from tenants.common.downloads import csv_download
from tenants.common.zones import day_of
from tenants.ledger.amounts import exported
from tenants.models import Tenant
from tenants.views.gate import open_tenant
from tenants.views.lists import list_page
from tenants.views.tables import Column, Table

HEADINGS = ("part", "time", "what", "job", "lane", "interval", "quantity", "unit_price", "amount", "reason")
MOST_SORTED = 2_000  # rows of each list that are sorted; a longer list is cut before it is sorted
MOST_PRINTED = 2_000  # rows of each list on the printed page
MOST_ON_SCREEN = 18  # rows of each list on the screen, in the requested order; the CSV and the printed page have more
Cells = tuple[object, ...]


@dataclass(frozen=True)
class Month:
    """A month in the list of statements. Amounts are micro-credits; for the running month `closed` is the balance
    now."""

    days: Days
    is_over: bool
    first: date
    opened: int
    closed: int


def _table(part: str, *columns: tuple[str, str, bool], rows: int = MOST_ON_SCREEN) -> Table:
    """Return a table of columns, each given as (field to sort by, heading, numeric). A page has several tables, so the
    name of a column includes its table."""
    headings = [
        Column(f"{part}.{order or label}", label, order=order, numeric=numeric) for order, label, numeric in columns
    ]
    return Table(headings, sort="", rows=rows)


MONTHS = _table(
    "months",
    ("first", "Month", False),
    ("opened", "Opened", True),
    ("closed", "Closed", True),
    ("", "As a file", True),
    rows=MOST_SORTED,
)
TABLES = {
    "earned": _table(
        "earned",
        ("interval", "Interval", False),
        ("", "Borrower", False),
        ("workers", "Size", False),
        ("slots", "Slots", True),
        ("quantity", "My worker-slots", True),
        ("unit_price", "Unit price", True),
        ("amount", "Amount", True),
    ),
    "spent": _table(
        "spent",
        ("name", "Job", False),
        ("last_at", "Last payment", False),
        ("payments", "Payments", True),
        ("amount", "Amount", True),
    ),
    "back": _table(
        "back",
        ("name", "Job", False),
        ("cause", "Cause", False),
        ("at", "Time", False),
        ("kept", "Kept by owners", True),
        ("returned", "Came back", True),
    ),
    "jobs": _table(
        "jobs",
        ("name", "Job", False),
        ("lane", "Lane", False),
        ("submitted_at", "Submitted", False),
        ("reason", "Why nothing", False),
        ("charge", "Charge", True),
    ),
}


@require_safe
@money_reader
def tenant_statements(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """List every month in which money moved, with its opening and closing balance."""
    tenant = open_tenant(request)
    now = timezone.now()
    today = day_of(now, UTC)
    months = list[Month]()
    for first, head in months_with_entries(tenant=tenant):
        days = Days(first, month_before(month_after(first).first).last)
        months.append(Month(days, days.is_over(now), first, *head))
    default = Days(today.replace(day=1), today)
    context = {"tenant": tenant, "table": list_page(request.GET, months, MONTHS), "default": default}
    return render(request, "books/statements.html", context)


@require_safe
@money_reader
def tenant_statement(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    """Show one statement. `?print` is for the printer, with many more rows; `?format=csv` returns a file."""
    tenant = open_tenant(request)
    now = timezone.now()
    days = days_asked(request.GET, at=now, default="month", zone=UTC)
    if request.GET.get("format") == "csv":
        name = f"statement-{tenant.slug}-{days.first}-{days.last}"
        return csv_download(request, name, csv_pieces(HEADINGS, _rows(tenant, days, now)))
    printed = "print" in request.GET
    most = {"most": MOST_PRINTED} if printed else {"most": MOST_SORTED} if "sort" in request.GET else {}
    statement = statement_view(tenant=tenant, start=days.start, end=days.end, at=now, **most)
    pools, after = pool_list(), month_after(days.first)
    lists = {part: replace(table, rows=MOST_PRINTED) if printed else table for part, table in TABLES.items()}
    context = {
        "tenant": tenant,
        "days": days,
        "has_begun": days.has_begun(now),
        "is_over": days.is_over(now),
        "pools": {pool.pk: pool.name for pool in pools} if len(pools) > 1 else {},
        "statement": statement,
        "tables": {part: list_page(request.GET, getattr(statement, part), table) for part, table in lists.items()},
        "before": month_before(days.first),
        "after": after if after.start <= now else None,
        "made_at": now,
        "print": printed,
    }
    return render(request, "books/statement_print.html" if printed else "books/statement.html", context)


def _rows(tenant: Tenant, days: Days, at: datetime) -> Iterator[Cells]:
    for row in statement_rows(tenant=tenant, start=days.start, end=days.end, at=at):
        yield (
            row.part,
            row.at.isoformat() if row.at else "",
            row.what,
            row.job,
            row.lane,
            row.interval,
            f"{row.quantity:.6f}" if row.quantity else "",
            "" if row.unit_price is None else exported(row.unit_price),
            exported(row.amount),
            row.reason,
        )
