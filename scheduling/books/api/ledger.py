"""The book of a tenant for programs: balances now, and every movement."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.books.read_ledger import ledger_rows, ledger_view
from scheduling.books.read_ledger_lines import LedgerRow
from scheduling.jobs import job_by_id
from scheduling.models import Pool
from tenants.api.answers import csv_response, json_response
from tenants.api.csv_text import ROWS_AT_ONCE, csv_of_chunks
from tenants.api.cursors import bad_cursor
from tenants.api.fields import Answer, Credits, Moment, moment_of, time_text
from tenants.api.listing import USUAL_LIMIT, Listing, choice, moment, page_address, whole
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.ledger.movements import MovementFilter, Position
from tenants.ledger.postings import TENANT_KINDS
from tenants.ledger.selectors import balances_of_tenant
from tenants.roles import Permission

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
KINDS = ("grant", "top_up", "withdraw", "hold", "settle", "cancel", "refund", "release", "collect", "reverse")


class BalancesShown(Answer):
    available = Credits(help_text="What can be spent.")
    held = Credits(help_text="Set aside for awards that are not settled.")
    earned = Credits(help_text="What the cells brought in; available at the next full hour.")
    total = Credits()


class MovementShown(Answer):
    transaction = serializers.IntegerField(source="transaction_id", help_text="Its number in the book.")
    at = Moment()
    kind = serializers.CharField()
    sentence = serializers.SerializerMethodField()
    job = serializers.IntegerField(source="job_id", allow_null=True, help_text="The tenant's own job it is about.")
    slot = serializers.IntegerField(allow_null=True)
    available = Credits(help_text="What it moved on the account.")
    held = Credits()
    earned = Credits()
    total = Credits()
    balance = Credits(allow_null=True, help_text="After it; null where the filters leave something out.")

    def get_sentence(self, row: LedgerRow) -> str:
        return row.text.replace("{job}", row.job_name)


BALANCES_EXAMPLE = {"available": "880.000000", "held": "12.500000", "earned": "1.250000", "total": "893.750000"}
MOVEMENT_EXAMPLE: dict[str, Any] = {
    "transaction": 90210,
    "at": "2026-03-02T12:20:10Z",
    "kind": "settle",
    "sentence": "Paid for nightly.",
    "job": 4711,
    "slot": 120,
    "available": "0.000000",
    "held": "-0.500000",
    "earned": "0.000000",
    "total": "-0.500000",
    "balance": "893.750000",
}
MOVEMENTS = Listing(
    MovementShown,
    filters=(
        choice("account", TENANT_KINDS, "Only what moved one of these accounts.", ""),
        choice("kind", KINDS, "Only movements of these kinds.", ""),
        whole("job", "Only what is about this job of the tenant.", "", least=1),
        moment("from", "At this time or later.", ""),
        moment("before", "Before this time.", ""),
    ),
)


class LedgerBalances(TenantView):
    @operation(
        "ledger_balances",
        summary="Balances now",
        description="What is available, held and earned at this moment.",
        permission=Permission.LEDGER_VIEW,
        answer=BalancesShown,
        answer_example=BALANCES_EXAMPLE,
        tag="ledger",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        now = balances_of_tenant(tenant_id=self.tenant.pk)
        values = {"available": now.available, "held": now.held, "earned": now.earned}
        return self.shown(BalancesShown, values | {"total": sum(values.values())})


class LedgerEntries(TenantView):
    @operation(
        "ledger_entries",
        summary="Movements of the tenant's money",
        description="Every transaction with what it moved on each account, the newest first. The list is read "
        "downwards: `previous` is always null.",
        permission=Permission.LEDGER_VIEW,
        listing=MOVEMENTS,
        answer_example=MOVEMENT_EXAMPLE,
        tag="ledger",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        choice = self._choice()
        if self.form == "csv":
            lines = csv_of_chunks(self._chunks(choice), MOVEMENTS)
            return csv_response(request, lines, name="ledger_entries", tenant=self.tenant)
        return json_response(self._page(request, choice))

    def _choice(self) -> MovementFilter:
        query = self.parameters
        accounts = query.get("account", [])
        job = query.get("job")
        # A job of another tenant is not shown as a job, though this tenant may have earned from it.
        subject = "" if job is None else f"job:{job}" if job_by_id(job) else "job:0"
        end = query.get("before", timezone.now() + timedelta(days=2))
        account = accounts[0] if len(set(accounts)) == 1 else None
        return MovementFilter(query.get("from", BEGINNING), end, account, tuple(query.get("kind", ())), subject)

    def _page(self, request: Request, choice: MovementFilter) -> dict[str, Any]:
        below = _position(self.parameters["cursor"]) if "cursor" in self.parameters else None
        limit = self.parameters.get("limit", USUAL_LIMIT)
        view = ledger_view(
            tenant=self.tenant,
            pools=list(Pool.objects.all()),
            choice=choice,
            at=timezone.now(),
            below=below,
            each=True,
            limit=limit,
        )
        rows = [row for group in view.groups for row in group.rows]
        return {
            "next": page_address(request, _text(view.next)) if view.next else None,
            "previous": None,
            "results": MovementShown(rows, many=True).data,
        }

    def _chunks(self, choice: MovementFilter) -> Iterator[Sequence[LedgerRow]]:
        rows = ledger_rows(tenant=self.tenant, choice=choice)
        return iter(lambda: list(islice(rows, ROWS_AT_ONCE)), [])


def _text(place: Position) -> str:
    parts = json.dumps([time_text(place.at), place.transaction_id])
    return base64.urlsafe_b64encode(parts.encode()).decode().rstrip("=")


def _position(text: str) -> Position:
    try:
        at, number = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        moment = moment_of(at) if isinstance(at, str) else None
        if moment is None or type(number) is not int or not 0 <= number < 2**63:
            raise ValueError
        return Position(moment, number)
    except (ValueError, TypeError, RecursionError):
        raise bad_cursor() from None
