"""What stands before and after a view: the permission it needs, and the answer to a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tenants.access import Access, AccessRequest, Refused
from tenants.models import Tenant
from tenants.roles import ROLES_ALLOWED, STAFF_ROLES, TENANT_ROLES, Permission

View = Callable[..., HttpResponseBase]


def requires(permission: Permission) -> Callable[[View], View]:
    """403 without the permission. Strangers to the tenant have met a 404 in the middleware."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: AccessRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.access.allows(permission):
                raise PermissionDenied(_why(request.access, permission))
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def _why(access: Access, permission: Permission) -> str:
    """Who one is here, and who may do this."""
    where = f" of {access.tenant}" if access.tenant else ""
    who = f"You are {_listed(access.role_list, 'and')}{where}. " if access.roles else ""
    may = [role for role in (*TENANT_ROLES, *STAFF_ROLES) if role in ROLES_ALLOWED[permission]]
    return f"{who}This is for {_listed(may, 'or')}."


def _listed(words: Sequence[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


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
