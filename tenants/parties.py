"""On whose account a request counts where tenants take turns: by what it shows, before anybody looks at its rights."""

from __future__ import annotations

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from tenants.models import Membership, User
from tenants.scoping import scope_disabled
from tenants.selectors import token_by_hash
from tenants.services import token_hash


def party_of_token(words: str) -> str | None:
    """`words`: as a program sends them, "Bearer ..."; None: no token is meant, or nobody has it."""
    _, _, secret = words.partition(" ")
    token = token_by_hash(token_hash(secret.strip()))
    if token is None:
        return None
    return _first_of(token.user_id) if token.tenant_id is None else f"tenant {token.tenant_id}"


def party_of_session(key: str) -> str | None:
    """None: nobody is logged in there."""
    person: str | None = SessionStore(key).get(SESSION_KEY)
    user = None if person is None else User.objects.filter(pk=person).first()
    return None if user is None else _first_of(user.pk)


def _first_of(user_id: int) -> str:
    """A person who belongs to several tenants counts for the first one; to none, for itself."""
    with scope_disabled("a person's own memberships lie in several tenants"):
        rows = Membership.objects.filter(user=user_id).order_by("tenant_id")
        first = rows.values_list("tenant_id", flat=True).first()
    return f"person {user_id}" if first is None else f"tenant {first}"
