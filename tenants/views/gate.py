"""Wrappers of views: the permission that a view needs, and the answer to a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from tenants.access import Access, AccessRequest, Refused
from tenants.common.costly import UNDER_WAY, costly_place
from tenants.models import Tenant
from tenants.roles import ROLES_ALLOWED, STAFF_ROLES, TENANT_ROLES, Permission

View = Callable[..., HttpResponseBase]


def requires(permission: Permission) -> Callable[[View], View]:
    """Make a view answer 403 without the permission. Strangers to the tenant got a 404 in the middleware."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: AccessRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.access.allows(permission):
                raise PermissionDenied(_why(request.access, permission))
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def posted_from(*pages: str) -> Callable[[View], View]:
    """Make a view accept a form that is on another page. A reload of its address, or a log-in that leads back to it,
    uses GET and is redirected: to the first of these pages whose address is made of the first parts of this one's."""

    def decorate(view: View) -> View:
        @wraps(view)
        def answered(request: AccessRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "POST":
                return view(request, *args, **kwargs)
            if request.method in ("GET", "HEAD"):
                return redirect(_page_with_the_form(pages, kwargs))
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])

        return answered

    return decorate


def _page_with_the_form(pages: Sequence[str], parts: dict[str, Any]) -> str:
    for page in pages:
        for most in range(len(parts), -1, -1):
            try:
                return reverse(page, kwargs=dict(list(parts.items())[:most]))
            except NoReverseMatch:
                continue
    raise RuntimeError(f"no address of {pages} is made of {list(parts)}")


def _why(access: Access, permission: Permission) -> str:
    """Return a sentence with the reader's roles here, the roles that may do this, and who can give such a role."""
    where = f" of {access.tenant}" if access.tenant else ""
    who = f"You are {_enumeration(access.role_list, 'and')}{where}. " if access.roles else ""
    may = [role for role in (*TENANT_ROLES, *STAFF_ROLES) if role in ROLES_ALLOWED[permission]]
    gives = "An owner of the tenant" if set(may) & set(TENANT_ROLES) else "An operator"
    return f"{who}This is for {_enumeration(may, 'or')}. {gives} can give you such a role."


def _enumeration(words: Sequence[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


@contextmanager
def costly(request: AccessRequest) -> Iterator[Refused | None]:
    """Take a place for a costly call, and yield None; yield a refusal where the tenant has enough calls running."""
    with costly_place(request.access.party, at=timezone.now().timestamp()) as is_free:
        yield None if is_free else Refused("too_many_at_once", UNDER_WAY)


def open_tenant(request: AccessRequest) -> Tenant:
    tenant = request.access.tenant
    if tenant is None:
        raise RuntimeError("this view belongs under /t/<slug>/")
    return tenant


def tell(request: HttpRequest, outcome: object, done: str) -> bool:
    """Show on the next page what happened, and return whether it was done."""
    if isinstance(outcome, Refused):
        messages.error(request, outcome.sentence)
        return False
    messages.success(request, done)
    return True
