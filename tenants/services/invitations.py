"""Invitations: each is for one e-mail address, and works once, until it expires. Its token is shown once
and not kept."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from tenants import history, selectors
from tenants.access import Access, Refused
from tenants.models import Invitation, Membership, Tenant, User
from tenants.roles import TENANT_ROLES
from tenants.scoping import scope
from tenants.services.members import (
    ALREADY_A_MEMBER,
    UNKNOWN_ROLE,
    address_refusal,
    may_change_members,
    membership_begin,
)

LIFETIME = timedelta(days=7)


@dataclass(frozen=True)
class IssuedInvitation:
    invitation: Invitation
    token: str  # shown to the inviter now, and never again


def token_hash(token: str) -> str:
    """Return the hash that is stored. A token has 256 random bits, so one plain hash is enough to keep it secret."""
    return hashlib.sha256(token.encode()).hexdigest()


@transaction.atomic
def invitation_create(
    *, tenant: Tenant, email: str, role: str, by: Access, at: datetime, reason: str = ""
) -> IssuedInvitation | Refused:
    """Invite an address. It replaces an open invitation of the same address, whose link stops working."""
    if refusal := may_change_members(by, tenant, reason):
        return refusal
    return invitation_issue(tenant=tenant, email=email, role=role, by=by, at=at, reason=reason)


@transaction.atomic
def invitation_issue(
    *, tenant: Tenant, email: str, role: str, by: Access, at: datetime, reason: str
) -> IssuedInvitation | Refused:
    """Make the invitation. The caller has asked whether this person may invite."""
    email = email.strip().lower()
    with scope(tenant):
        Tenant.objects.select_for_update().get(pk=tenant.pk)
        if refusal := _invitation_refusal(email, role, by):
            return refusal
        Invitation.objects.filter(email=email, accepted_at=None, revoked_at=None).update(revoked_at=at)
        token = secrets.token_urlsafe(32)
        invitation = Invitation.objects.create(
            email=email,
            role=role,
            token_hash=token_hash(token),
            created_at=at,
            expires_at=at + LIFETIME,
            invited_by=by.user,
        )
        history.append(
            at=at,
            by=by,
            tenant=tenant,
            action="invitation_create",
            subject=f"invitation of {email}",
            reason=reason,
            after={"role": role, "expires_at": invitation.expires_at},
        )
    return IssuedInvitation(invitation, token)


def _invitation_refusal(email: str, role: str, by: Access) -> Refused | None:
    if by.user is None:
        return Refused("no_inviter", "An invitation names the person who invites.")
    if role not in TENANT_ROLES:
        return UNKNOWN_ROLE
    if refusal := address_refusal(email):
        return refusal
    if Membership.objects.filter(user__email=email).exists():
        return Refused("already_member", f"{email} is a member already.")
    return None


@transaction.atomic
def invitation_send_again(
    *, invitation: Invitation, by: Access, at: datetime, reason: str = ""
) -> IssuedInvitation | Refused:
    """Make a new link that works for another week; the old link stops working. The old invitation may have expired."""
    with scope(invitation.tenant):
        Tenant.objects.select_for_update().get(pk=invitation.tenant_id)
        current = Invitation.objects.get(pk=invitation.pk)
        refusal = invitation_state(current, at)
    if refusal and refusal.code != "invitation_expired":
        return refusal
    return invitation_create(
        tenant=invitation.tenant, email=current.email, role=current.role, by=by, at=at, reason=reason
    )


def invitation_state(invitation: Invitation | None, at: datetime) -> Refused | None:
    """Return why the invitation can no longer be accepted, or None while it can."""
    if invitation is None:
        return Refused("unknown_invitation", "There is no such invitation. Check that the link is complete.")
    if invitation.accepted_at is not None:
        return Refused("invitation_used", "This invitation was accepted already. It works once.")
    if invitation.revoked_at is not None:
        return Refused("invitation_revoked", "This invitation was withdrawn. Ask for a new one.")
    if invitation.expires_at <= at:
        return Refused("invitation_expired", "This invitation has expired. Ask for a new one.")
    return None


@transaction.atomic
def invitation_accept(*, token_hash: str, user: User, at: datetime) -> Membership | Refused:
    row = selectors.invitation_by_hash(token_hash)
    if row is None:
        return invitation_state(None, at) or Refused("unknown_invitation", "")
    with scope(row.tenant):
        tenant = Tenant.objects.select_for_update().get(pk=row.tenant_id)
        invitation = Invitation.objects.get(pk=row.pk)
        if refusal := invitation_state(invitation, at) or _acceptance_refusal(invitation, user):
            return refusal
        membership = membership_begin(user, invitation.role, by=user, at=at)
        invitation.accepted_at, invitation.accepted_by = at, user
        invitation.save(update_fields=["accepted_at", "accepted_by"])
        history.append(
            at=at,
            by=selectors.access_of(user, tenant),
            tenant=tenant,
            action="invitation_accept",
            subject=f"member {user.email}",
            after={"role": invitation.role},
        )
    return membership


def _acceptance_refusal(invitation: Invitation, user: User) -> Refused | None:
    if not selectors.user_owns_address(user, invitation.email):
        return Refused(
            "other_address",
            f"This invitation is for {invitation.email}. Log in with that address, and confirm it first.",
        )
    if Membership.objects.filter(user=user).exists():
        return ALREADY_A_MEMBER
    return None


@transaction.atomic
def invitation_revoke(*, invitation: Invitation, by: Access, at: datetime, reason: str = "") -> Refused | None:
    if refusal := may_change_members(by, invitation.tenant, reason):
        return refusal
    with scope(invitation.tenant):
        Tenant.objects.select_for_update().get(pk=invitation.tenant_id)
        current = Invitation.objects.get(pk=invitation.pk)
        if refusal := invitation_state(current, at):
            return refusal
        current.revoked_at = at
        current.save(update_fields=["revoked_at"])
        history.append(
            at=at,
            by=by,
            tenant=invitation.tenant,
            action="invitation_revoke",
            subject=f"invitation of {current.email}",
            reason=reason,
            before={"role": current.role},
        )
    return None
