"""People and tenants for tests; each call states only what the test is about."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

from django.contrib.sessions.backends.base import SessionBase
from django.test import Client

from tenants import services
from tenants.access import Access, Refused, access_of_system
from tenants.models import ClaimMapping, Membership, StaffGrant, Tenant, User
from tenants.roles import STAFF_ROLES
from tenants.selectors import access_of

NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
PASSWORD = "correct horse battery 7"
SYSTEM = access_of_system("the tests")
WHY = "set up by the test"

_numbers = itertools.count(1)


def done(outcome):
    """Return the outcome, and assert that the service did not refuse."""
    assert not isinstance(outcome, Refused), outcome
    return outcome


def make_person(email: str = "", name: str = "") -> User:
    number = next(_numbers)
    return done(
        services.person_create(
            email=email or f"person{number}@example.org",
            name=name or f"Person {number}",
            password=PASSWORD,
            by=SYSTEM,
            reason=WHY,
            at=NOW,
        )
    )


def make_tenant(slug: str = "", name: str = "") -> Tenant:
    number = next(_numbers)
    slug = slug or f"tenant-{number}"
    return done(services.tenant_create(slug=slug, name=name or slug, by=SYSTEM, reason=WHY, at=NOW))


def make_member(tenant: Tenant, role: str, user: User | None = None) -> Membership:
    user = user or make_person()
    return done(services.member_add(tenant=tenant, user=user, role=role, by=SYSTEM, reason=WHY, at=NOW))


def make_staff(role: str, user: User | None = None) -> StaffGrant:
    assert role in STAFF_ROLES
    return done(services.staff_grant(user=user or make_person(), role=role, by=SYSTEM, reason=WHY, at=NOW))


def make_mapping(claim: str, value: str, tenant: Tenant, role: str) -> ClaimMapping:
    row = {"claim": claim, "value": value, "tenant": tenant.slug, "role": role}
    return done(services.claim_mapping_add(**row, by=SYSTEM, reason=WHY, at=NOW))


def access(membership: Membership) -> Access:
    """Return the access of this member in this tenant, as the middleware computes it."""
    return access_of(membership.user, membership.tenant)


def session_of(user: User) -> SessionBase:
    """Return a new session of this person, as the scope of a socket has it."""
    return client_of(user).session


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client
