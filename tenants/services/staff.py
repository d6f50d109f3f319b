"""Services for people's accounts, and for the two roles over all tenants."""

from __future__ import annotations

from datetime import datetime

from allauth.account.models import EmailAddress
from django.db import transaction

from tenants import history
from tenants.access import Access, Refused
from tenants.models import StaffGrant, User
from tenants.names import name_flaw
from tenants.roles import OPERATOR, STAFF_ROLES, Permission
from tenants.selectors import owner_of_address
from tenants.services.members import NOT_ALLOWED, UNKNOWN_ROLE, address_refusal, reason_refusal, row_store
from tenants.services.token_ends import tokens_of_staff_end


@transaction.atomic
def person_create(
    *, email: str, name: str, password: str | None, by: Access, reason: str, at: datetime
) -> User | Refused:
    """Make an account with a proven address, for which the person who runs the machine vouches. Everybody else comes by
    invitation. Without a password the person sets one through "forgotten password"."""
    if not by.allows(Permission.STAFF_CHANGE):
        return NOT_ALLOWED
    if refusal := reason_refusal(reason):
        return refusal
    if name and (flaw := name_flaw(name)):
        return Refused("invalid_person_name", flaw)
    email = email.strip().lower()
    if refusal := address_refusal(email):
        return refusal
    if owner_of_address(email) is not None:
        return Refused("address_taken", f"There is an account for {email} already.")
    user = User(email=email, name=name)
    user.set_password(password)
    if refusal := row_store(user, "address_taken"):
        return refusal
    EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    history.append(
        at=at,
        by=by,
        action="person_create",
        subject=f"person {email}",
        reason=reason,
        after={"email": email, "name": name},
    )
    return user


@transaction.atomic
def staff_grant(*, user: User, role: str, by: Access, reason: str, at: datetime) -> StaffGrant | Refused:
    if refusal := _may_change_staff(by, role, reason):
        return refusal
    User.objects.select_for_update().get(pk=user.pk)
    if StaffGrant.objects.filter(user=user, role=role, revoked_at=None).exists():
        return Refused("already_granted", f"{user} is {role} already.")
    grant = StaffGrant.objects.create(user=user, role=role, granted_at=at, granted_by=by.user, granted_reason=reason)
    history.append(
        at=at,
        by=by,
        action="staff_grant",
        subject=f"person {user.email}",
        reason=reason,
        after={"role": role},
    )
    return grant


@transaction.atomic
def staff_revoke(*, user: User, role: str, by: Access, reason: str, at: datetime) -> Refused | None:
    if refusal := _may_change_staff(by, role, reason):
        return refusal
    # All open grants of the role are locked, so that two operators cannot revoke each other and leave none.
    open_grants = StaffGrant.objects.filter(role=role, revoked_at=None)
    grants = list(open_grants.select_for_update().order_by("pk"))
    grant = next((grant for grant in grants if grant.user_id == user.pk), None)
    if grant is None:
        return Refused("not_granted", f"{user} is not {role}.")
    if role == OPERATOR and len(grants) == 1:
        return Refused("last_operator", "The market keeps at least one operator. Name another one first.")
    grant.revoked_at, grant.revoked_by, grant.revoked_reason = at, by.user, reason
    grant.save(update_fields=["revoked_at", "revoked_by", "revoked_reason"])
    tokens_of_staff_end(user=user, by=by.user, at=at)
    history.append(
        at=at,
        by=by,
        action="staff_revoke",
        subject=f"person {user.email}",
        reason=reason,
        before={"role": role},
    )
    return None


def _may_change_staff(by: Access, role: str, reason: str) -> Refused | None:
    if not by.allows(Permission.STAFF_CHANGE):
        return NOT_ALLOWED
    if role not in STAFF_ROLES:
        return UNKNOWN_ROLE
    return reason_refusal(reason)
