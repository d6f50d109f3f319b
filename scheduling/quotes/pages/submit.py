"""The page that submits a job: the form, the quote beside it, and the submission, once for each form that was
opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from scheduling.catalogue import ArchiveRead, archive_read
from scheduling.cluster import pool_list
from scheduling.cluster.pages.pools import pool_asked, pool_chosen
from scheduling.common import BadText, as_sentence
from scheduling.jobs import (
    InvalidJob,
    JobWording,
    NotUnderstood,
    Submitted,
    SubmittedArray,
    array_describe,
    is_array,
    job_describe,
    job_understood,
)
from scheduling.jobs import job_submit as submission
from scheduling.market.pages.context import frame_in
from scheduling.market.view import SpecRead, for_the_core, gives_floors
from scheduling.models import PROGRAM, Lane, Pool, ResourceKind, TrainingJob
from scheduling.programs.catalogue import LONGEST_SCRIPT
from scheduling.quotes.pages.submit_catalogue import named, offered_programs, parameter_card, with_named
from scheduling.quotes.pages.submit_form import (
    FORM,
    PLAIN,
    TABS,
    TEXT,
    WANTED,
    JobForm,
    field_of,
    form_values,
    worth_help,
)
from scheduling.quotes.pages.submit_hours import (
    HOURS,
    SCRIPT,
    ToldCard,
    complaints,
    field_in_hours,
    in_words,
    lines_of,
    lines_refused,
    said_in,
    values_in_hours,
    yardstick,
)
from scheduling.quotes.pages.submit_opening import gpus_here, job_named, new_key, opening, presets
from scheduling.quotes.pages.submit_program import program_choices
from scheduling.quotes.pages.submit_quote import QuoteCard, quote_card
from scheduling.quotes.pages.submit_text import LONGEST, job_text, read_job
from tenants.access import AccessRequest, Refused
from tenants.ledger.amounts import amount_read
from tenants.requests.uploads import PARAMETER, ticket_for
from tenants.roles import Permission
from tenants.views.gate import costly, open_tenant, posted_from, requires

FORM_BUTTON = "1"  # the value of the button beside a text
NOTHING_TOLD = ToldCard()
NO_ARRAY = InvalidJob("invalid_job", "together: the script has no --array, so it is one job.", "together")
NOT_KEPT_FILE = "The files that come along have to be chosen again: a page that is shown anew has lost them."
NOT_CARRIED = "What stood there cannot be said here, and was not carried over. It still stands where it was."


@dataclass(frozen=True)
class FormRequest:
    """What a valid form asks for, in the words of a submission."""

    name: str
    lane: str
    otherwise: str | None
    spec: Mapping[str, Any]
    meaning: ToldCard = NOTHING_TOLD
    wording: JobWording | None = None  # where the job is in hours, or a script
    read: SpecRead | None = None  # of a job in hours, as it was just checked
    worth_from: datetime | None = None  # from when its worth counts at the latest, where it names a moment

    @property
    def wanted(self) -> str:
        """Return the form's word for the lanes. A text may ask for lanes that do not exist: the service says so."""
        return next((word for word, lanes in WANTED.items() if lanes == (self.lane, self.otherwise)), "")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.JOBS_SUBMIT)
