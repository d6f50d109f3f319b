"""The pages that answer "is it fair?": the overview over all tenants of a pool, its intervals, and a tenant's own view
of the same."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.cluster import pool_list
from scheduling.cluster.pages.pools import pool_asked
from scheduling.fairness.alerts import MEASURES
from scheduling.fairness.pages import picture, tables
from scheduling.fairness.pages.spans import LENGTHS, DaySpan, span_asked
from scheduling.fairness.read_alerts import alerts_passed
from scheduling.fairness.read_days import fairness_overview
from scheduling.fairness.read_interval import PARTS, interval_account, interval_part
from scheduling.fairness.read_lists import (
    ALL,
    LOOKED_FOR,
    LOOKED_FOR_BY_USE,
    fairness_intervals,
    own_intervals,
)
from scheduling.fairness.read_values import units_by_resource
from scheduling.market.reads import reason_few
from scheduling.models import Pool
from tenants.access import AccessRequest
from tenants.common.zones import day_of
from tenants.ledger.amounts import micro
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires
from tenants.views.lists import list_csv, list_page
from tenants.views.tables import Table, asks_csv, csv_response, table_of

TABLES = {"ratios": tables.RATIOS, "rewards": tables.REWARDS}
TABLES_BY_USE = {"ratios": tables.RATIOS_BY_USE, "rewards": tables.REWARDS_BY_USE}
SUMS = {"paid": "paid", "saved": "rent_saved"}
MOST_REASONS = 6


@require_safe
@requires(Permission.FAIRNESS_VIEW)
def fairness(request: AccessRequest) -> HttpResponseBase:
    """Show a pool (`?pool=`) over some days (`?days=`). `?table=` says which of the two tables the rest of the address
    sorts or exports."""
    pools = pool_list()
    pool = pool_asked(request, pools)
    if pool is None:
        return render(request, "fairness/none.html")
    span = span_asked(request.GET, today=day_of(timezone.now(), UTC))
    overview = fairness_overview(pool, first=span.first, last=span.last)
    by_name = TABLES_BY_USE if pool.is_elastic else TABLES
    table_wanted = request.GET.get("table", "ratios")
    if asks_csv(request) and table_wanted in by_name:
        return list_csv(request, overview.tenants, by_name[table_wanted])
    context = _frame(pool, span, pools) | {
        "found": overview,
        "days": overview.days[::-1],
        **{name: overview.sum_of(column) for name, column in SUMS.items()},
        "gain": sum(one.gain_shown for one in overview.tenants),
        "alone": sum(micro(one.alone) for one in overview.tenants),
        "alerts": [(MEASURES[row.measure].title, row) for row in alerts_passed(pool) if row.measure in MEASURES],
        "dots": picture.dots_of(overview.tenants, worst=_lowest(overview)),
        "rewards": picture.rewards_of(overview.tenants, worst=overview.spread.worst_off),
        "idle": picture.idle_of(overview.tenants),
        "trend": picture.trend_of(overview.tenants, worst=None),
        "reasons": [
            (reason_few(code), jobs) for code, jobs in list(overview.health.waiting_for.items())[:MOST_REASONS]
        ],
        "ratio_table": _own_table(request, overview.tenants, by_name, "ratios", table_wanted),
        "reward_table": _own_table(request, overview.tenants, by_name, "rewards", table_wanted),
    }
    return render(request, "fairness/overview.html", context)


@require_safe
@requires(Permission.FAIRNESS_VIEW)
def intervals(request: AccessRequest, pool_slug: str) -> HttpResponseBase:
    """List intervals, by what the reader looks for in them (`?what=`)."""
    pool = get_object_or_404(Pool, slug=pool_slug)
    span = span_asked(request.GET, today=day_of(timezone.now(), UTC))
    choices, columns = LOOKED_FOR, tables.INTERVALS
    if pool.is_elastic:
        choices, columns = LOOKED_FOR_BY_USE, tables.INTERVALS_BY_USE
    what = request.GET.get("what", ALL)
    what = what if what in choices else ALL
    rows = fairness_intervals(pool, what, first=span.first, last=span.last)
    if asks_csv(request):
        return csv_response(request, rows, columns)
    context = _frame(pool, span, []) | {
        "what": what,
        "choices": list(choices.items()),
        "table": table_of(request, rows, columns),
        "count": rows.count(),
    }
    return render(request, "fairness/intervals.html", context)


@require_safe
@requires(Permission.FAIRNESS_VIEW)
def interval(request: AccessRequest, pool_slug: str, number: int) -> HttpResponseBase:
    """Show one interval. `?file=view` (or plan, policy) returns the stored bytes themselves."""
    pool = get_object_or_404(Pool, slug=pool_slug)
    if (part := request.GET.get("file")) is not None:
        return _file(pool, number, part)
    account = interval_account(pool, number)
    if account is None:
        raise Http404
    columns = tables.IN_INTERVAL_BY_USE if pool.is_elastic else tables.IN_INTERVAL
    if asks_csv(request):
        return list_csv(request, account.tenants, columns)
    table = list_page(request.GET, account.tenants, columns)
    context = {"pool": pool, "account": account, "table": table, "labels": _labels(pool)}
    return render(request, "fairness/interval.html", context)


@require_safe
@requires(Permission.QUOTA_VIEW)
def tenant_fairness(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    """Show the tenant's own numbers, and nothing from which those of another could be worked out."""
    tenant, pools = open_tenant(request), pool_list()
    pool = pool_asked(request, pools)
    if pool is None:
        return render(request, "market/no_pool.html", {"heading": "Fairness"})
    span = span_asked(request.GET, today=day_of(timezone.now(), UTC))
    rows = own_intervals(tenant, pool, first=span.first, last=span.last)
    columns = tables.own(money=request.access.allows(Permission.LEDGER_VIEW), by_use=pool.is_elastic)
    if asks_csv(request):
        return csv_response(request, rows, columns)
    own = fairness_overview(pool, first=span.first, last=span.last).tenant(tenant.pk)
    periods = [own] if own else []
    context = _frame(pool, span, pools) | {
        "tenant": tenant,
        "own": own,
        "dots": picture.dots_of(periods, worst=None, mine=tenant.pk),
        "trend": picture.trend_of(periods, worst=None, mine=tenant.pk),
        "idle": picture.idle_of([own]) if own else None,
        "units": units_by_resource(own) if own else (),
        "table": table_of(request, rows, columns),
    }
    return render(request, "fairness/own.html", context)


