"""The template variable for the bell in the head of a page."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from scheduling.notices.read_notices import unread_count
from tenants.access import NOBODY, Access


def bell(request: HttpRequest) -> dict[str, Any]:
    """Return the count, which is read only if a page shows it. A page with a cursor has counted with it
    (`frame.unread`), and does not read it."""
    access: Access = getattr(request, "access", NOBODY)
    return {"unread": SimpleLazyObject(lambda: unread_count(access.user))}
