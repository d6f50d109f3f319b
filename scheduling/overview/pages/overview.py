"""The overview page: the home of operators and auditors. Each part reads only what it shows, and is refreshed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.cluster import pool_list
from scheduling.models import Pool
from scheduling.notices import page_opening
from scheduling.operator import EngineState, engine_states
from scheduling.overview import read_overview as reads
from scheduling.overview.decisions import MOST, decisions
from scheduling.overview.first_steps import first_steps
from tenants.access import AccessRequest
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.views.gate import requires
from tenants.views.parts import part_or_page

PARTS = {
    "now": "overview/now.html",
    "use": "overview/use.html",
    "queue": "overview/queue.html",
    "intervals": "overview/intervals.html",
    "health": "overview/health.html",
    "money": "overview/money.html",
}


@dataclass(frozen=True)
class OverviewRequest:
    """The reads of one request, so that what several parts show is read once."""

    at: datetime

    @cached_property
    def tenants(self) -> Mapping[int, Tenant]:
        return {tenant.pk: tenant for tenant in Tenant.objects.all()}

    @cached_property
    def pools(self) -> Sequence[Pool]:
        return [use.state.pool for use in self.uses] if "uses" in self.__dict__ else pool_list()

    @cached_property
    def uses(self) -> Sequence[reads.PoolUseNow]:
        return reads.pools_now(self.at, self.tenants)

    @cached_property
    def engines(self) -> Sequence[EngineState]:
        return engine_states(self.at)

    @cached_property
    def servers(self) -> Sequence[reads.ServerTrouble]:
        return reads.troubles(self.engines)

    @cached_property
    def queue(self) -> reads.PoolQueue:
        return reads.queue_now(self.pools, self.tenants)

    @cached_property
    def money(self) -> reads.BookNow:
        return reads.money_now(self.at, self.tenants)

    @cached_property
    def intervals(self) -> Sequence[reads.IntervalLine]:
        return reads.intervals_latest(self.pools)


@require_safe
@requires(Permission.TENANTS_VIEW)
def overview(request: AccessRequest) -> HttpResponse:
    """Show the overview; `?part=NAME` answers with that part alone. The cursor is read first, so that what happens
    meanwhile is announced again."""
    opening, reading = page_opening(request.access.user), OverviewRequest(timezone.now())
    part = request.GET.get("part")
    frame = {"cursor": opening.cursor, "unread": opening.unread, "now": {"at": reading.at}}
    context: dict[str, Any] = {"at": reading.at, "frame": frame}
    for name, build in BUILDERS.items():
        if part in (None, name):
            context |= build(reading)
    return part_or_page(request, "overview/overview.html", PARTS, context)


def _now(reading: OverviewRequest) -> dict[str, Any]:
    wanted = decisions(
        at=reading.at,
        pools=reading.uses,
        servers=reading.servers,
        engines=reading.engines,
        tenants=reading.tenants,
        difference=reading.money.difference,
    )
    top = wanted[:MOST]
    late = [line for line in reading.intervals if line.is_late]
    steps = first_steps(reading.uses, reading.tenants.values(), reading.money)
    return {
        "uses": reading.uses,
        "queue": reading.queue,
        "difference": reading.money.difference,
        "decisions": [(one, reverse(one.page, args=one.arguments) + one.query) for one in top],
        "first_steps": [(step, reverse(step.page) + step.query) for step in steps],
        "next_step": next((step for step in steps if not step.is_done), None),
        "decided": len(wanted),
        "urgent": sum(one.is_urgent for one in wanted),
        "intervals_late": len(late),
        "intervals_seen": len(reading.intervals),
        "lost": sum(server.state == "lost" for server in reading.servers),
        "servers_all": sum(len(use.overview.servers) for use in reading.uses),
    }


def _use(reading: OverviewRequest) -> dict[str, Any]:
    return {"uses": reading.uses}


def _queue(reading: OverviewRequest) -> dict[str, Any]:
    return {"queue": reading.queue}


def _intervals(reading: OverviewRequest) -> dict[str, Any]:
    return {"intervals": reading.intervals}


def _health(reading: OverviewRequest) -> dict[str, Any]:
    most = reads.MOST_SERVERS
    engines = [
        engine for engine in reading.engines if engine.alive_at is not None and (engine.is_silent or engine.alerts)
    ]
    return {
        "engines": engines,
        "engines_all": len(reading.engines),
        "servers": reading.servers[:most],
        "servers_more": len(reading.servers[most:]),
    }


def _money(reading: OverviewRequest) -> dict[str, Any]:
    return {"money": reading.money}


BUILDERS: Mapping[str, Callable[[OverviewRequest], dict[str, Any]]] = {
    "now": _now,
    "use": _use,
    "queue": _queue,
    "intervals": _intervals,
    "health": _health,
    "money": _money,
}
