"""What every page of money does first: the right to see it, with the reason where it is missing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http.response import HttpResponseBase
from django.shortcuts import render

from tenants.access import AccessRequest
from tenants.roles import Permission

View = Callable[..., HttpResponseBase]


def money_reader(view: View) -> View:
    """403 with the reason for whoever belongs here and may not see money."""

    @wraps(view)
    def guarded(request: AccessRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.access.allows(Permission.LEDGER_VIEW):
            return render(request, "books/money_refused.html", {"tenant": request.access.tenant}, status=403)
        return view(request, *args, **kwargs)

    return guarded
