"""The ledger page: balances, movements by interval, whether it adds up, and jobs without a charge."""

from __future__ import annotations

from datetime import datetime

from django.core import signing
from django.http import Http404, QueryDict
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.books.pages.money_gate import money_reader
from scheduling.books.pages.periods import WORDS, Days, days_asked
from scheduling.books.read_ledger import ledger_rows, ledger_view
from scheduling.books.read_ledger_lines import LedgerRow
from scheduling.books.read_uncharged import Uncharged, uncharged
from scheduling.cluster import pool_list
from scheduling.market.reads import payments_of_latest
from tenants.access import AccessRequest
from tenants.common.csv_files import csv_pieces
from tenants.common.downloads import csv_download
from tenants.ledger.amounts import exported
from tenants.ledger.movements import MovementFilter, Position
from tenants.ledger.postings import TENANT_KINDS
from tenants.ledger.sums import moved_by_subject
from tenants.models import Tenant
from tenants.views.gate import open_tenant
from tenants.views.parts import part_or_page
from tenants.views.tables import Column, Header, Sorting, Table, header_of, kept_of, sort_asked, sorting_of

KINDS = {
    "earned": ("Earned", ("settle",), "earned"),
    "spent": ("Spent", ("settle",), "held"),
    "held": ("Set aside", ("hold",), None),
    "back": ("Given back", ("cancel", "refund", "release"), None),
    "outside": ("Paid in or out", ("grant", "top_up", "withdraw"), None),
    "collected": ("Made available", ("collect",), None),
    "corrections": ("Corrections", ("reverse",), None),
}
PAGE_ROWS = 50  # payments of one page; those of one job in an interval share a line
SHOWN_JOBS = 8
LONGEST_SUMMARY = 32  # days, beyond which jobs without a charge are left to the statement
COLUMNS = (
    Column("time", "Time", order="at"),
    Column("what", "What"),
    *(Column(kind, kind.capitalize(), order=kind, numeric=True) for kind in TENANT_KINDS),
)
STANDS = Table(COLUMNS, sort="-time")  # newest first, by interval
HEADINGS = ("time", "transaction", "kind", "what", "job", "interval_slot", "available", "held", "earned", "total")


@require_safe
@money_reader
def tenant_ledger(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    tenant = open_tenant(request)
    now = timezone.now()
    days = days_asked(request.GET, at=now, default="today", zone=None)
    choice = _choice(request.GET, days)
    if request.GET.get("format") == "csv":
        rows = (_cells(row) for row in ledger_rows(tenant=tenant, choice=choice))
        return csv_download(request, f"ledger-{tenant.slug}-{days.first}-{days.last}", csv_pieces(HEADINGS, rows))
    pools = pool_list()
    place, each = _position(request.GET), "each" in request.GET
    headers, order = _sorting(request.GET, days, choice)
    view = ledger_view(
        tenant=tenant, pools=pools, choice=choice, at=now, below=place, each=each, limit=PAGE_ROWS, order=order
    )
    part = request.GET.get("part")
    context = {
        "tenant": tenant,
        "pools": pools,
        "ledger": view,
        "table": {"headers": headers, "sorting": _sort_form(request.GET, days)},
        "days": days,
        "choice": choice,
        "filters": _filters(request.GET, days),
        "query": _query(request.GET),
        "next": _signed(view.next),
        "sums": [(pool, payments_of_latest(pool=pool, tenant_id=tenant.pk)) for pool in pools] if not part else [],
        "uncharged": None if part or _is_long(days) else _uncharged(tenant, days),
        "as_of": now,
    }
    parts = {"head": "books/ledger_head.html", "entries": "books/ledger_entries.html"}
    return part_or_page(request, "books/ledger.html", parts, context)


def _sorting(query: QueryDict, days: Days, choice: MovementFilter) -> tuple[list[Header], tuple[str, bool] | None]:
    """Return the heads of the columns, and the order if it is not the usual one. Sorting reads the whole period, so a
    long period cannot be sorted."""
    label = f"Balance, {choice.account}" if choice.account else "Balance"
    balance = Header(Column("balance", label, numeric=True), "", "")
    if _is_long(days):
        return [*(Header(column, "", "") for column in COLUMNS), balance], None
    sort, keep = sort_asked(query, STANDS), kept_of(query)
    keep.pop("below", None)
    column = next(column for column in COLUMNS if column.name == sort.removeprefix("-"))
    order = None if sort == STANDS.sort else (column.order, sort.startswith("-"))
    return [*(header_of(each, sort, keep) for each in COLUMNS), balance], order


def _sort_form(query: QueryDict, days: Days) -> Sorting | None:
    keep = kept_of(query)
    keep.pop("below", None)
    return None if _is_long(days) else sorting_of(STANDS, sort_asked(query, STANDS), keep)


def _choice(query: QueryDict, days: Days) -> MovementFilter:
    account = query.get("account")
    account = account if account in TENANT_KINDS else None
    _, kinds, of_kind = KINDS.get(query.get("kind", ""), ("", (), None))
    job = query.get("job", "").upper().removeprefix("J-").strip()
    subject = f"job:{int(job)}" if job.isdecimal() and len(job) < 19 else ""
    return MovementFilter(days.start, days.end, account or of_kind, kinds, subject)


def _filters(query: QueryDict, days: Days) -> dict[str, object]:
    return {
        "account": query.get("account", ""),
        "kind": query.get("kind", ""),
        "job": query.get("job", ""),
        "each": "each" in query,
        "kinds": [(code, title) for code, (title, _, _) in KINDS.items()],
        "accounts": TENANT_KINDS,
        "words": WORDS.items(),
        "by_dates": not days.word,
    }


def _query(query: QueryDict) -> str:
    """Return the query without the position in the list, for the links to other pages and to the CSV."""
    parameters = query.copy()
    for name in ("below", "part", "format"):
        parameters.pop(name, None)
    return parameters.urlencode()


def _signed(position: Position | None) -> str:
    """Return the position of a page's end for an address. It is signed only so that a mistyped one gives a 404 and not
    another page."""
    return signing.dumps([position.at.isoformat(), position.transaction_id], salt="ledger") if position else ""


def _position(query: QueryDict) -> Position | None:
    if not (text := query.get("below")):
        return None
    try:
        at, number = signing.loads(text, salt="ledger")
        return Position(datetime.fromisoformat(at), int(number))
    except (signing.BadSignature, ValueError, TypeError) as error:
        raise Http404("this is no place in a ledger") from error


def _is_long(days: Days) -> bool:
    return (days.last - days.first).days > LONGEST_SUMMARY


def _uncharged(tenant: Tenant, days: Days) -> Uncharged:
    moved = moved_by_subject(tenant_id=tenant.pk, start=days.start, end=days.end)
    return uncharged(tenant=tenant, start=days.start, end=days.end, moved=moved, most=SHOWN_JOBS)


def _cells(row: LedgerRow) -> tuple[object, ...]:
    before, after = row.words
    amounts = (exported(amount) for amount in (row.available, row.held, row.earned, row.total))
    text = f"{before}{row.job_name}{after}"
    return (row.at.isoformat(), row.transaction_id, row.kind, text, row.job_id or "", row.slot, *amounts)
