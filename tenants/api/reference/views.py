"""The pages about the interface: all operations, one tag's, one operation, and a call that only reads, made there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.utils import timezone
from django.utils.module_loading import import_string
from django.views.decorators.http import require_safe

from tenants.access import AccessRequest
from tenants.api.reference.calls import PLACES, command, curl, example_path, library, variable_parts
from tenants.api.reference.operations import (
    OperationGroup,
    OperationParameter,
    OperationShown,
    groups,
    operations,
    preface,
    problem,
)
from tenants.models import ApiToken
from tenants.selectors import TenantReached, tenants_reached, tokens_working

METHODS = ("GET", "POST", "PUT")
MOST_IN_TABLE = 40  # operations, with addresses and scopes; if there are more, they are listed in columns, by tag
MOST_TENANTS = 50  # the most tenants that are offered to choose from


@dataclass(frozen=True)
class OperationPage:
    """An operation as its page shows it. `fields`: of the form that tries it; none where it cannot be tried."""

    operation: OperationShown
    curl: str
    command: str
    library: str
    fields: tuple[tuple[OperationParameter, str], ...]  # each with the value in it
    token: ApiToken | None  # one of the reader's own that may call it
    fault: str = ""  # what is wrong with what was tried


@dataclass(frozen=True)
class ReferenceReader:
    """For whom lines are written, so that they work when they are copied: `places` stand in addresses."""

    base: str
    slug: str
    places: Mapping[str, object]
    tokens: tuple[ApiToken, ...]
    others: tuple[TenantReached, ...]  # whose names may stand in addresses instead

    def token_for(self, operation: OperationShown) -> ApiToken | None:
        """One that works at the operation's address and has its scopes."""
        at_tenant = "{tenant_slug}" in operation.path
        for token in self.tokens:
            fits = token.tenant is None or not at_tenant or token.tenant.slug == self.slug
            if fits and set(operation.scopes) <= set(token.scopes):
                return token
        return None


def reference_page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Make a page that is shown outside tenants and inside each, where it keeps the tenant's navigation. If `?tenant=`
    names another tenant that the reader reaches, redirect to the page inside that one."""

    @require_safe
    @wraps(view)
    def placed(request: AccessRequest, *, tenant_slug: str = "", **names: str) -> HttpResponse:
        wanted = request.GET.get("tenant", tenant_slug)
        if wanted != tenant_slug and wanted in {each.slug for each in tenants_reached(request.access)}:
            return redirect(_inside(wanted, view.__name__, names, request.GET.copy()))
        return view(request, **names)

    return placed


def _inside(slug: str, page: str, names: Mapping[str, str], query: QueryDict) -> str:
    """Return the page's address in that tenant, with the rest of the query. Addresses are named after their views."""
    query.pop("tenant", None)
    address = reverse(f"tenant_{page}", kwargs={"tenant_slug": slug, **names})
    return f"{address}?{query.urlencode()}" if query else address


@reference_page
def api_docs(request: AccessRequest) -> HttpResponse:
    """`?q=` keeps the operations that say all its words, `?method=` those of one method."""
    words, method = request.GET.get("q", "").split(), request.GET.get("method", "")
    matches = [(group, _matching(group, words, method)) for group in groups()]
    matching = [each for _, of_group in matches for each in of_group]
    reader = _reader(request)
    context = {
        "reader": reader,
        "token": reader.tokens[0] if reader.tokens else None,
        "groups": [(group, of_group) for group, of_group in matches if of_group],
        "table": matching if len(matching) <= MOST_IN_TABLE else [],
        "count": len(matching),
        "total": len(operations()),
        "asked": " ".join(words),
        "method": method,
        "methods": METHODS,
        "preface": preface(),
        "problem": problem(),
        "curl": curl("GET", reader.base + "/api/v1/me/", needs_token=True, body=None, kind="application/json"),
    }
    return render(request, "api/index.html", context)


def _matching(group: OperationGroup, words: list[str], method: str) -> list[OperationShown]:
    return [each for each in group.operations if each.says(words) and method in ("", each.method)]


