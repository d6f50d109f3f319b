"""Devices that somebody has logged in from. A signed cookie says so for a year, and lets nobody in: it only tells the
person from a stranger who tries passwords, so that the tries of strangers lock out strangers.

It names the people by number, each with a part of the digest that Django keeps sessions valid by: a new password makes
every device unknown but the one at which it was set.
"""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tenants.models import User

COOKIE = "bourse_device"
SALT = "tenants.devices"
LIFE_SECONDS = 365 * 86_400
MOST_PEOPLE = 5  # of one device, the last ones


def device_known(request: HttpRequest, user: User) -> str | None:
    """The device's own name, where this person has logged in from it since the password was set."""
    device = _read(request)
    return device["device"] if device["people"].get(str(user.pk)) == _proof(user) else None


def device_remember(request: HttpRequest, response: HttpResponseBase, user: User) -> None:
    """The answer tells the browser that this person logged in from it."""
    device = _read(request)
    others = [(pk, proof) for pk, proof in device["people"].items() if pk != str(user.pk)]
    people = dict([*others, (str(user.pk), _proof(user))][-MOST_PEOPLE:])
    response.set_cookie(
        COOKIE,
        signing.dumps({"device": device["device"], "people": people}, salt=SALT),
        max_age=LIFE_SECONDS,
        path="/accounts/",
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _read(request: HttpRequest) -> dict[str, Any]:
    """What the cookie says; of none, or one that is not ours, a new device without people."""
    try:
        device: dict[str, Any] = signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=LIFE_SECONDS)
        return device
    except signing.BadSignature:
        return {"device": secrets.token_urlsafe(12), "people": {}}


def _proof(user: User) -> str:
    return user.get_session_auth_hash()[:16]
