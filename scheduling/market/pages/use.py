"""The page Use over time: how a tenant's own units, or all units of a pool, were used by hour and by day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.cluster import pool_list
from scheduling.cluster.pages.pools import pool_asked
from scheduling.market.pages.use_picture import heat, percents, server_groups, share_words, use_picture, use_table
from scheduling.market.pages.use_week import Week, week_of
from scheduling.market.reads.prices import resource_kinds
from scheduling.market.reads.use import (
    HOUR,
    OWN_PARTS,
    POOL_PARTS,
    GroupUse,
    UseStep,
    hour_of,
    servers_by_hour,
    use_over_time,
)
from scheduling.models import Pool, ResourceKind, Server
from tenants.access import AccessRequest
from tenants.common.zones import day_of, midnight
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires
from tenants.views.parts import part_or_page

PARTS = {"panel": "market/use_panel.html", "week": "market/use_week.html"}
WHOSE = {"mine": "My units", "pool": "The whole pool"}
SPANS = {"day": "24 hours", "week": "7 days", "month": "30 days"}
HEIGHT, PANEL_HEIGHT = 190, 96
LEAST_HOURS = 3  # hours that a picture shows at least


@dataclass(frozen=True)
class UsePeriod:
    first: datetime
    end: datetime
    step: UseStep


def period_of(span: str, now: datetime, pool: Pool) -> UsePeriod:
    """Return the period of a span: the last 24 hours including the running one, or the last days including today, in
    the reader's zone. Where slots are longer than an hour, the 24 hours are those of the slots that are over."""
    if span == "day":
        end = hour_of(now) + HOUR
        day = timedelta(days=1)
        if pool.slot_seconds > HOUR.total_seconds():
            return UsePeriod(hour_of(pool.slot_start(pool.slot_at(now - day))), end, UseStep.HOUR)
        return UsePeriod(end - day, end, UseStep.HOUR)
    today = day_of(now)
    end = midnight(today + timedelta(days=1))
    if span == "week":
        return UsePeriod(midnight(today - timedelta(days=6)), end, UseStep.HOUR)
    return UsePeriod(midnight(today - timedelta(days=29)), end, UseStep.DAY)


@require_safe
@requires(Permission.QUOTA_VIEW)
def tenant_use(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show use over time. `?pool=` is a slug, by default the one chosen last; `?of=` is `mine` or `pool`; `?span=` is
    day, week or month; `?resource=` is a name, by default the first resource. `?part=panel` returns only the picture,
    as other pages show it; `?part=week` returns the use of the tenant's own units by weekday."""
    pools = pool_list()
    pool = pool_asked(request, pools)
    kinds = resource_kinds(pool) if pool else []
    if pool is None or not kinds:
        return render(request, "market/no_pool.html", {"heading": "Use over time"})
    if request.GET.get("part") == "week":
        return _week_part(request, pool, kinds[0])
    panel = request.GET.get("part") == "panel"
    whose = _choice(request.GET.get("of"), list(WHOSE))
    span = _choice(request.GET.get("span"), list(SPANS))
    resource = next((kind for kind in kinds if kind.name == request.GET.get("resource")), kinds[0])
    context = use_context(open_tenant(request), pool, resource, whose=whose, span=span, panel=panel)
    context |= {
        "week": _week(pool, resource, context["tenant"] if whose == "mine" else None) if span == "month" else None,
        "pools": pools,
        "kinds": kinds,
        "spans": [(name, words, name == span) for name, words in SPANS.items()],
        "owners": [(name, words, name == whose) for name, words in WHOSE.items()],
    }
    return part_or_page(request, "market/use.html", PARTS, context)


def _week_part(request: AccessRequest, pool: Pool, resource: ResourceKind) -> HttpResponse:
    """Return the use of the tenant's own units by weekday, as the page My share shows it."""
    tenant = open_tenant(request)
    week = _week(pool, resource, tenant)
    return render(request, PARTS["week"], {"week": week, "own": True, "resource": resource})


def _week(pool: Pool, resource: ResourceKind, tenant: Tenant | None) -> Week | None:
    """Return the use of 30 days by weekday and hour of the reader's zone. With `tenant`, only its own units and its own
    jobs on them count."""
    period = period_of("month", timezone.now(), pool)
    columns = use_over_time(
        pool=pool,
        first=period.first,
        end=period.end,
        step=UseStep.HOUR,
        tenant_id=tenant.pk if tenant else None,
        resource_id=resource.pk,
    )
    parts = ("used",) if tenant else ("used", "rented")
    return week_of(columns, parts=parts, zone=timezone.get_current_timezone())


def use_context(
    tenant: Tenant, pool: Pool, resource: ResourceKind, *, whose: str, span: str, panel: bool
) -> dict[str, Any]:
    """Return the context of the page or of its picture. Needs the tenant's scope."""
    # 1. Gather the sums of the period.
    now = timezone.now()
    period, own = period_of(span, now, pool), whose == "mine"
    columns = use_over_time(
        pool=pool,
        first=period.first,
        end=period.end,
        step=period.step,
        tenant_id=tenant.pk if own else None,
        resource_id=resource.pk,
    )
    names: dict[int, str] = {}
    groups: Sequence[Sequence[int]] = ()
    uses: Sequence[GroupUse] = ()
    if span == "day" and not own and not panel:
        names = dict(Server.objects.filter(pool=pool).values_list("pk", "name"))
        groups = server_groups(list(names))
        uses = servers_by_hour(pool=pool, resource_id=resource.pk, groups=groups, first=period.first, end=period.end)

    # 2. Shape them. For a young market the day begins with the first counted hour, so that its first minutes are
    # visible.
    order = OWN_PARTS if own else POOL_PARTS
    begun = columns[0].starts_at if columns and span == "day" else period.first
    first = max(period.first, min(begun, period.end - LEAST_HOURS * HOUR))
    rows, total = use_table(columns, order=order, slot_seconds=pool.slot_seconds)
    picture = use_picture(
        columns,
        first=first,
        end=period.end,
        order=order,
        own=own,
        height=PANEL_HEIGHT if panel else HEIGHT,
        with_price=not (panel and own),
    )
    sums = [sum(column.parts[name] for column in columns) for name in order]
    shares = [share_words(amount, share) for amount, share in zip(sums, percents(sums), strict=True)]
    return {
        "tenant": tenant,
        "pool": pool,
        "resource": resource,
        "whose": whose,
        "span": span,
        "own": own,
        "by_day": period.step == UseStep.DAY,
        "picture": picture,
        "rows": rows,
        "total": total,
        "order": order,
        "legend": list(zip(order, total.parts, shares, strict=True)),
        "shares": {name: words for name, words, amount in zip(order, shares, sums, strict=True) if amount},
        "counted_to": columns[-1].ends_at if columns else None,
        "heat": heat(
            uses, groups=groups, names=names, first=first, end=period.end, slot=timedelta(seconds=pool.slot_seconds)
        ),
    }


def _choice(text: str | None, among: list[str]) -> str:
    """Return the text if it is one of the choices, else the first choice."""
    return text if text in among else among[0]