@require_safe
@requires(Permission.QUOTA_VIEW)
def tenant_interval(request: AccessRequest, tenant_slug: str, pool_slug: str, number: int) -> HttpResponse:
    tenant, pool = open_tenant(request), get_object_or_404(Pool, slug=pool_slug)
    account = interval_account(pool, number, tenant=tenant)
    if account is None:
        raise Http404
    own = account.tenants[0] if account.tenants else None
    broken = sum(1 for row in account.jobs if row.broken)
    context = {"tenant": tenant, "pool": pool, "account": account, "own": own, "broken": broken}
    return render(request, "fairness/own_interval.html", context)


def _file(pool: Pool, number: int, part: str) -> HttpResponse:
    content = interval_part(pool, number, part) if part in PARTS else None
    if content is None:
        raise Http404
    answer = HttpResponse(content, content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="interval-{pool.slug}-{number}-{part}.json"'
    return answer


def _frame(pool: Pool, span: DaySpan, pools: list[Pool]) -> dict[str, Any]:
    return {"pool": pool, "pools": pools, "span": span, "lengths": LENGTHS, "labels": _labels(pool)}


def _labels(pool: Pool) -> dict[str, str]:
    return dict(pool.resources.values_list("name", "label"))


def _lowest(account: Any) -> int | None:
    return account.with_ratio[-1].tenant_id if len(account.with_ratio) > 1 else None


def _own_table(request: AccessRequest, rows: Any, by_name: dict[str, Table], name: str, table: str) -> Any:
    """Return one of the two tables on the page: the address sorts and turns the pages of the one that it names."""
    query = request.GET.copy()
    if table != name:
        for key in ("sort", "after"):
            query.pop(key, None)
    query["table"] = name
    return list_page(query, rows, by_name[name])
