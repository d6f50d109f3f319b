"""The pages of what-if questions: asking about an interval, and following, reading and cancelling a question.

The same pages are in a tenant, about its own jobs, and over all tenants, for the staff.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.cluster import pool_list
from scheduling.cluster.pages.pools import pool_asked
from scheduling.models import Interval, Pool, ResourceKind
from scheduling.what_if.asking import what_if_cancel, what_if_read, what_if_start, what_ifs_newest
from scheduling.what_if.otherwise import Misasked
from scheduling.what_if.pages.form import OtherwiseForm, QuestionChoice, choice_of, field_choices, number_of
from scheduling.what_if.pages.rows import QuestionRow, WhatIfPlaces, answer_of
from scheduling.what_if.read_jobs import IntervalAsked, interval_asked, jobs_named, last_decided
from scheduling.what_if.seen import WhatIfSeen
from tenants.access import AccessRequest, Refused
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.views.gate import costly, posted_from, requires, tell
from tenants.views.parts import part_or_page

FRAMES = {True: "base.html", False: "operator/base.html"}  # whether in a tenant, or over all
NO_INTERVAL = "There is no such interval in this pool."
NOT_HERE = Misasked("did_not_wait", "That job was not among those that this interval decided about.", "job")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def _ask(request: AccessRequest, pool_slug: str, number: int, tenant_slug: str = "") -> HttpResponse:
    """Show the form for what `?job=` and `?field=` name. A POST says what would have been reported instead, and
    asks."""
    pool = get_object_or_404(Pool, slug=pool_slug)
    parameters = request.POST if request.method == "POST" else request.GET
    interval = interval_asked(pool, number, tenant=request.access.tenant, job=number_of(parameters))
    if interval is None:
        raise Http404
    choice = choice_of(interval, parameters)
    kinds = list(ResourceKind.objects.filter(pool=pool))
    if request.method != "POST" or not choice.is_found:
        refused = None if choice.is_found else NOT_HERE
        return _asking(request, pool, interval, OtherwiseForm(choice, kinds=kinds), refused=refused)
    return _start(request, pool, interval, OtherwiseForm(choice, request.POST, kinds=kinds))


def _start(request: AccessRequest, pool: Pool, question: IntervalAsked, form: OtherwiseForm) -> HttpResponse:
    choice: QuestionChoice = form.choice
    if choice.job is None or not form.is_valid():
        return _asking(request, pool, question, form, status=422)
    with costly(request) as refused:
        outcome = refused or what_if_start(
            pool_id=pool.pk,
            number=question.interval.number,
            job_id=choice.job.id,
            field=choice.field,
            value=form.said_instead(),
            by=request.access,
            at=timezone.now(),
        )
    if isinstance(outcome, WhatIfSeen):
        return redirect(WhatIfPlaces(request.access.tenant).question(outcome.id))
    return _asking(request, pool, question, form, refused=outcome)


def _asking(
    request: AccessRequest,
    pool: Pool,
    question: IntervalAsked,
    form: OtherwiseForm,
    *,
    refused: Refused | None = None,
    status: int = 200,
) -> HttpResponse:
    about = refused.field if isinstance(refused, Misasked) else ""
    if refused and about == "value":
        form.complain(refused)
    instead = refused.interval if isinstance(refused, Misasked) else None
    places = WhatIfPlaces(request.access.tenant)
    context = _frame(request) | {
        "pool": pool,
        "found": question,
        "number": question.interval.number,
        "before": places.ask(pool, question.before) if question.before else "",
        "after": places.ask(pool, question.after) if question.after else "",
        "interval_url": places.interval(pool, question.interval.number),
        "form": form,
        "chosen": form.choice,
        "fields": field_choices(),
        "refused": refused,
        "about": about,
        "instead_url": places.ask(pool, instead) if instead else "",
        "instead": instead,
    }
    page = part_or_page(request, "what_if/what_if_ask.html", {"otherwise": "what_if/what_if_otherwise.html"}, context)
    page.status_code = 422 if refused else status
    return page


@never_cache
@require_safe
def _questions(request: AccessRequest, tenant_slug: str = "") -> HttpResponse:
    """List the reader's questions. `?pool=` and `?interval=` redirect to asking about that interval."""
    tenant, pools = request.access.tenant, pool_list()
    pool = pool_asked(request, pools)
    wanted = request.GET.get("interval", "").strip()
    if pool is not None and wanted and _is_there(pool, wanted):
        return redirect(WhatIfPlaces(tenant).ask(pool, int(wanted)))
    questions = what_ifs_newest(by=request.access, at=timezone.now())
    rows = _rows(questions, tenant)
    context = _frame(request) | {
        "pool": pool,
        "pools": pools,
        "rows": rows,
        "wanted": wanted or (last_decided(pool, tenant=tenant) if pool else None),
        "error": NO_INTERVAL if wanted else "",
        "is_open": any(row.view.is_open for row in rows),
    }
    return part_or_page(request, "what_if/what_ifs.html", {"list": "what_if/what_ifs_list.html"}, context)


