"""Secrets in the database, encrypted with a key that follows from SECRET_KEY: a copy of the database alone reveals
none.

SECRET_KEY_FALLBACKS are the earlier keys, newest first. A secret that was stored under one of them can still be read,
until `manage.py keys --carry` has stored it anew; then the earlier keys can be removed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

PURPOSE = b"secrets that are stored in the database"


class UnreadableSecret(Exception):
    """The secret was stored under a SECRET_KEY that is no longer known here."""


@dataclass(frozen=True)
class Carried:
    """How many rows were under today's key already, how many were stored anew under it, and how many cannot be read."""

    already: int
    carried: int
    unreadable: int


class HasSecret(Protocol):
    secret: str

    def save(self, *, update_fields: Iterable[str]) -> None: ...


def store(secret: str) -> str:
    """Return the secret encrypted under the newest key. The text is different each time."""
    return _box(settings.SECRET_KEY).encrypt(secret.encode()).decode()


def reveal(stored: str) -> str:
    try:
        return MultiFernet([_box(key) for key in _keys()]).decrypt(stored.encode()).decode()
    except InvalidToken:
        raise UnreadableSecret("SECRET_KEY and SECRET_KEY_FALLBACKS do not have the key of a stored secret.") from None


def secret_state(stored: str) -> Literal["current", "older", "unreadable"]:
    """Return under which key a secret is stored. An empty one is of a version before 1.0, which derived it from a key,
    and is not stored yet."""
    if not stored:
        return "older"
    try:
        reveal(stored)
        _box(settings.SECRET_KEY).decrypt(stored.encode())
    except UnreadableSecret:
        return "unreadable"
    except InvalidToken:
        return "older"
    return "current"


def stored_anew(rows: Iterable[HasSecret]) -> Carried:
    """Store the secrets of these rows under today's key. The caller has locked the rows."""
    already = carried = unreadable = 0
    for row in rows:
        state = secret_state(row.secret)
        if state == "older":
            row.secret = store(reveal(row.secret))
            row.save(update_fields=["secret"])
        already += state == "current"
        carried += state == "older"
        unreadable += state == "unreadable"
    return Carried(already, carried, unreadable)


def oldest_key() -> str:
    """Return the oldest key: versions before 1.0 derived from it the secrets that are stored now."""
    return _keys()[-1]


def _keys() -> list[str]:
    return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]


def _box(key: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hmac.new(key.encode(), PURPOSE, hashlib.sha256).digest()))
