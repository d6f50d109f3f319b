"""One job: its page, what a cancellation would do, and the cancellation."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.jobs import cancellation, read_files, second_chance
from scheduling.jobs.cancel_preview import COSTS_MORE, cancel_preview
from scheduling.jobs.pages.bars import slot_bars
from scheduling.jobs.pages.jobs_form import costs_shown
from scheduling.jobs.pages.log_form import LogForm
from scheduling.jobs.pages.loss_picture import loss_picture
from scheduling.jobs.pages.number_pictures import number_pictures
from scheduling.jobs.pages.outlook_picture import outlook_picture
from scheduling.jobs.projections import job_projection
from scheduling.jobs.read_description import description_shown, with_description
from scheduling.jobs.read_files import JobFiles, job_files
from scheduling.jobs.read_log import log_name, log_view, log_whole, why_no_log
from scheduling.jobs.read_numbers import numbers_view
from scheduling.jobs.read_outlook import job_outlook
from scheduling.jobs.read_page import job_page
from scheduling.jobs.read_run import RunView, job_runs, numbered_runs, run_numbered, run_sentence, run_view
from scheduling.jobs.read_stranger_files import OpenedFile, path_said, path_shown
from scheduling.market.pages.context import frame_in
from scheduling.models import PROGRAM, TrainingJob
from scheduling.models.runs import OPEN
from tenants.access import Access, AccessRequest, Refused
from tenants.common.downloads import file_download, part_download
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
    numbers = numbers_view(run.runs) if run and run.is_own else None
    files = _files(row, request.access, now) if run else None
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
        "projection": job_projection(row, at=now) if page.home and page.home.projected else None,
        "folded": page.slots is not None and len(page.slots.rows) > SHOWN_SLOTS,
    }
    return part_or_page(request, "jobs/job.html", PARTS, context | _log(request, row, run, now))


def _log(request: AccessRequest, row: TrainingJob, newest: RunView | None, at: datetime) -> dict[str, Any]:
    """Return what the page shows of the log of the run that its address names, or else of the newest."""
    form, sentence = LogForm(request.GET), ""
    runs = numbered_runs(row, newest.runs) if newest else []
    its = run_numbered(row, runs, form.run()) if newest else None
    if isinstance(its, Refused):
        sentence, its = its.sentence, None
    elif its:
        sentence = why_no_log(row, its.run, at)
    log = log_view(its.run, form.question(), form.before()) if its else None
    is_open, at_end = its is not None and its.run.state in OPEN, form.before() is None
    return {
        "log": log,
        "log_form": form,
        "log_run": its,
        "log_runs": runs,
        "log_how": run_sentence(its.run) if its and its.number < its.of else "",
        "log_why_none": sentence,
        "log_part": _query(request, part="log"),
        "log_alone": request.GET.get("part") == "log",
        "log_earlier": _query(request, before=str(log.before)) if log and log.before else "",
        "log_newest": _query(request, before=""),
        "log_run_before": _query(request, before="", run=str(its.number - 1)) if its and its.number > 1 else "",
        "log_run_after": _query(request, before="", run=str(its.number + 1)) if its and its.number < its.of else "",
        "log_at_end": at_end,
        "log_is_open": is_open,
        "log_moves": at_end and (is_open or form.run() is None),
        "log_topics": f"job-run:{row.pk}" if newest else f"job-run:{row.pk} job:{row.pk}",
    }


def _files(job: TrainingJob, by: Access, at: datetime) -> JobFiles | None:
    """Return the files that are shown and counted, or None where there is nothing to say of them."""
    files = job_files(job, by, at, most=COUNTED_FILES)
    return files if files.is_told else None


def _query(request: AccessRequest, **others: str) -> str:
    """Return the present query of the log with other values for some fields; one that is empty is left out."""
    query = request.GET.copy()
    for name, value in {"part": "", **others}.items():
        query.pop(name, None)
        if value:
            query[name] = value
    return f"?{query.urlencode()}"


@require_safe
@requires(Permission.JOBS_VIEW)
def job_log(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponseBase:
    """Send the whole log as a file: that of the run that `?run=` names, or of the newest."""
    row, number = get_object_or_404(TrainingJob, pk=pk), LogForm(request.GET).run()
    its = run_numbered(row, numbered_runs(row, job_runs(row)), number)
    if isinstance(its, Refused):
        raise Http404
    lines = log_whole(its.run) if its else iter(())
    return file_download(request, log_name(pk, number), "text/plain; charset=utf-8", lines)


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
    """Show what would happen, or cancel the job where the form is posted. If it costs more by then, show that."""
    row = get_object_or_404(TrainingJob.objects.select_related("pool"), pk=pk)
    if request.method != "POST":
        preview = cancel_preview(row, timezone.now())
        tenant = open_tenant(request)
        frame = frame_in(request.access, tenant, row.pool)
        context = {"tenant": tenant, "pool": row.pool, "frame": frame, "job": row, "preview": preview}
        return render(request, "jobs/job_cancel.html", context)
    most = costs_shown(request.POST.get("costs"))
    outcome = cancellation.job_cancel(job_id=row.pk, by=request.access, at=timezone.now(), most=most)
    tell(request, outcome, f"{row.name} is cancelled.")
    costs_more = isinstance(outcome, Refused) and outcome.code == COSTS_MORE
    return redirect("job_cancel" if costs_more else "job", tenant_slug, row.pk)


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
