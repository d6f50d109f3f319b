"""The pages where auditors start verifications and bundles, follow their progress, and read what came of them."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.audit.bundle import signing_keys
from scheduling.audit.requests import (
    OPEN_AUDITS,
    RETENTION,
    audit_cancel,
    audit_progress,
    bundle_bytes,
    bundle_of_days,
    can_cancel,
    verify_start,
)
from scheduling.books import charge_account
from scheduling.fairness import interval_account
from scheduling.models import AuditKind, AuditRun, AuditState, Pool, TrainingJob
from tenants.access import AccessRequest, Refused
from tenants.common.downloads import file_download
from tenants.common.zones import day_of, day_read
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.views.gate import costly, posted_from, requires
from tenants.views.parts import part_or_page
from tenants.views.tables import Column, Table, asks_csv, csv_response, table_of

LIST = Table(
    (
        Column("id", "Request", order="id", numeric=True),
        Column("kind", "Of", order="kind"),
        Column("state", "State", order="state"),
        Column("asked_at", "Asked", order="asked_at"),
        Column("asked_by", "By", value=lambda row: str(row.asked_by or "")),
        Column("sentence", "What came of it"),
    ),
    file="audits",
)


@require_safe
@requires(Permission.FAIRNESS_VIEW)
def audits(request: AccessRequest) -> HttpResponseBase:
    rows = AuditRun.objects.select_related("pool", "asked_by")
    if asks_csv(request):
        return csv_response(request, rows, LIST)
    last = day_of(timezone.now(), UTC)
    unfinished = AuditRun.objects.filter(state__in=OPEN_AUDITS).exists()
    context = {
        "table": table_of(request, rows, LIST),
        "pools": list(Pool.objects.order_by("slug")),
        "chosen": request.GET.get("pool", ""),
        "kept": RETENTION.days,
        "first": last.replace(day=1),
        "last": last,
        "unfinished": unfinished,
        "keys": signing_keys(),
    }
    return part_or_page(request, "audit/audits.html", {"list": "audit/audits_list.html"}, context)


@require_safe
@requires(Permission.FAIRNESS_VIEW)
def audit(request: AccessRequest, pk: int) -> HttpResponseBase:
    run = get_object_or_404(AuditRun.objects.select_related("pool", "asked_by"), pk=pk)
    over = run.state not in OPEN_AUDITS
    context = {
        "run": run,
        "over": over,
        "progress": audit_progress(run),
        "can_cancel": can_cancel(run),
        "ahead": AuditRun.objects.filter(state=AuditState.QUEUED, pk__lt=run.pk).count(),
        "has_file": run.kind == AuditKind.BUNDLE and run.parts.exists(),
        "kept": RETENTION.days,
        "more_findings": run.result.get("count", 0) - len(run.result.get("findings", ())),
        **(_arithmetic(run) if over else {}),
    }
    return part_or_page(request, "audit/audit.html", {"state": "audit/audit_state.html"}, context)


@posted_from("audits")
@requires(Permission.AUDITS_ASK)
def audit_start(request: AccessRequest) -> HttpResponse:
    """Start what the form asks for: `kind`, `pool`, `number`, and for a bundle `from` and `to`. Auditors may do this,
    as it changes nothing of the market."""
    kind, slug = request.POST.get("kind", ""), request.POST.get("pool", "")
    pool = get_object_or_404(Pool, slug=slug) if slug else None
    if kind not in AuditKind.values or (pool is None and kind in (AuditKind.INTERVAL, AuditKind.BUNDLE)):
        raise Http404
    with costly(request) as refused:
        if refused:
            outcome: AuditRun | Refused = refused
        elif kind == AuditKind.BUNDLE and pool:
            first, last = (day_read(request.POST.get(name, "")) for name in ("from", "to"))
            outcome = bundle_of_days(pool=pool, first=first, last=last, by=request.access, at=timezone.now())
        else:
            number = request.POST.get("number", "").strip().removeprefix("J-")
            number_wanted = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else None
            outcome = verify_start(kind=kind, pool=pool, number=number_wanted, by=request.access, at=timezone.now())
    if isinstance(outcome, Refused):
        messages.error(request, outcome.sentence)
        return redirect("audits")
    return redirect("audit", outcome.pk)


@posted_from("audit")
@requires(Permission.AUDITS_ASK)
def audit_call_off(request: AccessRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(AuditRun, pk=pk)
    outcome = audit_cancel(run_id=run.pk, by=request.access, at=timezone.now())
    if isinstance(outcome, Refused):
        messages.error(request, outcome.sentence)
    return redirect("audit", pk)


@require_safe
@requires(Permission.FAIRNESS_VIEW)
def audit_file(request: AccessRequest, pk: int) -> HttpResponseBase:
    run = get_object_or_404(AuditRun.objects.select_related("pool"), pk=pk, kind=AuditKind.BUNDLE)
    if not run.parts.exists():
        raise Http404
    name = f"bundle-{run.pool.slug if run.pool else ''}-{run.pk}.zip"
    answer = file_download(request, name, "application/zip", bundle_bytes(run))
    answer["Content-Length"] = str(run.size)
    answer["Cache-Control"] = "no-store"
    return answer


def _arithmetic(run: AuditRun) -> dict[str, Any]:
    """Return the inputs, and what follows from them, in words and numbers."""
    if run.kind == AuditKind.CHARGE:
        with scope_disabled("an auditor looks at everybody's jobs"):
            job = TrainingJob.objects.select_related("pool", "tenant").filter(pk=run.number).first()
            return {"job": job, "awards": charge_account(job) if job else ()}
    if run.kind == AuditKind.INTERVAL and run.pool:
        return {"account": interval_account(run.pool, int(run.number or 0))}
    return {}
