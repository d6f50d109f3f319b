"""The pages of the catalogue: a tenant's, with its own programs first, and the operator's, with all programs.

Both have the same views. Under /t/<tenant>/ people register programs for the tenant, elsewhere the operator does for
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.catalogue.read_catalogue import (
    DAYS,
    MOST_SCRIPTS_SHOWN,
    ProgramLine,
    ProgramPage,
    archive_closed,
    archive_of,
    deeds_of,
    may_bring,
    may_read,
    own_deeds,
    read_all,
    read_catalogue,
    read_program,
    scripts_count,
    tenant_deeds,
    tenants_that_may_bring,
)
from scheduling.catalogue.registration import (
    CHANGED,
    InvalidProgram,
    program_register,
    program_retire,
    programs_allow,
)
from scheduling.catalogue.secrets import secret_names
from scheduling.common import BadText, plain_document, plain_text
from scheduling.programs.catalogue import LONGEST_SCRIPT, PLACE, document_of
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.stored import OPERATOR, program_choice
from scheduling.programs.templates import TEMPLATES
from tenants.access import AccessRequest, Refused
from tenants.common.downloads import file_download
from tenants.form_fields import WholeField
from tenants.models import Tenant
from tenants.requests.uploads import PARAMETER, ticket_for
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST
from tenants.views.gate import posted_from, requires, tell

LONGEST = 2 * LONGEST_SCRIPT  # characters of the text


class ProgramForm(forms.Form):
    """The form of a program as text. Only the operator is asked for `tenants` and `reason`. `latest_seen` is of a
    program that is edited: its newest version as the page was opened."""

    text = forms.CharField(
        max_length=LONGEST,
        strip=False,
        label="The program, as YAML or JSON",
        widget=forms.Textarea(attrs={"rows": 22, "spellcheck": "false", "class": "input mono"}),
    )
    archive = forms.FileField(
        required=False,
        label="Archive",
        help_text="A tar.gz of at most 20 MiB, unpacked into each job's folder.",
        widget=forms.FileInput(attrs={"accept": ".tar.gz,.tgz,application/gzip"}),
    )
    tenants = forms.CharField(
        required=False,
        max_length=1_000,
        label="Only for these tenants",
        help_text="Short names, with commas between them. Empty: for all if it is new, else for whom it was.",
    )
    reason = forms.CharField(required=False, max_length=REASON_LONGEST, label="Why?")
    latest_seen = WholeField(required=False, min_value=1, max_value=2**31 - 1, widget=forms.HiddenInput)


@dataclass(frozen=True)
class ProgramRow:
    """A line of the list, with the address of its page."""

    line: ProgramLine
    href: str


@requires(Permission.PROGRAMS_VIEW)
@require_safe
def tenant_programs(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    assert request.access.tenant is not None  # noqa: S101  the middleware has set it
    tenant, at = request.access.tenant, timezone.now()
    deeds, older = deeds_of(tenant_deeds(at)), max(scripts_count(tenant) - MOST_SCRIPTS_SHOWN, 0)
    lines = read_catalogue(tenant=tenant, at=at, most_scripts=MOST_SCRIPTS_SHOWN, deeds=deeds)
    own = [line for line in lines if not line.is_operators]
    context = {
        "own": _rows(request, own),
        "own_count": len(own) + older,
        "older_scripts": older,
        "offered": _rows(request, [line for line in lines if line.is_operators]),
        "runs": sum(each.runs for each in own_deeds(deeds)),
        "ended_well": sum(each.ended_well for each in own_deeds(deeds)),
        "may_bring": may_bring(tenant),
        "secrets": secret_names(tenant.slug),
        "registers": _registers(request),
    }
    return render(request, "catalogue/programs.html", context | _usual(request))


@requires(Permission.PROGRAMS_VIEW)
@require_safe
def operator_programs(request: AccessRequest) -> HttpResponse:
    lines, allowed = read_all(most_scripts=MOST_SCRIPTS_SHOWN), tenants_that_may_bring()
    brought, older = [line for line in lines if not line.is_operators], max(scripts_count() - MOST_SCRIPTS_SHOWN, 0)
    context = {
        "own": _rows(request, [line for line in lines if line.is_operators]),
        "brought": _rows(request, brought),
        "brought_count": len(brought) + older,
        "older_scripts": older,
        "tenants": [(tenant, tenant.pk in allowed) for tenant in Tenant.objects.order_by("name")],
        "registers": _registers(request),
    }
    return render(request, "catalogue/operator_programs.html", context | _usual(request))


@require_safe
def program(request: AccessRequest, owner: str, name: str, tenant_slug: str = "") -> HttpResponse:
    """Show a program's page, with its runs first. Its words are shown only to readers who may read them."""
    page = _page(request, owner, name)
    reads = may_read(request.access, owner)
    is_mine = owner == (request.access.tenant.slug if request.access.tenant else OPERATOR)
    no_archive = archive_closed(page.program.archive) if page.program and page.program.archive else ""
    context = {
        "page": page,
        "line": page.line,
        "reads": reads,
        "no_archive": no_archive,
        "runs": page.runs if request.access.allows(Permission.JOBS_VIEW) else (),
        "pieces": [pieces(word) for word in page.program.command] if page.program and reads else (),
        "edit": _url(request, "program_new") + f"?edit={name}" if is_mine and page.program else "",
        "retire": _url(request, "program_retire", name=name) if is_mine and page.program else "",
        "versions": [(each, _url(request, "program", owner=owner, name=name)) for each in page.versions],
        "older_versions": page.line.versions - len(page.versions),
        "archive": (
            _url(request, "program_archive", owner=owner, name=name, version=page.program.version)
            if reads and page.program and page.program.archive and not no_archive
            else ""
        ),
        "registers": _registers(request),
        "submit": "" if no_archive else _submit_url(request, page),
    }
    return render(request, "catalogue/program.html", context | _usual(request))


