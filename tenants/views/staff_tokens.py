"""Tokens of operators and auditors for their roles over all tenants. The secret is shown once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from tenants import services
from tenants.access import AccessRequest, Refused
from tenants.forms import StaffTokenForm
from tenants.roles import PRESETS, SCOPE_MEANING, SCOPES, Permission, ScopePreset, allows
from tenants.services import IssuedToken
from tenants.views.gate import posted_from, requires, tell
from tenants.views.tokens import tokens_shown


@require_safe
@requires(Permission.TENANTS_VIEW)
def staff_tokens(request: AccessRequest) -> HttpResponse:
    return _page(request, _form(request))


@never_cache
@posted_from("staff_tokens")
@requires(Permission.TENANTS_VIEW)
def staff_token_create(request: AccessRequest) -> HttpResponse:
    """Make a token. The answer shows the secret once: it is not kept, so it cannot survive a redirect."""
    form = _form(request, request.POST)
    if not form.is_valid():
        return _page(request, form)
    at, values = timezone.now(), form.cleaned_data
    outcome = services.token_create(
        name=values["name"],
        scopes=values["scopes"],
        by=request.access,
        at=at,
        expires_at=at + timedelta(days=int(values["days"])),
    )
    if isinstance(outcome, Refused):
        form.add_error("name" if outcome.code == "invalid_token_name" else None, outcome.sentence)
        return _page(request, form)
    return _page(request, _form(request), issued=outcome)


@posted_from("staff_tokens")
@requires(Permission.TENANTS_VIEW)
def staff_token_revoke(request: AccessRequest, pk: int) -> HttpResponse:
    outcome = services.token_revoke(token_id=pk, by=request.access, at=timezone.now())
    tell(request, outcome, "The token is revoked. It works no more.")
    return redirect("staff_tokens")


def _page(request: AccessRequest, form: StaffTokenForm, issued: IssuedToken | None = None) -> HttpResponse:
    context = {
        **tokens_shown(request),
        "form": form,
        "choices": [(box, form.presets.get(str(box.data["value"]))) for box in form["preset"]],
        "issued": issued,
        "address": f"{request.scheme}://{request.get_host()}",
    }
    return render(request, "staff/tokens.html", context)


def _form(request: AccessRequest, data: Any = None) -> StaffTokenForm:
    useful = _useful(request)
    return StaffTokenForm(data, choices=[(name, SCOPE_MEANING[name]) for name in useful], presets=_presets(useful))


def _useful(request: AccessRequest) -> list[str]:
    """List the scopes with which a token of these roles could do anything."""
    return [name for name, needed in SCOPES.items() if any(allows(request.access.roles, one) for one in needed)]


def _presets(useful: list[str]) -> Mapping[str, ScopePreset]:
    """Return the presets without those with a scope that these roles cannot use: their text would promise too much."""
    return {name: each for name, each in PRESETS.items() if each.scopes <= set(useful)}
