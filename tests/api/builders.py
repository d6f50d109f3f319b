"""Programs that call the interface, each with a token of its own, made by the service, and with a plain client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.test import Client
from django.utils import timezone

from tenants.access import Access
from tenants.models import ApiToken, Tenant, User
from tenants.roles import SCOPES, STAFF_ROLES
from tenants.selectors import access_of
from tenants.services import token_create
from tests.tenants.builders import done, make_member, make_person, make_staff

ALL_SCOPES = tuple(SCOPES)
ROOT = "/api/v1/"


@dataclass
class Program:
    """A program that calls the interface. Addresses are relative to /api/v1/."""

    secret: str = ""
    token: ApiToken | None = None
    client: Client = field(default_factory=Client)

    def get(self, address: str, **headers: str) -> Any:
        return self.client.get(absolute(address), headers=self._headers(headers))

    def post(
        self, address: str, body: Any = None, *, key: str = "", content_type: str = "application/json", **headers: str
    ) -> Any:
        content = body if isinstance(body, bytes | str) else json.dumps(body if body is not None else {})
        own_headers = headers | ({"Idempotency-Key": key} if key else {})
        return self.client.post(
            absolute(address), content, content_type=content_type, headers=self._headers(own_headers)
        )

    def put(self, address: str, body: Any, **headers: str) -> Any:
        content, all_headers = json.dumps(body), self._headers(headers)
        return self.client.put(absolute(address), content, content_type="application/json", headers=all_headers)

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return named | ({"Authorization": f"Bearer {self.secret}"} if self.secret else {})


def absolute(address: str) -> str:
    return address if address.startswith(("/", "http")) else ROOT + address


def program(user: User, tenant: Tenant | None, scopes: Sequence[str] = ALL_SCOPES) -> Program:
    """Return a program with a token of this person, for the tenant or for the person's roles over all tenants."""
    issued = done(token_create(name="a program", scopes=scopes, by=access_of(user, tenant), at=timezone.now()))
    # As if it had just been used: no call of a test has a row to write about that.
    ApiToken.objects.filter(pk=issued.token.pk).update(last_used_at=timezone.now())
    return Program(issued.secret, issued.token)


def program_of(role: str, tenant: Tenant, scopes: Sequence[str] = ALL_SCOPES) -> Program:
    """Return a program of a new person in this role, who is a member of the tenant or of the staff."""
    if role in STAFF_ROLES:
        return program(make_staff(role).user, None, scopes)
    return program(make_member(tenant, role).user, tenant, scopes)


def outsider() -> User:
    """Return a person who has an account and no role."""
    return make_person()


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """Return the problem in the response, and assert that it has this status and code."""
    document = response.json() if response.content else {}
    assert (response.status_code, document.get("code")) == (status, code), (response.status_code, document)
    assert response["Content-Type"] == "application/problem+json"
    assert document["type"] == f"urn:bourse:problem:{code}"
    assert document["status"] == status
    assert document["detail"]
    return dict(document)


__all__ = ["ALL_SCOPES", "ROOT", "Access", "Program", "absolute", "outsider", "problem", "program", "program_of"]
