"""The pages of studies. The staff makes, starts, follows and reads them; the owners that they are about may read
them."""

from __future__ import annotations

from datetime import UTC, timedelta
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.cluster import pool_list
from scheduling.lab.choices import choices_study, windows_study
from scheduling.lab.pages.form import StudyForm
from scheduling.lab.read_studies import percent_done, rules_of, studies_ahead, studies_of_owner, studies_of_staff
from scheduling.lab.requests import (
    FIGURES,
    MOST_BYTES,
    MOST_MINUTES,
    REPORT,
    file_bytes,
    file_pieces,
    page_of,
    study_cancel,
    study_create,
    study_remove,
    study_resume,
    study_show,
    study_start,
)
from scheduling.models import STUDY_AT_WORK, STUDY_OPEN, LabFile, LabStudy, Pool, StudyState
from tenants.access import AccessRequest, Refused
from tenants.common.downloads import file_download
from tenants.common.zones import day_of
from tenants.requests.uploads import PARAMETER, ticket_for
from tenants.roles import Permission
from tenants.views.gate import costly, open_tenant, posted_from, requires, tell
from tenants.views.parts import part_or_page

DAYS = 30  # days that the form begins with
MOST_LISTED = 200
FILES = {"report": (REPORT, "text/html; charset=utf-8"), "figures": (FIGURES, "text/csv; charset=utf-8")}
DONE = {
    study_start: "The study begins.",
    study_cancel: "The study is called off. What is done is kept; it can go on.",
    study_resume: "The study goes on.",
}


@never_cache
@require_safe
@requires(Permission.FAIRNESS_VIEW)
def lab(request: AccessRequest) -> HttpResponse:
    rows = list(studies_of_staff()[:MOST_LISTED])
    context = {"rows": rows, "is_open": any(row.state in STUDY_AT_WORK for row in rows)}
    return part_or_page(request, "lab/lab.html", {"list": "lab/lab_list.html"}, context)


MOST_SENT = MOST_BYTES + (1 << 20)  # the files of a study, and the form's other fields


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.AUDITS_ASK)
def lab_new(request: AccessRequest) -> HttpResponse:
    """Show the form, or create the study that it asks for."""
    pools = pool_list()
    if request.method != "POST":
        last = day_of(timezone.now(), UTC)
        form = StudyForm(pools=pools, initial={"first": last - timedelta(days=DAYS - 1), "last": last, "zone": "UTC"})
        return _form(request, form)
    form = StudyForm(request.POST, request.FILES, pools=pools)
    if form.is_valid():
        first_at, last_at = form.period
        with costly(request) as refused:
            outcome = refused or study_create(
                document=form.study,
                files=form.uploads,
                pool=form.chosen_pool,
                first_at=first_at if form.chosen_pool else None,
                last_at=last_at if form.chosen_pool else None,
                by=request.access,
                at=timezone.now(),
            )
        if isinstance(outcome, LabStudy):
            return redirect("lab_study", outcome.pk)
        form.add_error(None, outcome.sentence)
    return _form(request, form, status=422)


def _form(request: AccessRequest, form: StudyForm, status: int = 200) -> HttpResponse:
    """Show the form with the address that accepts a log, which is longer than anything else that is sent."""
    action = f"{reverse('lab_new')}?{urlencode({PARAMETER: ticket_for(request.access, MOST_SENT)})}"
    return render(request, "lab/lab_new.html", {"form": form, "action": action}, status=status)


@posted_from("operator_pool")
@requires(Permission.AUDITS_ASK)
def lab_choices(request: AccessRequest, slug: str) -> HttpResponse:
    """Create the study that the page of a pool offers: its last days under each choice of plan, price and dividend, or
    in short and long windows with and without pieces."""
    pool = get_object_or_404(Pool, slug=slug)
    study = windows_study if request.POST.get("about") == "windows" else choices_study
    with costly(request) as refused:
        outcome = refused or study(pool=pool, by=request.access, at=timezone.now())
    if isinstance(outcome, LabStudy):
        return redirect("lab_study", outcome.pk)
    messages.error(request, outcome.sentence)
    return redirect("operator_pool", slug)


