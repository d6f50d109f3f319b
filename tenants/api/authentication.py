"""Who calls: a program with a bearer token, or a person with a session, then with the CSRF check of every page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from tenants.api.problems import Problem, ProblemRaised
from tenants.models import ApiToken, User
from tenants.selectors import token_by_hash
from tenants.services import token_hash

CHALLENGE = 'Bearer realm="bourse"'
USE_NOTED = timedelta(minutes=1)
LONGEST_SECRET = 200


class BearerAuthentication(BaseAuthentication):
    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").strip().partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = _token(secret.strip())
        _note_use(token)
        return token.user, token


class PersonAuthentication(SessionAuthentication):
    """A person's session. Requests that change something need the CSRF token, as on the pages."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied:
            sentence = "A request with a session needs the header X-CSRFToken. Programs send a bearer token instead."
            raise ProblemRaised(Problem(403, "csrf_failed", sentence)) from None


def _token(secret: str) -> ApiToken:
    """Return the token that works. Only a caller that has the whole secret learns whether a token ever was good."""
    token = token_by_hash(token_hash(secret)) if 0 < len(secret) <= LONGEST_SECRET else None
    if token is None or not token.user.is_active:
        raise _rejected("token_unknown", "This token is unknown.")
    if token.revoked_at is not None:
        raise _rejected("token_revoked", "This token was revoked.")
    if token.expires_at <= timezone.now():
        raise _rejected("token_expired", "This token has expired.")
    return token


def _rejected(code: str, sentence: str) -> ProblemRaised:
    challenge = f'{CHALLENGE}, error="invalid_token"'
    return ProblemRaised(Problem(401, code, sentence, headers={"WWW-Authenticate": challenge}))


def _note_use(token: ApiToken) -> None:
    """Note the use at most once a minute, so that a busy program does not write a row with each call."""
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at >= USE_NOTED:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def limits_of(auth: Any, user: User) -> dict[str, int]:
    """Return the names under which a call is counted, each with the calls that it allows in a minute: the token or
    the session, and the person with all of them. Otherwise a person who makes fifty tokens would have fifty limits."""
    credential = f"token:{auth.pk}" if isinstance(auth, ApiToken) else f"session:{user.pk}"
    return {credential: settings.API_CALLS_PER_MINUTE, person_name(user): settings.API_CALLS_PER_MINUTE_OF_PERSON}


def person_name(user: User) -> str:
    return f"person:{user.pk}"
