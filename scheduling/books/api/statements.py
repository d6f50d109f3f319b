"""Statements for programs: which months there are, the sums of a period, and every line of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, timedelta
from itertools import islice
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.books.api.periods import PERIOD, period_asked, period_parameters
from scheduling.books.read_statement_rows import PARTS, StatementRow, statement_rows
from scheduling.books.read_statements import months_with_entries, statement_view
from tenants.api.answers import csv_response, json_response
from tenants.api.csv_text import ROWS_AT_ONCE, csv_of_chunks
from tenants.api.cursors import place_read
from tenants.api.fields import Answer, Credits, Moment
from tenants.api.listing import USUAL_LIMIT, Listing, choice, page_address
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.common.zones import day_of, midnight
from tenants.roles import Permission


class MonthShown(Answer):
    month = serializers.CharField(help_text="As 2026-03.")
    start = Moment()
    end = Moment(help_text="The first moment after it.")
    opening = Credits()
    closing = Credits()


class TotalShown(Answer):
    title = serializers.CharField()
    available = Credits()
    held = Credits()
    earned = Credits()
    total = Credits()


class StatementShown(Answer):
    start = Moment()
    end = Moment(help_text="The first moment after it.")
    opening = TotalShown()
    movements = TotalShown(many=True, help_text="By what they are; with the opening they add up to the closing.")
    closing = TotalShown()
    earned = Credits(help_text="Sum of what renters paid.")
    earned_lines = serializers.IntegerField()
    spent = Credits(help_text="Sum of what was paid for jobs.")
    spent_price = Credits(help_text="Of it, the price of units.")
    spent_share_of_gain = Credits(
        help_text="Of it, a share of what renting gained, where a pool pays owners a dividend."
    )
    spent_lines = serializers.IntegerField()
    given_back = Credits(help_text="Sum of what came back from cancelled and undelivered rents.")
    adjusted = Credits(help_text="Of it, what came back because jobs would have been worth more alone.")
    given_back_lines = serializers.IntegerField()
    jobs = serializers.IntegerField(help_text="Jobs of the period, with a charge or without.")
    difference = Credits(help_text="What opening and movements miss of the closing. Always 0.")


class LineShown(Answer):
    part = serializers.ChoiceField(PARTS)
    at = Moment(allow_null=True)
    what = serializers.CharField(help_text="A title, a job's name, or an anonymous renter.")
    job = serializers.IntegerField(allow_null=True)
    lane = serializers.CharField()
    interval = serializers.IntegerField(allow_null=True)
    quantity = serializers.FloatField(allow_null=True, help_text="Worker-slots.")
    unit_price = Credits(allow_null=True, help_text="Of a worker-slot.")
    amount = Credits()
    reason = serializers.CharField()


MONTH_EXAMPLE: dict[str, Any] = {
    "month": "2026-03",
    "start": "2026-03-01T00:00:00Z",
    "end": "2026-04-01T00:00:00Z",
    "opening": "1000.000000",
    "closing": "893.750000",
}
TOTAL_EXAMPLE = {
    "title": "Opened",
    "available": "1000.000000",
    "held": "0.000000",
    "earned": "0.000000",
    "total": "1000.000000",
}
SPENT_EXAMPLE = {
    "title": "Settled: rent paid, and earned from renters",
    "available": "0.000000",
    "held": "-106.250000",
    "earned": "0.000000",
    "total": "-106.250000",
}
CLOSED_EXAMPLE = {
    "title": "Closed",
    "available": "881.250000",
    "held": "12.500000",
    "earned": "0.000000",
    "total": "893.750000",
}
STATEMENT_EXAMPLE: dict[str, Any] = {
    "start": "2026-03-01T00:00:00Z",
    "end": "2026-04-01T00:00:00Z",
    "opening": TOTAL_EXAMPLE,
    "movements": [SPENT_EXAMPLE],
    "closing": CLOSED_EXAMPLE,
    "earned": "0.000000",
    "earned_lines": 0,
    "spent": "106.250000",
    "spent_price": "106.250000",
    "spent_share_of_gain": "0.000000",
    "spent_lines": 9,
    "given_back": "0.000000",
    "adjusted": "0.000000",
    "given_back_lines": 0,
    "jobs": 11,
    "difference": "0.000000",
}
LINE_EXAMPLE: dict[str, Any] = {
    "part": "spent",
    "at": "2026-03-02T12:24:10Z",
    "what": "nightly",
    "job": 4711,
    "lane": "",
    "interval": None,
    "quantity": None,
    "unit_price": None,
    "amount": "12.500000",
    "reason": "",
}
LINES = Listing(LineShown, filters=(*PERIOD, choice("part", PARTS, "Only lines of these parts.", "")))


class Statements(TenantView):
    @operation(
        "statements_list",
        summary="Months that have a statement",
        description="Every month of UTC in which money moved, the newest first, with its opening and closing.",
        permission=Permission.LEDGER_VIEW,
        listing=Listing(MonthShown),
        answer_example=MONTH_EXAMPLE,
        tag="ledger",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed_values([_month(*month) for month in months_with_entries(tenant=self.tenant)])


class StatementOf(TenantView):
    @operation(
        "statements_read",
        summary="The statement of a period",
        description="Opening, movements by what they are, closing, and the sums of its parts. The closing's title is "
        "`So far` until the period is over, and the opening's `Not begun yet` until it begins. The lines, also as CSV, "
        "are those of `statement_lines`.",
        permission=Permission.LEDGER_VIEW,
        answer=StatementShown,
        filters=PERIOD,
        answer_example=STATEMENT_EXAMPLE,
        tag="ledger",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        now = timezone.now()
        start, end = period_asked(self.parameters, today=day_of(now, UTC))
        view = statement_view(tenant=self.tenant, start=start, end=end, at=now, most=0)
        values = {
            "start": start,
            "end": end,
            "opening": view.head.opening,
            "movements": view.head.lines,
            "closing": view.head.closing,
            "earned": view.earned_sum,
            "earned_lines": view.earned_rows,
            "spent": view.spent_sum,
            "spent_price": view.spent_price,
            "spent_share_of_gain": view.spent_gain,
            "spent_lines": view.spent_rows,
            "given_back": view.back_sum,
            "adjusted": view.adjusted,
            "given_back_lines": view.back_rows,
            "jobs": view.jobs_rows,
            "difference": view.difference,
        }
        return self.shown(StatementShown, values)


class StatementLines(TenantView):
    @operation(
        "statement_lines",
        summary="The lines of a statement",
        description="Balances and movements, what renters paid, what was paid for jobs, what came back, and every job "
        "with its charge or why it has none. As CSV: the whole statement.",
        permission=Permission.LEDGER_VIEW,
        listing=LINES,
        answer_example=LINE_EXAMPLE,
        tag="ledger",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        now = timezone.now()
        start, end = period_asked(self.parameters, today=day_of(now, UTC))
        place = min(place_read(self.parameters["cursor"]) if "cursor" in self.parameters else 0, 10**9)
        limit = self.parameters.get("limit", USUAL_LIMIT)
        most = None if self.form == "csv" else place + limit + 1
        rows = statement_rows(tenant=self.tenant, start=start, end=end, at=now, most=most)
        if parts := self.parameters.get("part"):
            rows = (row for row in rows if row.part in parts)
        if self.form == "csv":
            chunks = iter(lambda: list(islice(rows, ROWS_AT_ONCE)), [])
            return csv_response(request, csv_of_chunks(chunks, LINES), name="statement_lines", tenant=self.tenant)
        period = period_parameters(self.parameters, start.date(), (end - timedelta(days=1)).date())
        return json_response(_page(request, rows, place, limit, period))


def _page(
    request: Request, rows: Iterator[StatementRow], place: int, limit: int, period: Mapping[str, str]
) -> dict[str, Any]:
    """Return the page that begins at index `place`. Lines are made in order, and no more of them than it needs."""
    rows_listed: Sequence[StatementRow] = list(islice(rows, place, place + limit + 1))
    return {
        "next": page_address(request, str(place + limit), period) if len(rows_listed) > limit else None,
        "previous": page_address(request, str(max(place - limit, 0)), period) if place > 0 else None,
        "results": LineShown(rows_listed[:limit], many=True).data,
    }


def _month(first: date, balances: tuple[int, int]) -> dict[str, Any]:
    start = midnight(first, UTC)
    opening, closing = balances
    end = (start + timedelta(days=31)).replace(day=1)
    return {"month": f"{first:%Y-%m}", "start": start, "end": end, "opening": opening, "closing": closing}
