"""Find the party of a request, for the turns of tenants: from its credentials, before anything checks its rights."""

from __future__ import annotations

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from tenants.models import Membership, User
from tenants.scoping import scope_disabled
from tenants.selectors import token_by_hash
from tenants.services import token_hash


def party_of_token(words: str) -> str | None:
    """Return the party of a bearer token, or None where the text holds no known token. `words` is "Bearer ..."."""
    _, _, secret = words.partition(" ")
    token = token_by_hash(token_hash(secret.strip()))
    if token is None:
        return None
    return _first_of(token.user_id) if token.tenant_id is None else f"tenant {token.tenant_id}"


def party_of_session(key: str) -> str | None:
    """Return the party of a session, or None where nobody is logged in."""
    person: str | None = SessionStore(key).get(SESSION_KEY)
    user = None if person is None else User.objects.filter(pk=person).first()
    return None if user is None else _first_of(user.pk)


def _first_of(user_id: int) -> str:
    """Return the first tenant of a person who belongs to several; a person who belongs to none is a party
    of its own."""
    with scope_disabled("a person's own memberships lie in several tenants"):
        rows = Membership.objects.filter(user=user_id).order_by("tenant_id")
        first = rows.values_list("tenant_id", flat=True).first()
    return f"person {user_id}" if first is None else f"tenant {first}"
