"""Intervals: the list of decisions, and one of them with its proof."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.core.cache import cache
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods, require_safe

from scheduling import selectors
from scheduling.models import Pool
from scheduling.selectors.intervals import PAGE, IntervalView, interval_list, interval_view
from scheduling.services.verification import Finding, IntervalVerified, interval_verify
from scheduling.views.servers import pool_chosen
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires

PATIENCE = 60  # seconds for which one person's replay keeps that person from starting another


@dataclass(frozen=True)
class Verdict:
    """What a verification says to this reader. `hidden`: findings about other tenants' jobs, which are not theirs."""

    verified: IntervalVerified | None
    refusal: str
    findings: tuple[Finding, ...] = ()
    hidden: int = 0


@require_safe
@requires(Permission.QUOTA_VIEW)
def intervals(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Of one pool: `?pool=slug`, else the first; `?below=number` for older ones."""
    pools = selectors.pool_list()
    pool = pool_chosen(pools, request.GET.get("pool"))
    if pool is None:
        return render(request, "scheduling/servers_none.html")
    tenant, below = open_tenant(request), request.GET.get("below", "")
    money = request.access.allows(Permission.LEDGER_VIEW)
    number = int(below) if below.isdecimal() and len(below) < 19 else None
    rows = interval_list(tenant=tenant, pool=pool, below=number, money=money)
    context = {
        "tenant": tenant,
        "pools": pools,
        "pool": pool,
        "rows": rows,
        "next": rows[-1].number if len(rows) == PAGE and rows[-1].number > 1 else None,
        "newer": number is not None,
    }
    return render(request, "scheduling/intervals.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.QUOTA_VIEW)
def interval(request: AccessRequest, tenant_slug: str, pool_slug: str, number: int) -> HttpResponse:
    """A POST verifies it and shows the same page with the verdict; nothing is changed by that."""
    tenant, pool = open_tenant(request), get_object_or_404(Pool, slug=pool_slug)
    money, jobs = (request.access.allows(right) for right in (Permission.LEDGER_VIEW, Permission.JOBS_VIEW))
    view = interval_view(tenant=tenant, pool=pool, number=number, money=money, jobs=jobs)
    if view is None:
        raise Http404
    verdict = _verdict(request, pool, view) if request.method == "POST" else None
    context = {"tenant": tenant, "pool": pool, "view": view, "verdict": verdict}
    return render(request, "scheduling/interval.html", context)


def _verdict(request: AccessRequest, pool: Pool, view: IntervalView) -> Verdict:
    """One replay at a time for each person: it costs the processor what the decision cost."""
    lock = f"interval-verify:{request.user.pk}"
    if not cache.add(lock, 1, timeout=PATIENCE):
        return Verdict(None, "Another verification of yours is still running. Try again in a moment.")
    try:
        verified = interval_verify(pool_id=pool.pk, number=view.interval.number)
    finally:
        cache.delete(lock)
    if isinstance(verified, Refused):
        return Verdict(None, verified.sentence)
    if request.access.allows(Permission.FAIRNESS_VIEW):
        return Verdict(verified, "", verified.findings)
    own = {bid.job_id for bid in view.bids}
    shown = tuple(finding for finding in verified.findings if _is_for(finding, own))
    return Verdict(verified, "", shown, len(verified.findings) - len(shown))


def _is_for(finding: Finding, own: Iterable[int]) -> bool:
    """Whether it names no job but the reader's own."""
    named = {int(number) for number in re.findall(r"\bjob (\d+)", str(finding))}
    return named <= set(own)
