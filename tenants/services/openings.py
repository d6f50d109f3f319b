"""How a tenant begins: with a name, and an owner who has an account or is invited."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from tenants.access import Access, Refused
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.selectors import owner_of_address, user_owns_address
from tenants.services.invitations import IssuedInvitation, invitation_issue
from tenants.services.members import member_add, tenant_create


@dataclass(frozen=True)
class OpenedTenant:
    """A new tenant. `issued` is None where the owner has an account already, and is a member from now on."""

    tenant: Tenant
    owner: str  # the address
    issued: IssuedInvitation | None


@transaction.atomic
def tenant_open(*, slug: str, name: str, owner: str, by: Access, reason: str, at: datetime) -> OpenedTenant | Refused:
    """Make a tenant with its owner, both or neither: only the operator could repair a tenant without an owner.

    A person without an account is invited, and makes one with the link, by a password or by single sign-on. So is one
    whose account has the address without proof, since it may be somebody else's.
    """
    tenant = tenant_create(slug=slug, name=name, by=by, reason=reason, at=at)
    if isinstance(tenant, Refused):
        return tenant
    email = owner.strip().lower()
    person = owner_of_address(email)
    if person is None or not user_owns_address(person, email):
        issued = invitation_issue(tenant=tenant, email=email, role=OWNER, by=by, at=at, reason=reason)
        outcome: object = issued
    elif person.is_active:
        issued = None
        outcome = member_add(tenant=tenant, user=person, role=OWNER, by=by, reason=reason, at=at)
    else:
        issued = None
        outcome = Refused("inactive_person", f"The account of {email} is closed.")
    if isinstance(outcome, Refused):
        transaction.set_rollback(True)
        return outcome
    assert not isinstance(issued, Refused)  # noqa: S101  it is the outcome
    return OpenedTenant(tenant, email, issued)
