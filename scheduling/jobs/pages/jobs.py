"""The list of jobs: filters, pages, export, saved views, and several cancelled at once."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.cluster import pool_list
from scheduling.jobs import cancellation, saved_views
from scheduling.jobs.cancel_preview import COSTS_MORE, CancelPreview, cancel_previews
from scheduling.jobs.pages.jobs_form import JOBS, JOBS_EXPORT, JOBS_OF_ONE_POOL, JobsForm, costs_shown
from scheduling.jobs.read_arrays import ArraySums, array_by_id, array_sums, jobs_of_array
from scheduling.jobs.read_list import (
    jobs_chosen,
    jobs_folded,
    jobs_rows,
    jobs_summary,
    row_view,
    views_of,
    with_awards,
)
from scheduling.market.pages.context import frame_in, pool_shown
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.views.gate import open_tenant, posted_from, requires, tell
from tenants.views.parts import part_or_page
from tenants.views.tables import asks_csv, csv_response, table_of

PARTS = {"jobs": "jobs/jobs_list.html"}
MOST_AT_ONCE = 100


@require_safe
@requires(Permission.JOBS_VIEW)
def tenant_jobs(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    tenant, pools, person = open_tenant(request), pool_list(), request.access.user
    form = JobsForm(request.GET, pools)
    question = form.question()
    if asks_csv(request):  # each job in a line of its own
        return csv_response(request, with_awards(jobs_rows(question, person)), JOBS_EXPORT)
    # Each array is one row, which opens as the list of its members.
    opened = None if question.array is None else array_by_id(question.array)
    rows = jobs_rows(question, person) if opened else jobs_folded(question, person)
    several = len(pools) > 1
    table = table_of(request, with_awards(rows), JOBS if several else JOBS_OF_ONE_POOL)
    at = timezone.now()
    folded = {} if opened else array_sums({row.array_id for row in table.rows if row.array_id is not None})
    context = {
        "tenant": tenant,
        "frame": frame_in(request.access, tenant, pool_shown(request, pools)),
        "several_pools": several,
        "form": form,
        "question": question,
        "table": table,
        "rows": [(row, row_view(row, at), folded.get(row.array_id)) for row in table.rows],
        "opened": opened,
        "summary": jobs_summary(),
        "saved": views_of(request.access.user),
        "here": request.GET.urlencode(),
        "part_url": _part_url(request),
    }
    return part_or_page(request, "jobs/jobs.html", PARTS, context)


def _part_url(request: AccessRequest) -> str:
    query = request.GET.copy()
    query["part"] = "jobs"
    return f"?{query.urlencode()}"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.JOBS_CANCEL)
def array_cancel(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """Show what would happen or, where the form is posted, cancel all members that are not over, in one act."""
    sums, at = array_by_id(pk), timezone.now()
    if sums is None:
        raise Http404
    if request.method != "POST":
        return _confirm(request, cancel_previews(jobs_of_array(pk), at), sums)
    most = costs_shown(request.POST.get("costs"))
    outcome = cancellation.array_cancel(array_id=pk, by=request.access, at=at, most=most)
    tell(request, outcome, f"{outcome} job{'' if outcome == 1 else 's'} cancelled.")
    if isinstance(outcome, Refused) and outcome.code == COSTS_MORE:
        return redirect("array_cancel", tenant_slug, pk)
    return redirect(f"{reverse('tenant_jobs', args=[tenant_slug])}?array={pk}")


@never_cache
@posted_from("tenant_jobs")
@requires(Permission.JOBS_CANCEL)
def jobs_cancel(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show what would happen to each job and, once confirmed, cancel them one by one: one that fails stops no other."""
    ids = [int(each) for each in request.POST.getlist("job") if each.isdecimal() and len(each) < 19][:MOST_AT_ONCE]
    jobs, at = jobs_chosen(ids), timezone.now()
    if not jobs:
        messages.error(request, "Choose the jobs to cancel first; nothing was changed.")
        return redirect("tenant_jobs", tenant_slug)
    if "confirmed" not in request.POST:
        return _confirm(request, cancel_previews(jobs, at))
    most = {job.pk: costs_shown(request.POST.get(f"costs-{job.pk}")) for job in jobs}
    outcomes = [
        (job, cancellation.job_cancel(job_id=job.pk, by=request.access, at=at, most=most[job.pk])) for job in jobs
    ]
    refused = [f"{job.name}: {outcome.sentence}" for job, outcome in outcomes if isinstance(outcome, Refused)]
    done = len(outcomes) - len(refused)
    if done:
        messages.success(request, f"{done} job{'' if done == 1 else 's'} cancelled.")
    for sentence in refused:
        messages.error(request, sentence)
    return redirect("tenant_jobs", tenant_slug)


def _confirm(request: AccessRequest, previews: list[CancelPreview], array: ArraySums | None = None) -> HttpResponse:
    sums = {name: sum(getattr(each, name) for each in previews) for name in ("returned", "kept", "still_paid", "costs")}
    possible = sum(each.possible for each in previews)
    context: dict[str, Any] = {"tenant": open_tenant(request), "sums": sums, "possible": possible, "array": array}
    context |= {"previews": previews[:MOST_AT_ONCE], "rest": max(len(previews) - MOST_AT_ONCE, 0)}
    return render(request, "jobs/jobs_cancel.html", context)


@posted_from("tenant_jobs")
@requires(Permission.JOBS_VIEW)
def view_save(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    query = request.POST.get("query", "")
    outcome = saved_views.view_save(name=request.POST.get("name", ""), query=query, by=request.access)
    tell(request, outcome, "The view is saved.")
    return redirect(f"{reverse('tenant_jobs', args=[tenant_slug])}?{query}")


@posted_from("tenant_jobs")
@requires(Permission.JOBS_VIEW)
def view_remove(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    outcome = saved_views.view_remove(view_id=pk, by=request.access)
    tell(request, outcome, f"The view {outcome} is removed.")
    return redirect("tenant_jobs", tenant_slug)
