"""Whether a person is still logged in: for streams and sockets, which last longer than the request that was admitted.

A session lasts while its row is there and has not expired, and while the person's password is the same. It also lasts
where the secret key is a new one, as long as the key of before is among SECRET_KEY_FALLBACKS: pages say so, too. A
log-out deletes the row. Whoever changes their own password goes on with another session. A session of before a new
password keeps its row until it is used, so the row alone does not say that the session lasts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.models import Session
from django.utils.crypto import constant_time_compare

from tenants.models import User


@dataclass(frozen=True)
class Login:
    """The session of a person, as it was when the person was admitted."""

    person: int  # the person's id
    key: str = field(repr=False)  # of the session's row; whoever has it is logged in
    digest: str = field(repr=False)  # made from the person's password of then


def login_of(session: SessionBase | None) -> Login | None:
    """Return the log-in that a session holds, or None if nobody is logged in with it."""
    person = None if session is None else session.get(SESSION_KEY)
    if session is None or person is None or session.session_key is None:
        return None
    return Login(int(person), session.session_key, session.get(HASH_SESSION_KEY, ""))


def logins_open(logins: Collection[Login], users: Mapping[int, User], at: datetime) -> set[Login]:
    """Return the log-ins whose sessions last, in one statement for all of them. `users` are their persons by id."""
    rows = Session.objects.filter(session_key__in={login.key for login in logins}, expire_date__gt=at)
    keys = set(rows.values_list("session_key", flat=True))
    digests = {person: _digests(user) for person, user in users.items()}
    return {
        login
        for login in logins
        if login.key in keys
        and any(constant_time_compare(login.digest, digest) for digest in digests.get(login.person, ()))
    }


def _digests(user: User) -> tuple[str, ...]:
    """Return what a session of the person may hold: made with the secret key of now, or with one of before."""
    return user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()
