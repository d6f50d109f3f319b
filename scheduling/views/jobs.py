"""The list of jobs: filters, pages, export, saved views, and several cancelled at once."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from scheduling.selectors.jobs_list import (
    jobs_chosen,
    jobs_rows,
    jobs_summary,
    row_view,
    saved_views,
    with_awards,
)
from scheduling.services import saved_views as views
from scheduling.services.cancel_preview import CancelPreview, cancel_previews
from scheduling.services.cancellation import job_cancel
from scheduling.views.jobs_form import JOBS, JOBS_EXPORT, JobsForm
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires, tell
from tenants.views.parts import part_or_page
from tenants.views.tables import asks_csv, csv_response, table_of

PARTS = {"jobs": "scheduling/jobs_list.html"}
MOST_AT_ONCE = 100


@require_safe
@requires(Permission.JOBS_VIEW)
def tenant_jobs(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    form = JobsForm(request.GET)
    question = form.question()
    rows = with_awards(jobs_rows(question, request.access.user))
    if asks_csv(request):
        return csv_response(request, rows, JOBS_EXPORT)
    table = table_of(request, rows, JOBS)
    context = {
        "tenant": open_tenant(request),
        "form": form,
        "question": question,
        "table": table,
        "rows": [(row, row_view(row)) for row in table.rows],
        "summary": jobs_summary(),
        "saved": saved_views(request.access.user),
        "here": request.GET.urlencode(),
        "part_url": _part_url(request),
    }
    return part_or_page(request, "scheduling/jobs.html", PARTS, context)


def _part_url(request: AccessRequest) -> str:
    query = request.GET.copy()
    query["part"] = "jobs"
    return f"?{query.urlencode()}"


@never_cache
@require_POST
@requires(Permission.JOBS_CANCEL)
def jobs_cancel(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """First what would happen to each, then, confirmed, the cancellations one by one: one that fails stops none."""
    ids = [int(each) for each in request.POST.getlist("job") if each.isdecimal() and len(each) < 19][:MOST_AT_ONCE]
    chosen, at = jobs_chosen(ids), timezone.now()
    if not chosen:
        messages.error(request, "Choose the jobs to cancel first; nothing was changed.")
        return redirect("tenant_jobs", tenant_slug)
    if "confirmed" not in request.POST:
        return _confirm(request, cancel_previews(chosen, at))
    outcomes = [(job, job_cancel(job_id=job.pk, by=request.access, at=at)) for job in chosen]
    refused = [f"{job.name}: {outcome.sentence}" for job, outcome in outcomes if isinstance(outcome, Refused)]
    done = len(outcomes) - len(refused)
    if done:
        messages.success(request, f"{done} job{'' if done == 1 else 's'} cancelled.")
    for sentence in refused:
        messages.error(request, sentence)
    return redirect("tenant_jobs", tenant_slug)


def _confirm(request: AccessRequest, previews: list[CancelPreview]) -> HttpResponse:
    sums = {name: sum(getattr(each, name) for each in previews) for name in ("returned", "kept", "still_paid")}
    possible = sum(each.possible for each in previews)
    context: dict[str, Any] = {"tenant": open_tenant(request), "previews": previews, "sums": sums, "possible": possible}
    return render(request, "scheduling/jobs_cancel.html", context)


@require_POST
@requires(Permission.JOBS_VIEW)
def view_save(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    query = request.POST.get("query", "")
    outcome = views.view_save(name=request.POST.get("name", ""), query=query, by=request.access)
    tell(request, outcome, "The view is saved.")
    return redirect(f"{reverse('tenant_jobs', args=[tenant_slug])}?{query}")


@require_POST
@requires(Permission.JOBS_VIEW)
def view_remove(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    outcome = views.view_remove(view_id=pk, by=request.access)
    tell(request, outcome, f"The view {outcome} is removed.")
    return redirect("tenant_jobs", tenant_slug)
