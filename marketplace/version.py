"""The version of the product, defined only here: `manage.py version`, the foot of each page and `/healthz` show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import HttpRequest

VERSION = "1.1.0"


def version_context(request: HttpRequest) -> dict[str, str]:
    """Return the version for the foot of each page."""
    return {"version": VERSION}
