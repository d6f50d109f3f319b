"""Devices from which a person has logged in before. A signed cookie records them for a year. It logs nobody in: it only
distinguishes the person from strangers who try passwords, so that the tries of strangers lock out only strangers.

It lists people by number, each with a part of the digest by which Django keeps sessions valid. So a new password makes
every device unknown except the one at which it was set.
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
MOST_PEOPLE = 5  # the last ones who logged in from one device


def device_known(request: HttpRequest, user: User) -> str | None:
    """Return the device's own name if this person has logged in from it since the password was set."""
    device = _read(request)
    return device["device"] if device["people"].get(str(user.pk)) == _proof(user) else None


def device_remember(request: HttpRequest, response: HttpResponseBase, user: User) -> None:
    """Add the cookie which records that this person has logged in from this browser to the answer."""
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
    """Return the cookie's content, or a new device without people if there is no cookie of ours."""
    try:
        device: dict[str, Any] = signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=LIFE_SECONDS)
        return device
    except signing.BadSignature:
        return {"device": secrets.token_urlsafe(12), "people": {}}


def _proof(user: User) -> str:
    return user.get_session_auth_hash()[:16]
