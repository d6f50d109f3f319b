"""One job: its page, what a cancellation would do, and the cancellation."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from scheduling.models import TrainingJob
from scheduling.selectors.job_page import job_page
from scheduling.selectors.runs import run_view
from scheduling.services.cancel_preview import cancel_preview
from scheduling.services.cancellation import job_cancel as cancel
from scheduling.services.second_chance import job_queue as queue
from scheduling.snapshots.specs import PROGRAM
from scheduling.views.job_bars import slot_bars
from scheduling.views.loss_picture import loss_picture
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires, tell
from tenants.views.parts import part_or_page

PARTS = {"job": "scheduling/job_story.html", "run": "scheduling/job_run.html"}
SHOWN_SLOTS = 24  # more stand folded up


@require_safe
@requires(Permission.JOBS_VIEW)
def job(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    row = get_object_or_404(TrainingJob.objects.select_related("pool", "tenant", "submitted_by"), pk=pk)
    page = job_page(row, at=timezone.now(), money=request.access.allows(Permission.LEDGER_VIEW))
    run = run_view(row) if PROGRAM in row.spec else None
    context = {
        "tenant": open_tenant(request),
        "pool": row.pool,
        "job": row,
        "page": page,
        "has_program": PROGRAM in row.spec,
        "run": run,
        "picture": loss_picture(run.points) if run else None,
        "bars": slot_bars(page.slots) if page.slots else None,
        "folded": page.slots is not None and len(page.slots.rows) > SHOWN_SLOTS,
    }
    return part_or_page(request, "scheduling/job.html", PARTS, context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.JOBS_CANCEL)
def job_cancel(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """Asked for, it says what would happen; posted, it does it."""
    row = get_object_or_404(TrainingJob.objects.select_related("pool"), pk=pk)
    if request.method != "POST":
        preview = cancel_preview(row, timezone.now())
        context = {"tenant": open_tenant(request), "pool": row.pool, "job": row, "preview": preview}
        return render(request, "scheduling/job_cancel.html", context)
    outcome = cancel(job_id=row.pk, by=request.access, at=timezone.now())
    tell(request, outcome, f"{row.name} is cancelled.")
    return redirect("job", tenant_slug, row.pk)


@require_POST
@requires(Permission.JOBS_SUBMIT)
def job_queue(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """A job that the instant lane refused waits for the next interval."""
    row = get_object_or_404(TrainingJob, pk=pk)
    outcome = queue(job_id=row.pk, by=request.access, at=timezone.now())
    if isinstance(outcome, Refused):
        messages.error(request, outcome.sentence)
    else:
        messages.success(request, f"{row.name} waits for the next interval.")
    return redirect("job", tenant_slug, row.pk)
