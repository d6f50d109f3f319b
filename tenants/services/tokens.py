"""Tokens for programs. Everybody makes their own, within their rights; owners see and revoke all tokens of a tenant.

A token never allows more than its person may do at the moment of the call: its scopes limit what the person's roles
allow. A token for a tenant uses the membership there; a token for no tenant uses the roles over all. Only a membership
and roles that were there when the token was made count, so a token that lost them does not come back with its person.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from tenants import history
from tenants.access import Access, Refused
from tenants.models import ApiToken, User
from tenants.names import UNSEEN_NAME, is_blank
from tenants.roles import SCOPES, STAFF_ROLES, Permission
from tenants.services.invitations import token_hash
from tenants.services.members import NOT_ALLOWED

PREFIX = "bourse_"  # so that people, and machines that search for secrets, recognise a lost one
HINT_LENGTH = len(PREFIX) + 6
LONGEST_LIFE = timedelta(days=366)
USUAL_LIFE = timedelta(days=90)
MOST_TOKENS = 50  # working tokens of one person in one place
NAME_LONGEST = 80
UNKNOWN_TOKEN = Refused("unknown_token", "There is no such token.")


@dataclass(frozen=True)
class IssuedToken:
    token: ApiToken
    secret: str  # shown now, and never again


@transaction.atomic
def token_create(
    *, name: str, scopes: Collection[str], by: Access, at: datetime, expires_at: datetime | None = None
) -> IssuedToken | Refused:
    """Make a token of the person who acts: for the tenant at hand, or without a tenant for the roles over all."""
    expires_at = expires_at or (min(at + USUAL_LIFE, by.token.expires_at) if by.token else at + USUAL_LIFE)
    if refusal := _creation_refusal(name, scopes, expires_at, by, at):
        return refusal
    assert by.user is not None  # noqa: S101  refused above
    secret = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=by.user,
        tenant=by.tenant,
        name=name,
        scopes=sorted(set(scopes)),
        hint=secret[:HINT_LENGTH],
        token_hash=token_hash(secret),
        created_at=at,
        expires_at=expires_at,
    )
    after = {"scopes": token.scopes, "expires_at": expires_at, "person": by.user.email}
    history.append(at=at, by=by, tenant=by.tenant, action="token_create", subject=_subject(token), after=after)
    return IssuedToken(token, secret)


@transaction.atomic
def token_revoke(*, token_id: int, by: Access, at: datetime) -> ApiToken | Refused:
    """Revoke one's own token or, with the right to change tokens, any token of the tenant. A token that is revoked
    already stays as it is."""
    rows = ApiToken.objects.select_for_update(of=("self",)).select_related("user")
    token = rows.filter(pk=token_id, tenant=by.tenant).first()
    if token is None or by.user is None:
        return UNKNOWN_TOKEN
    own = token.user_id == by.user.pk and by.allows(Permission.TOKENS_OWN)
    if not own and not (by.tenant is not None and by.allows(Permission.TOKENS_CHANGE)):
        return UNKNOWN_TOKEN
    if token.revoked_at is None:
        token.revoked_at, token.revoked_by = at, by.user
        token.save(update_fields=["revoked_at", "revoked_by"])
        before = {"scopes": token.scopes, "person": token.user.email}
        history.append(at=at, by=by, tenant=by.tenant, action="token_revoke", subject=_subject(token), before=before)
    return token


def _creation_refusal(
    name: str, scopes: Collection[str], expires_at: datetime, by: Access, at: datetime
) -> Refused | None:
    if by.user is None or not by.allows(Permission.TOKENS_OWN):
        return NOT_ALLOWED
    if by.tenant is not None and by.roles <= set(STAFF_ROLES):
        return Refused("not_member", "A token for a tenant belongs to a member. Make a token for your staff roles.")
    if not 0 < len(name) <= NAME_LONGEST or not name.isprintable():
        return Refused("invalid_token_name", f"A token's name has 1 to {NAME_LONGEST} printable characters.")
    if is_blank(name):
        return Refused("invalid_token_name", UNSEEN_NAME)
    if not scopes or (unknown := sorted(set(scopes) - SCOPES.keys())):
        sentence = f" There is no scope {unknown[0]}." if scopes else ""
        return Refused("unknown_scope", f"Name at least one scope of {', '.join(SCOPES)}.{sentence}")
    if not at < expires_at <= at + LONGEST_LIFE:
        return Refused("invalid_expiry", f"A token expires in the next {LONGEST_LIFE.days} days.")
    if by.token is not None and (not set(scopes) <= set(by.token.scopes) or expires_at > by.token.expires_at):
        return Refused("beyond_token", "A token makes no token that may more, or lives longer, than itself.")
    User.objects.select_for_update(no_key=True).get(pk=by.user.pk)  # their tokens are counted one after the other
    working = ApiToken.objects.filter(user=by.user, tenant=by.tenant, revoked_at=None, expires_at__gt=at)
    if working.count() >= MOST_TOKENS:
        return Refused("too_many_tokens", f"{MOST_TOKENS} of your tokens work already. Revoke one first.")
    return None


def _subject(token: ApiToken) -> str:
    return f"token {token.hint} of {token.user.email}"
