"""One job: its page, what a cancellation would do, and the cancellation."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.jobs import cancellation, read_files, second_chance
from scheduling.jobs.cancel_preview import cancel_preview
from scheduling.jobs.pages.bars import slot_bars
from scheduling.jobs.pages.log_form import LogForm
from scheduling.jobs.pages.loss_picture import loss_picture
from scheduling.jobs.pages.number_pictures import number_pictures
from scheduling.jobs.pages.outlook_picture import outlook_picture
from scheduling.jobs.projections import job_projection
from scheduling.jobs.read_description import description_shown, with_description
from scheduling.jobs.read_files import JobFiles, job_files
from scheduling.jobs.read_log import log_view, log_whole
from scheduling.jobs.read_numbers import numbers_view
from scheduling.jobs.read_outlook import job_outlook
from scheduling.jobs.read_page import job_page
from scheduling.jobs.read_run import job_runs, run_view
from scheduling.jobs.read_stranger_files import OpenedFile, path_said, path_shown
from scheduling.market.pages.context import frame_in
from scheduling.models import PROGRAM, TrainingJob
from tenants.access import Access, AccessRequest, Refused
from tenants.downloads import file_download, part_download
from tenants.roles import Permission
from tenants.views.gate import open_tenant, posted_from, requires, tell
from tenants.views.parts import part_or_page

PARTS = {
    "job": "jobs/job_story.html",
    "outlook": "jobs/job_outlook.html",
    "run": "jobs/job_run.html",
    "log": "jobs/job_log.html",
    "files": "jobs/job_files.html",
}
SHOWN_SLOTS = 24  # where there are more, they are folded up
SHOWN_FILES, COUNTED_FILES = 20, 200


@require_safe
@requires(Permission.JOBS_VIEW)
def job(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    rows = with_description(TrainingJob.objects.select_related("pool", "tenant", "submitted_by"))
    row, now = get_object_or_404(rows, pk=pk), timezone.now()
    page = job_page(row, at=now, money=request.access.allows(Permission.LEDGER_VIEW))
    outlook = job_outlook(row)
    run = run_view(row, outlook.total if outlook else None) if PROGRAM in row.spec else None
    numbers = numbers_view(job_runs(row)) if run and run.is_own else None
    files = _files(row, request.access, now) if run else None
    form = LogForm(request.GET)
    log = log_view(run.run, form.question(), form.before()) if run else None
    context = {
        "tenant": open_tenant(request),
        "pool": row.pool,
        "frame": frame_in(request.access, row.tenant, row.pool),
        "job": row,
        "page": page,
        "has_program": PROGRAM in row.spec,
        "run": run,
        "numbers": numbers,
        "pictures": number_pictures(numbers),
        "picture": loss_picture(run.points) if run else None,
        "outlook": outlook,
        "outlook_picture": outlook_picture(outlook),
        "bars": slot_bars(page.slots) if page.slots else None,
        "described": description_shown(row, request.access),
        "files": files,
        "shown_files": SHOWN_FILES,
        "other_files": max(len(files.files) - SHOWN_FILES, 0) if files else 0,
        "log": log,
        "log_form": form,
        "log_part": _query(request, part="log"),
        "log_earlier": _query(request, before=str(log.before)) if log and log.before else "",
        "projection": job_projection(row, at=now) if page.home and page.home.projected else None,
        "log_newest": form.before() is None,
        "log_topics": f"job-run:{row.pk}" if run else f"job-run:{row.pk} job:{row.pk}",
        "folded": page.slots is not None and len(page.slots.rows) > SHOWN_SLOTS,
    }
    return part_or_page(request, "jobs/job.html", PARTS, context)


def _files(job: TrainingJob, by: Access, at: datetime) -> JobFiles | None:
    """Return the files that are shown and counted, or None where there is nothing to say of them."""
    files = job_files(job, by, at, most=COUNTED_FILES)
    return files if files.is_told else None


def _query(request: AccessRequest, **others: str) -> str:
    """Return the present query of the log with other values for some fields."""
    query = request.GET.copy()
    query.pop("part", None)
    for name, value in others.items():
        query[name] = value
    return f"?{query.urlencode()}"


@require_safe
@requires(Permission.JOBS_VIEW)
def job_log(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponseBase:
    """Send the whole log as a file."""
    row = get_object_or_404(TrainingJob, pk=pk)
    runs = job_runs(row)
    lines = log_whole(runs[0]) if runs else iter(())
    return file_download(request, f"job-{pk}.log", "text/plain; charset=utf-8", lines)


@require_safe
@requires(Permission.JOBS_VIEW)
def job_file(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponseBase:
    """Send one of the job's files, which `?path=` names as the page does."""
    row = get_object_or_404(TrainingJob.objects.select_related("pool", "tenant"), pk=pk)
    path = path_said(request.GET.get("path", ""))
    opened = read_files.job_file(row, request.access, timezone.now(), path) if path else None
    if not isinstance(opened, OpenedFile):
        raise Http404
    return part_download(request, path_shown(opened.about.path[-1:]), opened)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.JOBS_CANCEL)
def job_cancel(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """Show what would happen, or cancel the job where the form is posted."""
    row = get_object_or_404(TrainingJob.objects.select_related("pool"), pk=pk)
    if request.method != "POST":
        preview = cancel_preview(row, timezone.now())
        tenant = open_tenant(request)
        frame = frame_in(request.access, tenant, row.pool)
        context = {"tenant": tenant, "pool": row.pool, "frame": frame, "job": row, "preview": preview}
        return render(request, "jobs/job_cancel.html", context)
    outcome = cancellation.job_cancel(job_id=row.pk, by=request.access, at=timezone.now())
    tell(request, outcome, f"{row.name} is cancelled.")
    return redirect("job", tenant_slug, row.pk)


@posted_from("job")
@requires(Permission.JOBS_SUBMIT)
def job_queue(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """Let a job that the instant lane refused wait for the next interval."""
    row = get_object_or_404(TrainingJob, pk=pk)
    outcome = second_chance.job_queue(job_id=row.pk, by=request.access, at=timezone.now())
    if isinstance(outcome, Refused):
        messages.error(request, outcome.sentence)
    else:
        messages.success(request, f"{row.name} waits for the next interval.")
    return redirect("job", tenant_slug, row.pk)