@require_http_methods(["GET", "POST"])
def program_new(request: AccessRequest, tenant_slug: str = "") -> HttpResponseBase:
    """Register a new program, or with `?edit=` the next version of one; `?copy=` begins with a template."""
    if not _registers(request):
        raise PermissionDenied
    name = request.GET.get("edit", "")
    if request.method != "POST":
        beginning = {"text": _beginning(request, name), "latest_seen": _newest(request, name)}
        return _form(request, ProgramForm(initial=beginning), name)
    form = ProgramForm(request.POST, request.FILES)
    if not form.is_valid():
        return _form(request, form, name)
    try:
        document = plain_document(form.cleaned_data["text"].replace("\r\n", "\n"), longest=LONGEST)
    except BadText as error:
        form.add_error("text", str(error))
        return _form(request, form, name)
    if not isinstance(document, dict):
        form.add_error("text", "Write the fields of one program, for example `name: mine`.")
        return _form(request, form, name)
    upload = form.cleaned_data["archive"]
    tenants = [slug.strip() for slug in form.cleaned_data["tenants"].split(",") if slug.strip()]
    outcome = program_register(
        document=document,
        archive=upload.file if upload else None,
        tenants=tenants or None,
        by=request.access,
        at=timezone.now(),
        reason=form.cleaned_data["reason"],
        name=name or None,
        is_new=not name,
        latest_seen=form.cleaned_data["latest_seen"] if name else None,
    )
    if outcome == CHANGED:  # once that is said, the same form may be sent again
        data: Any = copy(form.data)
        data["latest_seen"] = _newest(request, name)
        form.data = data
    if isinstance(outcome, InvalidProgram):
        return _form(request, form, name, outcome.faults)
    if isinstance(outcome, Refused):
        fields = {"reason_missing": "reason", "reason_too_long": "reason", "unknown_tenant": "tenants"}
        form.add_error(fields.get(outcome.code, "text"), outcome.sentence)
        return _form(request, form, name)
    row = outcome.row
    predicate = "says this already" if outcome.repeated else "is registered"
    tell(request, row, f"Version {row.version} of {row.program.name} {predicate}.")
    owner = request.access.tenant.slug if request.access.tenant else OPERATOR
    return redirect(_url(request, "program", owner=owner, name=row.program.name))


@posted_from("tenant_programs", "operator_programs")
def program_retired(request: AccessRequest, name: str, tenant_slug: str = "") -> HttpResponseBase:
    outcome = program_retire(name=name, by=request.access, at=timezone.now(), reason=request.POST.get("reason", ""))
    tell(request, outcome, f"{name} is retired. Jobs that were submitted with it keep it.")
    return redirect(_url(request, "programs"))


@require_safe
def program_archive(
    request: AccessRequest, owner: str, name: str, version: int, tenant_slug: str = ""
) -> HttpResponseBase:
    page = _page(request, owner, name)
    content = archive_of(owner=page.line.owner, name=name, version=version) if may_read(request.access, owner) else None
    if content is None or isinstance(content, str):  # the program's page says why, and has no link
        raise Http404
    return file_download(request, f"{name}-{version}.tar.gz", "application/gzip", content)


