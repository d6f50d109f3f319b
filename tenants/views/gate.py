"""What stands before and after a view: the permission it needs, and the answer to a refusal."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tenants.access import AccessRequest, Refused
from tenants.models import Tenant
from tenants.roles import Permission

View = Callable[..., HttpResponseBase]


def requires(permission: Permission) -> Callable[[View], View]:
    """403 without the permission. Strangers to the tenant have met a 404 in the middleware."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: AccessRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.access.allows(permission):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def open_tenant(request: AccessRequest) -> Tenant:
    tenant = request.access.tenant
    if tenant is None:
        raise RuntimeError("this view belongs under /t/<slug>/")
    return tenant


def tell(request: HttpRequest, outcome: object, done: str) -> bool:
    """Say on the next page what happened. True if it was done."""
    if isinstance(outcome, Refused):
        messages.error(request, outcome.sentence)
        return False
    messages.success(request, done)
    return True
