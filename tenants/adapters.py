"""How allauth follows our rules: people sign up by an invitation to their address, or by claims that are mapped."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.helpers import complete_social_login
from django.contrib.auth import logout
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from tenants.joining import any_may_be_asked
from tenants.log_in_limits import password_try, person_known, right, strangers_forget
from tenants.models import Invitation, User
from tenants.names import in_printable, is_blank
from tenants.selectors import invitation_by_hash, invitations_to, owner_of_address
from tenants.services import claims_apply, claims_join_any, invitation_state
from tenants.services.addresses import additions_forget, address_lock, beginner_close
from tenants.services.members import address_refusal

SESSION_KEY = "invitation"  # key of the session: the hash of the token in the visitor's link


def invitation_of(request: HttpRequest) -> Invitation | None:
    """Return the invitation with which this visitor came, while it can still be accepted."""
    token_hash = request.session.get(SESSION_KEY)
    invitation = invitation_by_hash(token_hash) if token_hash else None
    return None if invitation_state(invitation, timezone.now()) else invitation


def claims_of(sociallogin: Any) -> dict[str, Any]:
    """Return the claims of the provider: from its answer about the person, and else from the token."""
    claims = sociallogin.account.extra_data or {}
    parts = [claims.get(name) for name in ("id_token", "userinfo")]
    return {name: value for part in parts if isinstance(part, dict) for name, value in part.items()}


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """Check a password, but only after the try is counted."""
        counters = password_try(request, credentials.get("email", ""))
        user: User | None = super().authenticate(request, **credentials)
        if user is not None:
            right(counters)
        return user

    def login(self, request: HttpRequest, user: User) -> None:
        super().login(request, user)
        person_known(request, user)

    def post_login(self, request: HttpRequest, user: User, **about: Any) -> HttpResponse:
        """Apply the claims after single sign-on: they decide to which tenants the person belongs. If that fails, nobody
        is logged in, since a membership that should end would continue."""
        social = (about["signal_kwargs"] or {}).get("sociallogin")
        if social is not None:
            try:
                claims_apply(user=user, claims=claims_of(social), at=timezone.now())
            except Exception:
                logout(request)
                raise
        return super().post_login(request, user, **about)

    def confirm_email(self, request: HttpRequest, email_address: EmailAddress) -> bool:
        with transaction.atomic():
            address_lock(email_address.email)
            confirmed: bool = super().confirm_email(request, email_address)
            if confirmed:
                beginner_close(email_address.email, email_address.user)
        return confirmed

    def clean_email(self, email: str) -> str:
        """Check an address that somebody signs up with, adds to the account, or asks for a new password with."""
        if refusal := address_refusal(email):
            raise ValidationError(refusal.sentence)
        return email

    def set_password(self, user: User, password: str) -> None:
        """Set a new password. The person has given the old one, or opened the mailbox."""
        super().set_password(user, password)
        strangers_forget(user)
        person_known(self.request, user)

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return invitation_of(request) is not None

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Send a visitor who came with an invitation back to it, however they logged in."""
        if invitation_of(request) is not None:
            return reverse("invitation")
        url: str = super().get_login_redirect_url(request)
        return url

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        return self.get_login_redirect_url(request)

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:
        user.name = form.cleaned_data.get("name", "")
        saved: User = super().save_user(request, user, form, commit)
        return saved


class SocialAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Return whether this person may sign up. The provider must have proved an address. That is enough where the
        address was invited, with or without the link, since the owner of the mailbox has the link; where the claims
        give the person a tenant; and where some tenant can be asked to take the person in."""
        proved = {address.email.lower() for address in sociallogin.email_addresses if address.verified}
        if not proved:
            return False
        if invitations_to(proved, timezone.now()) or claims_join_any(claims_of(sociallogin)):
            return True
        return any_may_be_asked()

    def authenticate_by_email(self, sociallogin: Any) -> tuple[User, str] | None:
        """Return the account to log in to, and the address by which it was found. It must be the address's owner's:
        whoever added the address without proof would see the person come in there, with all that the claims give."""
        for address in sociallogin.email_addresses:
            counts = address.verified and self.can_authenticate_by_email(sociallogin, address.email)
            if counts and (owner := owner_of_address(address.email)):
                return owner, address.email
        return None

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Make room for the account that follows: an address that the provider has proved leaves the accounts to which
        others added it without proof, as the framework would take it for theirs."""
        additions_forget([address.email.lower() for address in sociallogin.email_addresses if address.verified])
        allowed: bool = super().is_auto_signup_allowed(request, sociallogin)
        return allowed

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        """Make the account. Where somebody else, or the same person in another window, has got one with this address at
        the same moment, the log-in begins anew and meets that account."""
        try:
            with transaction.atomic():
                saved: User = super().save_user(request, sociallogin, form)
        except IntegrityError:
            if not User.objects.filter(email=sociallogin.user.email).exists():
                raise
            raise ImmediateHttpResponse(complete_social_login(request, sociallogin)) from None
        return saved

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> User:
        user: User = super().populate_user(request, sociallogin, data)
        user.email = user.email.lower()
        name = in_printable(data.get("name") or "")[:120]
        user.name = "" if is_blank(name) else name
        return user
