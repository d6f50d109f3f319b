"""The page of the open tenant's tokens: a member's own, and for owners everybody's. The secret is shown once."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from tenants import selectors, services
from tenants.access import AccessRequest, Refused
from tenants.forms import TokenForm
from tenants.models import ApiToken
from tenants.roles import SCOPE_MEANING, SCOPES, TENANT_ROLES, Permission, allows
from tenants.services import IssuedToken
from tenants.views.gate import posted_from, requires, tell

MOST_ENDED = 200
SHOWN_AFTER_THE_END = timedelta(days=30)


@require_safe
@requires(Permission.TOKENS_OWN)
def tokens(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    return _page(request, _form(request))


@never_cache
@posted_from("tenant_tokens")
@requires(Permission.TOKENS_OWN)
def token_create(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Make a token. The answer shows the secret once: it is not kept, so it cannot survive a redirect."""
    form = _form(request)
    if not form.is_valid():
        return _page(request, form)
    at, fields = timezone.now(), form.cleaned_data
    expires_at = at + timedelta(days=int(fields["days"]))
    outcome = services.token_create(
        name=fields["name"], scopes=fields["scopes"], by=request.access, at=at, expires_at=expires_at
    )
    if isinstance(outcome, Refused):
        form.add_error("name" if outcome.code == "invalid_token_name" else None, outcome.sentence)
        return _page(request, form)
    return _page(request, TokenForm(choices=_choices(request)), issued=outcome)


@posted_from("tenant_tokens")
@requires(Permission.TOKENS_OWN)
def token_revoke(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    outcome = services.token_revoke(token_id=pk, by=request.access, at=timezone.now())
    tell(request, outcome, "The token is revoked. It works no more.")
    return redirect("tenant_tokens", tenant_slug)


def _page(request: AccessRequest, form: TokenForm, issued: IssuedToken | None = None) -> HttpResponse:
    context = {
        **tokens_shown(request),
        "form": form,
        "issued": issued,
        "is_member": not request.access.roles.isdisjoint(TENANT_ROLES),
    }
    return render(request, "tenants/tokens.html", context)


def tokens_shown(request: AccessRequest) -> dict[str, list[ApiToken]]:
    """Return the tokens of this place that the reader may see: all that work, of which each person has few, and the
    newest of those that ended recently, of which programs that make one for each of their runs leave many."""
    now = timezone.now()
    since = now - SHOWN_AFTER_THE_END
    rows = selectors.token_list(request.access).order_by("-pk")
    ended = Q(revoked_at__gt=since) | Q(revoked_at=None, expires_at__gt=since, expires_at__lte=now)
    return {
        "working": list(rows.filter(revoked_at=None, expires_at__gt=now)),
        "ended": list(rows.filter(ended)[:MOST_ENDED]),
    }


def _form(request: AccessRequest) -> TokenForm:
    return TokenForm(request.POST or None, choices=_choices(request))


def _choices(request: AccessRequest) -> list[tuple[str, str]]:
    """List the scopes with which this person's token could do anything here."""
    roles = request.access.roles & set(TENANT_ROLES)
    return [
        (name, SCOPE_MEANING[name])
        for name, permissions in SCOPES.items()
        if any(allows(roles, one) for one in permissions)
    ]