@never_cache
@require_safe
@requires(Permission.FAIRNESS_VIEW)
def lab_study(request: AccessRequest, pk: int) -> HttpResponse:
    study = get_object_or_404(LabStudy.objects.select_related("pool", "asked_by"), pk=pk)
    body = file_bytes(study.pk, page_of(None)) if study.state == StudyState.DONE else None
    context = {
        "study": study,
        "rules": rules_of(study),
        "is_at_work": study.state in STUDY_AT_WORK,
        "is_open": study.state in STUDY_OPEN,
        "ahead": studies_ahead(study),
        "percent": percent_done(study),
        "is_long": (study.minutes or 0.0) > MOST_MINUTES,
        "body": mark_safe((body or b"").decode()),  # noqa: S308  written by the report, which escapes all names
    }
    return part_or_page(request, "lab/study.html", {"state": "lab/study_state.html"}, context)


@posted_from("lab_study")
@requires(Permission.AUDITS_ASK)
def lab_started(request: AccessRequest, pk: int) -> HttpResponse:
    return _changed(request, pk, study_start(study_id=pk, by=request.access, at=timezone.now()), DONE[study_start])


@posted_from("lab_study")
@requires(Permission.AUDITS_ASK)
def lab_called_off(request: AccessRequest, pk: int) -> HttpResponse:
    return _changed(request, pk, study_cancel(study_id=pk, by=request.access, at=timezone.now()), DONE[study_cancel])


@posted_from("lab_study")
@requires(Permission.AUDITS_ASK)
def lab_resumed(request: AccessRequest, pk: int) -> HttpResponse:
    return _changed(request, pk, study_resume(study_id=pk, by=request.access, at=timezone.now()), DONE[study_resume])


@posted_from("lab_study")
@requires(Permission.AUDITS_ASK)
def lab_shown(request: AccessRequest, pk: int) -> HttpResponse:
    is_shown = request.POST.get("shown") == "yes"
    sentence = "Its owners can read it now, each with the others unnamed." if is_shown else "Its owners cannot read it."
    outcome = study_show(study_id=pk, is_shown=is_shown, by=request.access, at=timezone.now())
    return _changed(request, pk, outcome, sentence)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.AUDITS_ASK)
def lab_remove(request: AccessRequest, pk: int) -> HttpResponse:
    """Say what goes with the study, or remove it where the form is posted."""
    if request.method != "POST":
        return render(request, "lab/lab_remove.html", {"study": get_object_or_404(LabStudy, pk=pk)})
    outcome = study_remove(study_id=pk, by=request.access, at=timezone.now())
    if isinstance(outcome, Refused):
        raise Http404(outcome.sentence)
    messages.success(request, "The study is removed.")
    return redirect("lab")


def _changed(request: AccessRequest, pk: int, outcome: LabStudy | Refused, sentence: str) -> HttpResponse:
    if isinstance(outcome, Refused) and outcome.code == "unknown_study":
        raise Http404(outcome.sentence)
    tell(request, outcome, sentence)
    return redirect("lab_study", pk)


@require_safe
@requires(Permission.FAIRNESS_VIEW)
def lab_file(request: AccessRequest, pk: int, what: str) -> HttpResponseBase:
    file = study_file(request, pk, what)
    if file is None:
        raise Http404
    return file


def study_file(request: HttpRequest, pk: int, what: str) -> HttpResponseBase | None:
    """Return the report or the figures of a study that is done, as a download."""
    name, media = FILES[what]
    if not LabFile.objects.filter(study=pk, name=name, study__state=StudyState.DONE).exists():
        return None
    answer = file_download(request, f"study-{pk}-{name}", media, file_pieces(pk, name))
    answer["Cache-Control"] = "no-store"
    return answer


@never_cache
@require_safe
@requires(Permission.LEDGER_VIEW)
def tenant_lab(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show the studies that the staff shows to the owners."""
    tenant = open_tenant(request)
    rows = list(studies_of_owner(tenant).defer("document")[:MOST_LISTED])
    return render(request, "lab/tenant_lab.html", {"tenant": tenant, "rows": rows})


@never_cache
@require_safe
@requires(Permission.LEDGER_VIEW)
def tenant_lab_study(request: AccessRequest, pk: int, tenant_slug: str) -> HttpResponse:
    """Show a study with the owner's own row, and the others without names."""
    tenant = open_tenant(request)
    study = get_object_or_404(studies_of_owner(tenant), pk=pk)
    body = file_bytes(study.pk, page_of(tenant.slug))
    if body is None:
        raise Http404
    context = {"tenant": tenant, "study": study, "body": mark_safe(body.decode())}  # noqa: S308  as above
    return render(request, "lab/tenant_study.html", context)