@posted_from("operator_programs")
@requires(Permission.PROGRAMS_OFFER)
def operator_programs_allow(request: AccessRequest) -> HttpResponseBase:
    tenant = Tenant.objects.filter(slug=request.POST.get("tenant", "")).first()
    if tenant is None:
        raise Http404
    wanted = request.POST.get("may_bring") == "yes"
    outcome = programs_allow(
        tenant=tenant,
        may_bring=wanted,
        by=request.access,
        at=timezone.now(),
        reason=request.POST.get("reason", ""),
    )
    tell(request, outcome, f"{tenant} {'may' if wanted else 'may not'} bring programs.")
    return redirect("operator_programs")


def pieces(word: str) -> list[tuple[str, bool]]:
    """Return a word of a command in pieces, each with whether it is a placeholder (as it is written)."""
    texts = PLACE.split(word)
    return [(f"{{{text}}}" if odd % 2 else text, bool(odd % 2)) for odd, text in enumerate(texts) if text]


def _page(request: AccessRequest, owner: str, name: str) -> ProgramPage:
    """Return a program's page; 404 for readers who may not even know that the program exists."""
    if not request.access.allows(Permission.PROGRAMS_VIEW):
        raise PermissionDenied
    version_wanted = request.GET.get("version", "")
    version = (
        int(version_wanted)
        if version_wanted.isascii() and version_wanted.isdigit() and len(version_wanted) < 10
        else None
    )
    tenant = request.access.tenant
    page = read_program(owner=owner, name=name, version=version, tenant=tenant, at=timezone.now())
    if page is None:
        raise Http404
    return page


def _form(request: AccessRequest, form: ProgramForm, name: str, faults: Sequence[FieldRefusal] = ()) -> HttpResponse:
    here = _url(request, "program_new")
    sent_to = {PARAMETER: ticket_for(request.access)} | ({"edit": name} if name else {})
    context = {
        "form": form,
        "name": name,
        "faults": faults,
        "action": f"{here}?{urlencode(sent_to)}",
        "templates": [(copied, template["title"], f"{here}?copy={copied}") for copied, template in TEMPLATES.items()],
    }
    return render(request, "catalogue/program_form.html", context | _usual(request))


def _beginning(request: AccessRequest, name: str) -> str:
    """Return the form's first content: the program that is edited, or the template that is copied."""
    if name:
        owner = request.access.tenant.slug if request.access.tenant else OPERATOR
        page = _page(request, owner, name)
        if page.program is None:
            raise Http404
        return plain_text(document_of(page.program))
    copied = request.GET.get("copy", "script")
    if copied not in TEMPLATES:
        raise Http404
    return plain_text(TEMPLATES[copied])


def _newest(request: AccessRequest, name: str) -> int | None:
    """Return the newest version of the reader's own program; None where there is none."""
    owner = request.access.tenant.slug if request.access.tenant else OPERATOR
    page = read_program(owner=owner, name=name, tenant=request.access.tenant, at=timezone.now()) if name else None
    return page.line.version if page else None


def _submit_url(request: AccessRequest, page: ProgramPage) -> str:
    """Return the address at which the reader submits a job of the program; empty where it may not, or no new job may
    name it."""
    tenant = request.access.tenant
    if tenant is None or page.program is None or page.line.retired_at:
        return ""
    if not request.access.allows(Permission.JOBS_SUBMIT) or not (page.line.is_operators or may_bring(tenant)):
        return ""
    return reverse("job_submit", args=[tenant.slug]) + "?" + urlencode({"program": program_choice(page.program)})


def _registers(request: AccessRequest) -> bool:
    if request.access.tenant is None:
        return request.access.allows(Permission.PROGRAMS_OFFER)
    return request.access.allows(Permission.PROGRAMS_REGISTER) and may_bring(request.access.tenant)


def _rows(request: AccessRequest, lines: Sequence[ProgramLine]) -> list[ProgramRow]:
    return [ProgramRow(line, _url(request, "program", owner=line.owner, name=line.name)) for line in lines]


def _usual(request: AccessRequest) -> dict[str, Any]:
    return {
        "days": DAYS,
        "new": _url(request, "program_new"),
        "programs": _url(request, "programs"),
        "templates_listed": [
            (name, template["title"], template["description"]) for name, template in TEMPLATES.items()
        ],
    }


def _url(request: AccessRequest, what: str, **names: Any) -> str:
    """Return the address of a page under the tenant's address, or under the operator's."""
    tenant = request.access.tenant
    if tenant is None:
        return reverse(f"operator_{what}", kwargs=names)
    return reverse(f"tenant_{what}", kwargs={"tenant_slug": tenant.slug, **names})
