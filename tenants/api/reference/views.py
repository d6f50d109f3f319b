"""The pages about the interface: all operations, one tag's operations, and a call that only reads, made from a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.views.decorators.http import require_safe

from tenants.access import AccessRequest
from tenants.api.reference.calls import PLACES, command, curl, example_path, library, variable_parts
from tenants.api.reference.operations import (
    Group,
    OperationShown,
    Parameter,
    groups,
    operations,
    preface,
    problem,
)
from tenants.selectors import user_tenants

METHODS = ("GET", "POST", "PUT")


@dataclass(frozen=True)
class Entry:
    """An operation as its page shows it. `fields`: of the form that tries it; none where it cannot be tried."""

    operation: OperationShown
    curl: str
    command: str
    library: str
    fields: tuple[tuple[Parameter, str], ...]  # with what stands in it
    fault: str = ""  # what is wrong with what was tried


@require_safe
def api_docs(request: AccessRequest) -> HttpResponse:
    """`?q=` keeps the operations that say all its words, `?method=` those of one method."""
    words, method = request.GET.get("q", "").split(), request.GET.get("method", "")
    found = [(group, _kept(group, words, method)) for group in groups()]
    context = {
        "groups": [(group, kept) for group, kept in found if kept],
        "count": sum(len(kept) for _, kept in found),
        "total": len(operations()),
        "asked": " ".join(words),
        "method": method,
        "methods": METHODS,
        "preface": preface(),
        "problem": problem(),
        "curl": curl("GET", _base(request) + "/api/v1/me/", needs_token=True, body=None, kind="application/json"),
    }
    return render(request, "api/index.html", context)


def _kept(group: Group, words: list[str], method: str) -> list[OperationShown]:
    return [each for each in group.operations if each.says(words) and method in ("", each.method)]


@require_safe
def api_docs_tag(request: AccessRequest, tag: str) -> HttpResponse:
    return _tag_page(request, tag)


@require_safe
def api_docs_try(request: AccessRequest, name: str) -> HttpResponse:
    """Leads to the address that the form describes, where the reader's own session is asked. It can only read."""
    operation = operations().get(name)
    if operation is None or not operation.can_be_tried:
        raise Http404("no such operation can be tried")
    address = operation.path
    for part in variable_parts(operation.path):
        address = address.replace(f"{{{part}}}", quote(request.GET.get(part, ""), safe=""))
    if not _is_its_address(operation, address):
        return _tag_page(request, operation.tag, tried=operation)
    asked = [
        (each.name, value)
        for each in operation.parameters
        if each.place == "query"
        for value in request.GET.getlist(each.name)
        if value
    ]
    return redirect(f"{address}?{urlencode(asked)}" if asked else address)


def _is_its_address(operation: OperationShown, address: str) -> bool:
    """Whatever was typed, the way leads to this operation and to nothing else of this host."""
    try:
        view = getattr(resolve(address).func, "view_class", None)
    except Resolver404:
        return False
    found = getattr(getattr(view, "get", None), "operation", None)
    return found is not None and found.name == operation.name


def _tag_page(request: AccessRequest, tag: str, tried: OperationShown | None = None) -> HttpResponse:
    group = next((each for each in groups() if each.tag == tag), None)
    if group is None:
        raise Http404("no such tag")
    slug = _own_slug(request)
    context = {
        "group": group,
        "entries": [_entry(each, _base(request), slug, request, each is tried) for each in group.operations],
        "others": [each.tag for each in groups()],
        "docs": reverse("api_docs"),
    }
    return render(request, "api/tag.html", context, status=422 if tried else 200)


def _entry(operation: OperationShown, base: str, slug: str, request: AccessRequest, tried: bool) -> Entry:
    known = {name: str(value) for name, value in PLACES.items()} | ({"tenant_slug": slug} if slug else {})
    asked = request.GET if tried else {}
    fields = [
        (each, asked.get(each.name, known.get(each.name, "") if each.place == "path" else ""))
        for each in operation.parameters
        if each.place != "header"
    ]
    body: Any = operation.sent
    called = curl(
        operation.method,
        base + example_path(operation.path),
        needs_token=not operation.open,
        body=body,
        kind=operation.kind,
    )
    words = command(operation.name)
    return Entry(
        operation=operation,
        curl=called,
        command=words,
        library="" if words else library(operation.method, operation.path, base, body=body, is_list=operation.is_list),
        fields=tuple(fields) if operation.can_be_tried else (),
        fault="There is no such address: look at the names and numbers." if tried else "",
    )


def _own_slug(request: AccessRequest) -> str:
    """The first tenant of the reader, to begin with."""
    user = request.access.user
    return next((each.slug for each in user_tenants(user)), "") if user else ""


def _base(request: AccessRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"
