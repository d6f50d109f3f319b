"""Submit a job: the form, the quote beside it, and the submission, once for each form that was opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from scheduling import selectors
from scheduling.models import Pool, ResourceKind
from scheduling.services.jobs import InvalidJob, Submitted
from scheduling.services.submission import job_submit_as_wanted
from scheduling.views.servers import pool_chosen
from scheduling.views.submit_form import FORM, TEXT, JobForm, field_of, form_values
from scheduling.views.submit_opening import new_key, opening, presets
from scheduling.views.submit_program import program_choices
from scheduling.views.submit_quote import QuoteCard, quote_card
from scheduling.views.submit_text import LONGEST, BadText, read_job
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires


@dataclass(frozen=True)
class Asked:
    """What a valid form asks for."""

    name: str
    wanted: str
    spec: Mapping[str, Any]


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.JOBS_SUBMIT)
def job_submit(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """`?from=ID`: begin with an earlier job. POST: `apply` and `quote` only show the page again.

    It opens without a quote, which asks more than a page may: the browser fetches it, or the reader presses a button.
    """
    pool = pool_chosen(selectors.pool_list(), request.POST.get("pool") or request.GET.get("pool"))
    if pool is None:
        return render(request, "scheduling/servers_none.html")
    at, kinds = timezone.now(), list(ResourceKind.objects.filter(pool=pool))
    if request.method != "POST":
        form = JobForm(opening(pool, kinds, source=request.GET.get("from")), kinds=kinds)
        return _page(request, pool, form, None)
    return _posted(request, pool, kinds, at)


def _posted(request: AccessRequest, pool: Pool, kinds: list[ResourceKind], at: datetime) -> HttpResponse:
    data = request.POST.copy()
    applied = data.get("apply")
    for name, value in _changes(applied).items():
        data[name] = str(value)
    form = JobForm(data, request.FILES, kinds=kinds)
    asked = _asked(form)
    if asked is None:
        return _page(request, pool, form, QuoteCard(at, at), status=200 if applied else 422)
    if "show" in data and (values := form_values(asked.spec, kinds)) is not None:
        values |= {"name": asked.name, "wanted": asked.wanted, "source": FORM, "key": data["key"]}
        form = JobForm(values, kinds=kinds)
        return _page(request, pool, form, _card(request, pool, asked, at))
    if "show" in data:
        form.add_error("text", "It says things that the form has no field for. Submit it as it is.")
        return _page(request, pool, form, _card(request, pool, asked, at), status=422)
    if applied is not None or "quote" in data:
        return _quoted(request, pool, form, asked, at)
    return _submitted(request, pool, form, asked, at)


def _quoted(request: AccessRequest, pool: Pool, form: JobForm, asked: Asked, at: datetime) -> HttpResponse:
    card = _card(request, pool, asked, at)
    if card.refused:
        _complain(form, card.refused)
    return _page(request, pool, form, card, status=422 if card.refused else 200)


def _submitted(request: AccessRequest, pool: Pool, form: JobForm, asked: Asked, at: datetime) -> HttpResponse:
    outcome = job_submit_as_wanted(
        pool=pool,
        name=asked.name,
        spec=asked.spec,
        wanted=asked.wanted,
        by=request.access,
        at=at,
        client_key=f"form:{form.cleaned_data['key']}",
    )
    if isinstance(outcome, Submitted):
        return redirect("job", open_tenant(request).slug, outcome.job.pk)
    _complain(form, outcome)
    return _page(request, pool, form, QuoteCard(at, at), status=422)


@never_cache
@require_POST
@requires(Permission.QUOTES_MAKE)
def job_quote(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """The quote for the form as it stands, alone."""
    pool = pool_chosen(selectors.pool_list(), request.POST.get("pool"))
    if pool is None:
        return HttpResponse(status=404)
    at, kinds = timezone.now(), list(ResourceKind.objects.filter(pool=pool))
    form = JobForm(request.POST, request.FILES, kinds=kinds)
    asked = _asked(form)
    card = _card(request, pool, asked, at)
    if card.refused:
        _complain(form, card.refused)
    context = {"tenant": open_tenant(request), "pool": pool, "card": card, "form": form, "faults": _faults(form)}
    context["alone"] = True  # the line at the foot of a phone's page comes along
    return render(request, "scheduling/submit_quote.html", context)


def _changes(applied: str | None) -> dict[str, Any]:
    """What a button of the page fills in; it comes back from the browser, so it may be anything."""
    try:
        found = json.loads(applied or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _asked(form: JobForm) -> Asked | None:
    """None: the form's fields say what is missing."""
    if not form.is_valid():
        return None
    found = form.cleaned_data
    if found["source"] == FORM:
        return Asked(found["name"], found["wanted"], form.spec())
    try:
        written_job = read_job(_text(found))
    except BadText as error:
        form.add_error("text", str(error))
        return None
    name = written_job.name or found.get("name") or form.data.get("name", "")
    return Asked(name, written_job.lane or found["wanted"], written_job.spec)


def _text(found: Mapping[str, Any]) -> str:
    file = found.get("file")
    if not file:
        return str(found.get("text", ""))
    if file.size > LONGEST:
        raise BadText(f"The file is longer than {LONGEST // 1024} kB.")
    try:
        return str(file.read().decode())
    except UnicodeDecodeError as error:
        raise BadText("The file is not a text in UTF-8.") from error


def _card(request: AccessRequest, pool: Pool, asked: Asked | None, at: datetime) -> QuoteCard:
    if asked is None:
        return QuoteCard(at, at)
    own = open_tenant(request)
    return quote_card(
        pool=pool, name=asked.name, spec=asked.spec, wanted=asked.wanted, by=request.access, own_id=own.pk, at=at
    )


def _complain(form: JobForm, refused: Refused) -> None:
    """At the field that it is about; a text has only one."""
    if not isinstance(refused, InvalidJob):
        if refused.code == "key_reused":
            form.data = {**form.data, "key": new_key()}
            refused = replace(
                refused, sentence="This form was sent before with other contents. Send it again to submit a second job."
            )
        form.add_error(None, refused.sentence)
        return
    field = (
        "text" if form.cleaned_data["source"] == TEXT else field_of(refused.field, form.cleaned_data.get("program", ""))
    )
    if field == "text":  # begins with a name that is written small
        form.add_error(field, refused.sentence)
        return
    about = refused.sentence.partition(": ")[2] if field else refused.sentence
    form.add_error(field if field in form.fields else None, about[:1].upper() + about[1:])


def _faults(form: JobForm) -> list[dict[str, str]]:
    return [
        {"field": name, "label": str(form.fields[name].label or name).capitalize(), "message": str(errors[0])}
        for name, errors in form.errors.items()
        if name in form.fields
    ]


def _page(request: AccessRequest, pool: Pool, form: JobForm, card: QuoteCard | None, status: int = 200) -> HttpResponse:
    """`card`: None where no quote was asked for yet."""
    tenant, faults = open_tenant(request), _faults(form)
    if faults:
        form.fields[faults[0]["field"]].widget.attrs["autofocus"] = True
    context = {
        "tenant": tenant,
        "pool": pool,
        "pools": selectors.pool_list(),
        "form": form,
        "card": card,
        "presets": presets(pool, form.kinds),
        "programs": program_choices(form),
        "faults": faults,
        "quote_url": reverse("job_quote", args=[tenant.slug]),
    }
    return render(request, "scheduling/submit.html", context, status=status)
