"""How allauth meets our rules: sign-up is by invitation only, with the invited address."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.http import HttpRequest
from django.utils import timezone

from tenants.models import Invitation, User
from tenants.selectors import invitation_by_hash
from tenants.services import invitation_state

SESSION_KEY = "invitation"  # the hash of the token the visitor came with


def invitation_of(request: HttpRequest) -> Invitation | None:
    """The invitation this visitor came with, while it can still be accepted."""
    token_hash = request.session.get(SESSION_KEY)
    invitation = invitation_by_hash(token_hash) if token_hash else None
    return None if invitation_state(invitation, timezone.now()) else invitation


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return invitation_of(request) is not None

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:
        user.name = form.cleaned_data.get("name", "")
        saved: User = super().save_user(request, user, form, commit)
        return saved


class SocialAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """The provider must have proved the very address that was invited."""
        invitation = invitation_of(request)
        proved = {address.email.lower() for address in sociallogin.email_addresses if address.verified}
        return invitation is not None and invitation.email in proved

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> User:
        user: User = super().populate_user(request, sociallogin, data)
        user.email = user.email.lower()
        user.name = (data.get("name") or "")[:120]
        return user
