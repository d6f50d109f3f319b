"""The pages for an invited person: open the link, log in or sign up, join."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from tenants import selectors, services
from tenants.access import AccessRequest, Refused
from tenants.adapters import SESSION_KEY
from tenants.services import invitation_state, token_hash
from tenants.views.gate import posted_from, tell


@login_not_required
@never_cache
@require_safe
def invitation_open(request: AccessRequest, token: str) -> HttpResponse:
    """Take the token out of the address at once, so that it stays out of histories and logs of later pages."""
    request.session[SESSION_KEY] = token_hash(token)
    return redirect("invitation")


@login_not_required
@never_cache
@require_safe
def invitation(request: AccessRequest) -> HttpResponse:
    invitation = selectors.invitation_by_hash(request.session.get(SESSION_KEY, ""))
    refusal = invitation_state(invitation, timezone.now())
    if refusal:
        status = 404 if invitation is None else 410
        return render(request, "tenants/invitation_over.html", {"sentence": refusal.sentence}, status=status)
    user = request.access.user
    right_address = user is not None and invitation is not None and invitation.email == user.email
    return render(request, "tenants/invitation.html", {"invitation": invitation, "right_address": right_address})


@posted_from("invitation")
def invitation_accept(request: AccessRequest) -> HttpResponse:
    """Accept the invitation with which the visitor came or, from their first page, one to an address that they have
    proved."""
    user, at = request.access.user, timezone.now()
    if user is None:
        raise RuntimeError("the log-in middleware lets nobody else through")
    if number := request.POST.get("invitation"):
        own = selectors.invitations_to(selectors.addresses_of(user), at)
        token_hash, back = next((row.token_hash for row in own if str(row.pk) == number), ""), "home"
    else:
        token_hash, back = request.session.get(SESSION_KEY, ""), "invitation"
    outcome = services.invitation_accept(token_hash=token_hash, user=user, at=at)
    if isinstance(outcome, Refused):
        tell(request, outcome, "")
        return redirect(back)
    if request.session.get(SESSION_KEY) == token_hash:
        del request.session[SESSION_KEY]
    tell(request, outcome, f"Welcome to {outcome.tenant}. You are {outcome.role}.")
    return redirect("tenant_home", outcome.tenant.slug)