@reference_page
def api_docs_tag(request: AccessRequest, tag: str) -> HttpResponse:
    """Where each operation of the tag stands under its name, with the way to its page."""
    group = next((each for each in groups() if each.tag == tag), None)
    if group is None:
        raise Http404("no such tag")
    context = {"group": group, "reader": _reader(request), "others": [each.tag for each in groups()]}
    return render(request, "api/tag.html", context)


@reference_page
def api_docs_operation(request: AccessRequest, tag: str, name: str) -> HttpResponse:
    operation = operations().get(name)
    if operation is None or operation.tag != tag:
        raise Http404("no such operation")
    return _operation_page(request, operation)


@require_safe
def api_docs_try(request: AccessRequest, name: str, tenant_slug: str = "") -> HttpResponse:
    """Leads to the address that the form describes, where the reader's own session is asked. It can only read."""
    operation = operations().get(name)
    if operation is None or not operation.can_be_tried:
        raise Http404("no such operation can be tried")
    address = operation.path
    for part in variable_parts(operation.path):
        address = address.replace(f"{{{part}}}", quote(request.GET.get(part, ""), safe=""))
    if not _is_its_address(operation, address):
        return _operation_page(request, operation, tried=True)
    sent_parameters = [
        (each.name, value)
        for each in operation.parameters
        if each.place == "query"
        for value in request.GET.getlist(each.name)
        if value
    ]
    return redirect(f"{address}?{urlencode(sent_parameters)}" if sent_parameters else address)


def _is_its_address(operation: OperationShown, address: str) -> bool:
    """Return whether the address is this operation's. Whatever was typed, nothing else of this host is reached."""
    try:
        view = getattr(resolve(address).func, "view_class", None)
    except Resolver404:
        return False
    described = getattr(getattr(view, "get", None), "operation", None)
    return described is not None and described.name == operation.name


def _operation_page(request: AccessRequest, operation: OperationShown, *, tried: bool = False) -> HttpResponse:
    reader = _reader(request)
    context = {
        "group": next(each for each in groups() if each.tag == operation.tag),
        "reader": reader,
        "entry": _entry(operation, reader, request, tried),
    }
    return render(request, "api/operation.html", context, status=422 if tried else 200)


def _entry(operation: OperationShown, reader: ReferenceReader, request: AccessRequest, tried: bool) -> OperationPage:
    query = request.GET if tried else {}
    fields = [
        (each, query.get(each.name, str(reader.places.get(each.name, "")) if each.place == "path" else ""))
        for each in operation.parameters
        if each.place != "header"
    ]
    body: Any = operation.request_example
    called = curl(
        operation.method,
        reader.base + example_path(operation.path, reader.places),
        needs_token=not operation.open,
        body=body,
        kind=operation.kind,
    )
    words = command(operation.name)
    by_library = library(
        operation.method, operation.path, reader.base, body=body, is_list=operation.is_list, places=reader.places
    )
    return OperationPage(
        operation=operation,
        curl=called,
        command=words,
        library="" if words else by_library,
        fields=tuple(fields) if operation.can_be_tried else (),
        token=None if operation.open else reader.token_for(operation),
        fault="There is no such address: look at the names and numbers." if tried else "",
    )


def _reader(request: AccessRequest) -> ReferenceReader:
    """Return the reader in the tenant that the page is of, else in the first tenant that the reader reaches."""
    user, reached = request.access.user, tenants_reached(request.access)
    slug = request.access.tenant.slug if request.access.tenant else next((each.slug for each in reached), "")
    own: dict[str, object] = {}
    if user is not None and slug:
        own = {"tenant_slug": slug, "owner_slug": slug, **import_string(settings.REFERENCE_PLACES)(user, slug)}
    return ReferenceReader(
        base=f"{request.scheme}://{request.get_host()}",
        slug=slug,
        places={**PLACES, **own},
        tokens=tuple(tokens_working(user, timezone.now())) if user else (),
        others=tuple(reached[:MOST_TENANTS]) if len(reached) > 1 else (),
    )