def _is_there(pool: Pool, number: str) -> bool:
    plain = number.isascii() and number.isdigit() and len(number) < 10
    return plain and Interval.objects.filter(pool=pool, number=int(number)).exists()


@never_cache
@require_safe
def _question(request: AccessRequest, pk: int, tenant_slug: str = "") -> HttpResponse:
    answer = what_if_read(what_if_id=pk, by=request.access, at=timezone.now())
    if isinstance(answer, Refused):
        raise Http404(answer.sentence)
    tenant = request.access.tenant
    named = [answer.job_id, *(row.job for row in (answer.result.jobs if answer.result else ()) if row.job)]
    names = jobs_named(named, tenant=tenant)
    question = _rows([answer], tenant, names)[0]
    labels = dict(ResourceKind.objects.filter(pool=answer.pool_id).values_list("name", "label"))
    context = _frame(request) | {
        "question": question,
        "seen": answer,
        "pool": question.pool,
        "answer": answer_of(question, names, labels),
    }
    return part_or_page(request, "what_if/what_if.html", {"state": "what_if/what_if_state.html"}, context)


@posted_from("tenant_what_if", "what_if")
def _cancel(request: AccessRequest, pk: int, tenant_slug: str = "") -> HttpResponse:
    outcome = what_if_cancel(what_if_id=pk, by=request.access, at=timezone.now())
    if isinstance(outcome, Refused) and outcome.code == "unknown_what_if":
        raise Http404(outcome.sentence)
    if isinstance(outcome, Refused):
        messages.error(request, outcome.sentence)
    else:
        tell(request, outcome, "The question is called off.")
    return redirect(WhatIfPlaces(request.access.tenant).question(pk))


def _rows(
    answers: Sequence[WhatIfSeen], tenant: Tenant | None, names: dict[int, tuple[str, str]] | None = None
) -> list[QuestionRow]:
    jobs = jobs_named([row.job_id for row in answers], tenant=tenant) if names is None else names
    pools = Pool.objects.in_bulk({row.pool_id for row in answers})
    return [QuestionRow(row, pools[row.pool_id], *jobs[row.job_id], tenant) for row in answers]


def _frame(request: AccessRequest) -> dict[str, Any]:
    tenant = request.access.tenant
    return {"tenant": tenant, "frame_template": FRAMES[tenant is not None], "places": WhatIfPlaces(tenant)}


tenant_what_if_ask, what_if_ask = (requires(right)(_ask) for right in (Permission.JOBS_VIEW, Permission.FAIRNESS_VIEW))
tenant_what_ifs = requires(Permission.JOBS_VIEW)(_questions)
what_ifs = requires(Permission.FAIRNESS_VIEW)(_questions)
tenant_what_if = requires(Permission.JOBS_VIEW)(_question)
what_if = requires(Permission.FAIRNESS_VIEW)(_question)
tenant_what_if_cancel = requires(Permission.JOBS_VIEW)(_cancel)
what_if_cancelled = requires(Permission.FAIRNESS_VIEW)(_cancel)