def job_submit(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show the form, or submit it. `?from=ID` begins with an earlier job, with the changes of `apply`; `&part=help`
    shows what would help that job. `?program=CHOICE` begins with a program of the catalogue. In a POST, `apply` and
    `quote` only show the page again.

    The page opens without a quote, which asks more of the server than a page may: the browser fetches it, or the reader
    presses a button.
    """
    job = job_named(request.GET.get("from")) if request.method != "POST" else None
    named_pool = request.POST.get("pool") or (job.pool.slug if job and not request.GET.get("pool") else None)
    pool = pool_chosen(pool_list(), named_pool) if named_pool else pool_asked(request, pool_list())
    if pool is None:
        return render(request, "market/no_pool.html", {"heading": "Submit a job"})
    at, kinds = timezone.now(), list(ResourceKind.objects.filter(pool=pool))
    if job is not None and request.GET.get("part") == "help":
        return _help(request, pool, job, at)
    if request.method != "POST":
        tenant, program = open_tenant(request), request.GET.get("program", "")
        programs = with_named(offered_programs(tenant.pk), job.spec.get(PROGRAM) if job else named(program), tenant.pk)
        tab, reader, gpus = request.GET.get("by"), request.access, gpus_here(tenant, pool, kinds)
        data = opening(
            pool, kinds, gpus=gpus, job=job, by=tab, reader=reader, at=at, programs=programs, program=program
        )
        if (changes := _changes(request.GET.get("apply"))) and data["source"] != TEXT:
            data |= {"source": FORM} | {name: str(value) for name, value in changes.items()}
        return _page(request, pool, JobForm(data, kinds=kinds, programs=programs), None)
    return _posted(request, pool, kinds, at)


def _help(request: AccessRequest, pool: Pool, job: TrainingJob, at: datetime) -> HttpResponse:
    """Show what would help the job in its lane, if it came now."""
    own_pool, since = job.pool, job.worth_from
    worth_from = None if since is None else own_pool.epoch_at + timedelta(seconds=own_pool.slot_seconds * since)
    question = FormRequest(job.name, job.lane, None, for_the_core(job.spec), worth_from=worth_from)
    card = _card(request, pool, question, at)
    lane = next((each for each in card.lanes if each.lane == job.lane), None)
    again = f"{reverse('job_submit', args=[open_tenant(request).slug])}?from={job.pk}"
    fill = lane.change.fill if lane and lane.change else ""
    context = {
        "job": job,
        "refused": card.refused,
        "lane": lane,
        "again": again,
        "change_url": f"{again}&{urlencode({'apply': fill})}" if fill else "",
    }
    return render(request, "quotes/job_help.html", context)


def _posted(request: AccessRequest, pool: Pool, kinds: list[ResourceKind], at: datetime) -> HttpResponse:
    data = request.POST.copy()
    data["brings"] = ""  # the archive came with this request, and the page that answers has lost it
    applied = data.get("apply")
    for name, value in _changes(applied).items():
        data[name] = str(value)
    form = _form(request, data, kinds)
    question, card = _request_and_card(request, pool, form, at)
    target = data.get("show")
    if target is not None and target != form["source"].value() and (question is not None or target != FORM_BUTTON):
        return _carried(request, pool, form, question, target, at)
    if question is None:
        return _page(request, pool, form, QuoteCard(at, at), card, status=200 if applied else 422)
    if applied is not None or "quote" in data:
        return _quoted(request, pool, form, question, at)
    return _submitted(request, pool, form, question, at)


def _form(request: AccessRequest, data: Any, kinds: list[ResourceKind]) -> JobForm:
    problem, tenant_id = _take_file(data, request), open_tenant(request).pk
    programs = offered_programs(tenant_id)
    for field in ("runs", "program"):  # an earlier version, or one that was the newest when the page was opened
        programs = with_named(programs, named(data.get(field, "")), tenant_id)
    form = JobForm(data, request.FILES, kinds=kinds, programs=programs)
    if problem:
        form.add_error("script_file", problem)
    return form


def _take_file(data: Any, request: AccessRequest) -> str:
    """Copy a script that came as a file into the form, so that the page that answers still has it. Return a sentence
    where it cannot be copied."""
    file = request.FILES.get("script_file")
    if not file or data.get("source") != SCRIPT:
        return ""
    if (file.size or 0) > LONGEST_SCRIPT:
        return f"The file is longer than {LONGEST_SCRIPT // 1024} kB."
    try:
        data["script"] = file.read().decode()
    except UnicodeDecodeError:
        return "The file is not a text in UTF-8."
    return ""


def _carried(
    request: AccessRequest, pool: Pool, form: JobForm, form_request: FormRequest | None, target: str, at: datetime
) -> HttpResponse:
    """Show the page on another tab, with the contents of the form translated. What cannot be said there stays
    behind."""
    target = FORM if target == FORM_BUTTON else target
    named_there = None if form_request is None else form_request.spec.get(PROGRAM)
    form.programs = with_named(form.programs, named_there, open_tenant(request).pk)
    values = None if form_request is None else _values_for(target, pool, form, form_request, at)
    data = dict(form.data.items()) | {"source": target} | (values or {})
    if form_request is not None and values is not None:
        data |= {"name": form_request.name} | ({"wanted": form_request.wanted} if form_request.wanted else {})
    if values is None and form["source"].value() == TEXT and form_request is not None and target == FORM:
        form.add_error("text", "It says things that the form has no field for. Submit it as it is.")
        return _page(request, pool, form, _card(request, pool, form_request, at), form_request.meaning, status=422)
    after = JobForm(data, kinds=form.kinds, programs=form.programs)
    again, card = _request_and_card(request, pool, after, at)
    note = "" if values is not None or target == SCRIPT else NOT_CARRIED
    return _page(request, pool, after, _card(request, pool, again, at), card, note=note)


def _values_for(
    target: str, pool: Pool, form: JobForm, form_request: FormRequest, at: datetime
) -> dict[str, Any] | None:
    if target == TEXT:
        return {"text": job_text(form_request.name, form_request.lane, form_request.spec, form_request.otherwise)}
    if target == HOURS:
        return values_in_hours(form_request.spec, float(pool.slot_seconds), at, form.programs)
    values = form_values(form_request.spec, form.kinds, exact=True, programs=form.programs) if target == FORM else None
    return None if values is None else dict.fromkeys(PLAIN, "") | {"program": ""} | values


def _quoted(request: AccessRequest, pool: Pool, form: JobForm, form_request: FormRequest, at: datetime) -> HttpResponse:
    card = _card(request, pool, form_request, at)
    if card.refused:
        _complain(form, card.refused)
    return _page(request, pool, form, card, form_request.meaning, status=422 if card.refused else 200)


def _submitted(
    request: AccessRequest, pool: Pool, form: JobForm, form_request: FormRequest, at: datetime
) -> HttpResponse:
    wish: dict[str, Any] = {
        "pool": pool,
        "by": request.access,
        "at": at,
        "client_key": f"form:{form.cleaned_data['key']}",
    }
    file = form.cleaned_data.get("archive_file")
    upload = {"archive": file.file} if file and form_request.wording and form_request.wording.archive else {}
    if form_request.wording is not None and form_request.lane == Lane.BATCH and is_array(form_request.wording):
        together = bool(form.cleaned_data["together"])
        array = array_describe(wording=form_request.wording, count=None, together=together, **upload, **wish)
        if isinstance(array, SubmittedArray):
            return redirect(f"{reverse('tenant_jobs', args=[open_tenant(request).slug])}?array={array.array.pk}")
        _complain(form, array)
        return _page(request, pool, form, QuoteCard(at, at), form_request.meaning, status=422)
    wish |= {"lane": form_request.lane, "otherwise": form_request.otherwise}
    if form_request.wording is not None:
        if (
            form_request.wording.script is not None
            and form.cleaned_data["together"]
            and not is_array(form_request.wording)
        ):
            _complain(form, NO_ARRAY)
            return _page(request, pool, form, QuoteCard(at, at), form_request.meaning, status=422)
        outcome = job_describe(wording=form_request.wording, **upload, **wish)
    else:
        outcome = submission(name=form_request.name, spec=form_request.spec, **wish)
    if isinstance(outcome, Submitted):
        return redirect("job", open_tenant(request).slug, outcome.job.pk)
    _complain(form, outcome)
    return _page(request, pool, form, QuoteCard(at, at), form_request.meaning, status=422)


@never_cache
@posted_from("job_submit")
@requires(Permission.QUOTES_MAKE)
def job_quote(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show the quote for the form as it stands, without the rest of the page."""
    pool = pool_chosen(pool_list(), request.POST.get("pool", ""))
    at, kinds = timezone.now(), list(ResourceKind.objects.filter(pool=pool))
    data = request.POST.copy()
    form = _form(request, data, kinds)
    question, meaning = _request_and_card(request, pool, form, at)
    card = _card(request, pool, question, at)
    if card.refused:
        _complain(form, card.refused)
    context = {"tenant": open_tenant(request), "pool": pool, "card": card, "form": form, "faults": _faults(form)}
    context["told"] = meaning
    context["alone"] = True  # the line at the foot of a phone's page is sent too, and the parameters of a new choice
    shown_for = data.get("parameters_of")
    if shown_for != (form.chosen_program.choice if form.chosen_program else ""):
        context["parameters"] = parameter_card(form, form.chosen_program, shown_for)
    return render(request, "quotes/submit_quote.html", context)


def _changes(applied: str | None) -> dict[str, Any]:
    """Return what a button of the page fills in. It comes back from the browser, so it may be anything."""
    try:
        changes = json.loads(applied or "{}")
    except (ValueError, RecursionError):
        return {}
    return changes if isinstance(changes, dict) else {}


def _request_and_card(
    request: AccessRequest, pool: Pool, form: JobForm, at: datetime
) -> tuple[FormRequest | None, ToldCard]:
    """Return the request, and what is said of a script. There is no request where the form's fields say what is
    missing; what is said of a script is returned anyway."""
    if not form.is_valid():
        return None, ToldCard()
    answers = form.cleaned_data
    lane, otherwise = WANTED[answers["wanted"]]
    if answers["source"] in (HOURS, SCRIPT):
        return _described(request, pool, form, at)
    question = (
        FormRequest(answers["name"], lane, otherwise, form.spec()) if answers["source"] == FORM else _in_text(form)
    )
    return question, ToldCard()


def _described(request: AccessRequest, pool: Pool, form: JobForm, at: datetime) -> tuple[FormRequest | None, ToldCard]:
    answers = form.cleaned_data
    source, (lane, otherwise) = answers["source"], WANTED[answers["wanted"]]
    name = answers.get("name", "") if source == HOURS else ""
    archive = _archive_in(form) if source == SCRIPT else None
    if isinstance(archive, str):
        form.add_error("archive_file", archive)
        return None, ToldCard()
    wording = said_in(answers, source, name, form.program_of_catalogue(), archive)
    together = source == SCRIPT and bool(answers.get("together"))
    outcome = job_understood(pool=pool, wording=wording, by=request.access, at=at, together=together)
    if isinstance(outcome, NotUnderstood):
        for field, sentence in complaints(outcome, source):
            form.add_error(field, sentence)
        return None, ToldCard(lines_refused(wording.script or "", outcome))
    if isinstance(outcome, Refused):
        _complain(form, outcome)
        return None, ToldCard()
    card = ToldCard(
        lines_of(wording.script or "", outcome),
        in_words(pool, outcome),
        json.dumps(outcome.spec, indent=2),
        yardstick(pool, outcome, at),
    )
    read = outcome.read if source == HOURS else None
    request_made = FormRequest(outcome.name, lane, otherwise, outcome.spec, card, wording, read, outcome.worth_from)
    return request_made, card


def _archive_in(form: JobForm) -> ArchiveRead | str | None:
    """Return the archive that came with the form, read, or what is wrong with it."""
    file = form.cleaned_data.get("archive_file")
    if not file:
        return None
    read = archive_read(file.file)
    return read if isinstance(read, ArchiveRead) else as_sentence(f"The archive {read[0].sentence}")


def _in_text(form: JobForm) -> FormRequest | None:
    answers = form.cleaned_data
    lane, otherwise = WANTED[answers["wanted"]]
    try:
        written_job = read_job(_text(answers))
    except BadText as error:
        form.add_error("text", str(error))
        return None
    name = written_job.name or answers.get("name") or form.data.get("name", "")
    if written_job.lane is not None:
        lane, otherwise = written_job.lane, None
    return FormRequest(name, lane, written_job.otherwise or otherwise, written_job.spec)


def _text(answers: Mapping[str, Any]) -> str:
    file = answers.get("file")
    if not file:
        return str(answers.get("text", ""))
    if file.size > LONGEST:
        raise BadText(f"The file is longer than {LONGEST // 1024} kB.")
    try:
        return str(file.read().decode())
    except UnicodeDecodeError as error:
        raise BadText("The file is not a text in UTF-8.") from error


def _card(request: AccessRequest, pool: Pool, form_request: FormRequest | None, at: datetime) -> QuoteCard:
    if form_request is None:
        return QuoteCard(at, at)
    with costly(request) as refused:
        if refused:
            return QuoteCard(at, at, refused=refused)
        return quote_card(
            pool=pool,
            name=form_request.name,
            spec=_quotable(form_request),
            lane=form_request.lane,
            otherwise=form_request.otherwise,
            by=request.access,
            own_id=open_tenant(request).pk,
            at=at,
            read=form_request.read,
            worth_from=form_request.worth_from,
            worth_said=amount_read(form_request.wording.worth.get("credits")) if form_request.wording else None,
        )


def _quotable(form_request: FormRequest) -> Mapping[str, Any]:
    """Return the specification to quote. A script is registered as a program only when it is submitted, and the program
    has no part in the price."""
    if form_request.wording is None or form_request.wording.script is None:
        return form_request.spec
    return for_the_core(form_request.spec)


def _complain(form: JobForm, refused: Refused) -> None:
    """Show the refusal at the field that it is about; a text has only one field."""
    if not isinstance(refused, InvalidJob):
        if refused.code == "key_reused":
            form.data = {**form.data, "key": new_key()}
            refused = replace(
                refused, sentence="This form was sent before with other contents. Send it again to submit a second job."
            )
        form.add_error(None, refused.sentence)
        return
    source = form.cleaned_data["source"]
    if source == SCRIPT and refused.field == "together":
        about = refused.sentence.partition(": ")[2]
        form.add_error("together", about[:1].upper() + about[1:])
        return
    if source in (SCRIPT, TEXT):  # a text begins with a field's name, in small letters
        form.add_error(source, refused.sentence)
        return
    field = field_of(refused.field, form.cleaned_data.get("program", ""), form.chosen_program)
    if source == HOURS:
        field = field if "." in str(field) else field_in_hours(field)
        if field is None:
            form.add_error(None, refused.sentence)
            return
    about = refused.sentence.partition(": ")[2] if field else refused.sentence
    form.add_error(field if field in form.fields else None, about[:1].upper() + about[1:])


def _faults(form: JobForm) -> list[dict[str, str]]:
    """Return what is wrong with each field, in the order in which a page has them: the name stands below all others."""
    wrong = [name for name in form.fields if name in form.errors]
    return [
        {"field": name, "label": capfirst(str(form.fields[name].label or name)), "message": str(form.errors[name][0])}
        for name in sorted(wrong, key=lambda name: name == "name")
    ]


def _page(
    request: AccessRequest,
    pool: Pool,
    form: JobForm,
    card: QuoteCard | None,
    told_card: ToldCard = NOTHING_TOLD,
    *,
    note: str = "",
    status: int = 200,
) -> HttpResponse:
    """Show the page. `card` is None where no quote was asked for yet. `note` says what became of the contents of
    another tab."""
    tenant, faults = open_tenant(request), _faults(form)
    lost = NOT_KEPT_FILE if request.FILES.get("archive_file") and form["source"].value() == SCRIPT else ""
    form.fields["worth"].help_text = worth_help(pool.batch_policy)
    if faults:
        form.fields[faults[0]["field"]].widget.attrs["autofocus"] = True
    context = {
        "tenant": tenant,
        "pool": pool,
        "pools": pool_list(),
        "frame": frame_in(request.access, tenant, pool),
        "form": form,
        "card": card,
        "told": told_card,
        "note": note or lost,
        "tabs": TABS,
        "sells_pieces": gives_floors(pool),
        "next_slot_at": pool.slot_start(pool.slot_at(timezone.now()) + 1),
        "presets": presets(pool, form.kinds),
        "programs": program_choices(form),
        "parameters": parameter_card(form, form.chosen_program, form.data.get("parameters_of")),
        "faults": faults,
        "action": f"{reverse('job_submit', args=[tenant.slug])}?{urlencode({PARAMETER: ticket_for(request.access)})}",
        "quote_url": reverse("job_quote", args=[tenant.slug]),
    }
    return render(request, "quotes/submit.html", context, status=status)
