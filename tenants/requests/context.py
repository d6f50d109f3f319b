"""The values that every page needs: who reads it, what they may do, and their tenants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from tenants.access import NOBODY, Access
from tenants.roles import Permission
from tenants.selectors import OwnTenant, user_tenants


def shell(request: HttpRequest) -> dict[str, Any]:
    access: Access = getattr(request, "access", NOBODY)  # an error page can come before the middleware
    return {
        "access": access,
        "can": SimpleLazyObject(lambda: {permission.value: access.allows(permission) for permission in Permission}),
        "own_tenants": SimpleLazyObject(lambda: _own_tenants(request, access)),
    }


def _own_tenants(request: HttpRequest, access: Access) -> Sequence[OwnTenant]:
    tenants: Sequence[OwnTenant] | None = getattr(request, "own_tenants", None)
    return tenants if tenants is not None else user_tenants(access.user) if access.user else []
