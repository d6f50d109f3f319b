"""The list of intervals, and the page of one interval with its proof."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.audit.verification import Finding, IntervalVerified, findings_for, in_turn, interval_verify
from scheduling.cluster import pool_list
from scheduling.cluster.pages.pools import pool_asked
from scheduling.market.reads import PAGE, IntervalView, interval_list, interval_view
from scheduling.models import Pool
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.views.gate import costly, open_tenant, requires


@dataclass(frozen=True)
class ReaderVerdict:
    """A verification as this reader may see it. `hidden` counts the findings about other tenants' jobs, which are left
    out."""

    verified: IntervalVerified | None
    refusal: str
    findings: tuple[Finding, ...] = ()
    hidden: int = 0


@require_safe
@requires(Permission.QUOTA_VIEW)
def intervals(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """List the intervals of one pool: `?pool=slug`, or else the one chosen last; `?below=number` shows older ones."""
    pools = pool_list()
    pool = pool_asked(request, pools)
    if pool is None:
        return render(request, "market/no_pool.html", {"heading": "Intervals"})
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
    return render(request, "audit/intervals.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.QUOTA_VIEW)
def interval(request: AccessRequest, tenant_slug: str, pool_slug: str, number: int) -> HttpResponse:
    """Show one interval. A POST verifies it and shows the same page with the verdict; it changes nothing."""
    tenant, pool = open_tenant(request), get_object_or_404(Pool, slug=pool_slug)
    money, jobs = (request.access.allows(right) for right in (Permission.LEDGER_VIEW, Permission.JOBS_VIEW))
    view = interval_view(tenant=tenant, pool=pool, number=number, money=money, jobs=jobs)
    if view is None:
        raise Http404
    verdict = _verdict(request, pool, view) if request.method == "POST" else None
    context = {"tenant": tenant, "pool": pool, "view": view, "verdict": verdict}
    return render(request, "audit/interval.html", context)


def _verdict(request: AccessRequest, pool: Pool, view: IntervalView) -> ReaderVerdict:
    number = view.interval.number
    with costly(request) as refused:
        person = request.user.pk or 0
        verified: IntervalVerified | Refused = (
            refused if refused else in_turn(person, lambda: interval_verify(pool_id=pool.pk, number=number))
        )
    if isinstance(verified, Refused):
        return ReaderVerdict(None, verified.sentence)
    if request.access.allows(Permission.FAIRNESS_VIEW):
        return ReaderVerdict(verified, "", verified.findings)
    findings = findings_for(verified.findings, {bid.job_id for bid in view.bids})
    return ReaderVerdict(verified, "", findings, len(verified.findings) - len(findings))
