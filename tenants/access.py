"""Access: who acts, in which tenant and with which roles. Views and services pass this value on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest

from tenants.models import ApiToken, Tenant, User
from tenants.roles import OPERATOR, STAFF_ROLES, Permission, allows, scope_of
from tenants.sessions import Login

ACTOR_LONGEST = 300  # characters of who acted, in the history and in the catalogue


@dataclass(frozen=True)
class Access:
    user: User | None  # None where nobody is logged in, or where no person acts (a command)
    tenant: Tenant | None
    roles: frozenset[str]
    name: str = field(default="")  # for the history, where there is no person
    token: ApiToken | None = None  # the token that a program sent; it limits the roles, and never adds to them
    login: Login | None = None  # the session of a person who calls the interface, for what outlives the call

    def allows(self, permission: Permission) -> bool:
        return allows(self.roles, permission) and self.has_scope(permission)

    def has_scope(self, permission: Permission) -> bool:
        return self.token is None or scope_of(permission) in self.token.scopes

    @property
    def role_list(self) -> list[str]:
        return sorted(self.roles)

    @property
    def is_staff(self) -> bool:
        return not self.roles.isdisjoint(STAFF_ROLES)

    @property
    def party(self) -> str:
        """Return the party for which a costly call counts: the tenant, or else the person."""
        tenant = self.tenant or (self.token.tenant if self.token else None)
        return f"tenant:{tenant.pk}" if tenant else f"person:{self.user.pk if self.user else 0}"

    @property
    def actor_name(self) -> str:
        """Return who acts, as the history names them. Of a long name the history holds only the beginning; the address
        it always holds whole."""
        if self.name or self.user is None:
            return self.name or "nobody"
        address = f" <{self.user.email}>"
        return f"{str(self.user)[: ACTOR_LONGEST - len(address)]}{address}"


class AccessRequest(HttpRequest):
    """A request that has passed tenants.requests.middleware."""

    access: Access
    own_tenants: Sequence[Any]  # under /t/<slug>/: the tenants of the person, for the switcher


NOBODY = Access(user=None, tenant=None, roles=frozenset())


def access_of_system(name: str) -> Access:
    """Return the access of a command. A person who can use the machine acts as an operator, under the name of the
    command."""
    return Access(user=None, tenant=None, roles=frozenset({OPERATOR}), name=name)


@dataclass(frozen=True)
class Refused:
    """The answer of a service that did not do what was requested. The code is for programs, the sentence for people."""

    code: str
    sentence: str


@dataclass(frozen=True)
class RefusedForMoney(Refused):
    """A refusal whose numbers are micro-credits."""
