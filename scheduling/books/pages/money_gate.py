"""The check that every page about money does first: whether the reader may see it, with a reason if not."""

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
    """Make a view answer 403 with a reason to members of the tenant who may not see money."""

    @wraps(view)
    def guarded(request: AccessRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.access.allows(Permission.LEDGER_VIEW):
            return render(request, "books/money_refused.html", {"tenant": request.access.tenant}, status=403)
        return view(request, *args, **kwargs)

    return guarded
