"""Services that make tenants, and add, change and remove their members."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Model

from tenants import history
from tenants.access import Access, Refused
from tenants.models import Invitation, JoinRequest, JoinState, Membership, Tenant, User
from tenants.names import is_blank, name_flaw
from tenants.roles import OPERATOR, OWNER, TENANT_ROLES, Permission
from tenants.scoping import scope
from tenants.selectors import addresses_of
from tenants.services.token_ends import tokens_of_member_end

NOT_ALLOWED = Refused("not_allowed", "Your role does not allow this.")
NO_REASON = Refused("reason_missing", "Say why: an operator's change always names its reason.")
REASON_LONGEST = 300  # characters that the history can hold
REASON_TOO_LONG = Refused("reason_too_long", f"Say it in {REASON_LONGEST} characters at most.")
OPERATOR_NAME = "operator"  # the name of the operator's share in results and payouts
RESERVED_SLUG = Refused("invalid_tenant", "No tenant may be called operator: the market's own share bears that name.")
UNKNOWN_ROLE = Refused("unknown_role", "There is no such role.")
ALREADY_A_MEMBER = Refused("already_member", "You are a member already.")
NO_LONGER_A_MEMBER = Refused("not_member", "This person is no longer a member.")
INVALID_EMAIL = Refused("invalid_email", "This is not an e-mail address.")
ADDRESS_LONGEST = 254  # characters; nobody can have a longer one, though the framework lets 320 pass
LAST_OWNER = Refused("last_owner", "A tenant keeps at least one owner. Make somebody else an owner first.")


def reason_refusal(reason: str) -> Refused | None:
    """Return why this reason is refused: a change that needs a reason needs one that the history can hold."""
    if is_blank(reason):
        return NO_REASON
    return REASON_TOO_LONG if len(reason) > REASON_LONGEST else None


def address_refusal(email: str) -> Refused | None:
    """Return why this is no e-mail address that a person can have, or None."""
    try:
        validate_email(email)
    except ValidationError:
        return INVALID_EMAIL
    return INVALID_EMAIL if len(email) > ADDRESS_LONGEST else None


def unknown_tenant(slug: str) -> Refused:
    return Refused("unknown_tenant", f"There is no tenant {slug}.")


def strangers_refusal(slugs: Collection[str]) -> Refused | None:
    """Refuse short names if one of them is no tenant's, and name the first such one."""
    strangers = set(slugs) - set(Tenant.objects.filter(slug__in=slugs).values_list("slug", flat=True))
    return unknown_tenant(min(strangers)) if strangers else None


def row_refusal(row: Model, code: str) -> Refused | None:
    """Return what the model's own rules object to in a row that is not yet saved, as a refusal with this code."""
    return Refused(code, flaw) if (flaw := _flaw_of(row)) else None


def row_store(row: Model, code: str) -> Refused | None:
    """Store a new row to which its model's own rules did not object. If somebody else has stored one of the same name
    since, they do now."""
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        if flaw := _flaw_of(row):
            return Refused(code, flaw)
        raise
    return None


def _flaw_of(row: Model) -> str:
    """Return what a model's own rules object to in a row, in words of people where it is there already; else an empty
    text."""
    try:
        row.full_clean()
    except ValidationError as error:
        flaws = [each for errors in error.error_dict.values() for each in errors]
        if any(flaw.code in ("unique", "unique_together") for flaw in flaws):
            return f"There is such a {row._meta.verbose_name} already."
        return " ".join(error.messages)
    return ""


@transaction.atomic
def tenant_create(*, slug: str, name: str, by: Access, reason: str, at: datetime) -> Tenant | Refused:
    if not by.allows(Permission.TENANTS_CHANGE):
        return NOT_ALLOWED
    if refusal := reason_refusal(reason):
        return refusal
    if slug == OPERATOR_NAME:
        return RESERVED_SLUG
    name = name.strip()
    if flaw := name_flaw(name):
        return Refused("invalid_tenant", flaw)
    tenant = Tenant(slug=slug, name=name)
    if refusal := row_refusal(tenant, "invalid_tenant") or row_store(tenant, "invalid_tenant"):
        return refusal
    history.append(
        at=at,
        by=by,
        tenant=tenant,
        action="tenant_create",
        subject=f"tenant {slug}",
        reason=reason,
        after={"slug": slug, "name": tenant.name},
    )
    return tenant


@transaction.atomic
def member_add(*, tenant: Tenant, user: User, role: str, by: Access, reason: str, at: datetime) -> Membership | Refused:
    """Add a member without asking the person. This is an operator's tool; owners invite."""
    if not by.allows(Permission.TENANTS_CHANGE):
        return NOT_ALLOWED
    if refusal := reason_refusal(reason):
        return refusal
    if role not in TENANT_ROLES:
        return UNKNOWN_ROLE
    with scope(tenant):
        _lock(tenant)
        if Membership.objects.filter(user=user).exists():
            return Refused("already_member", f"{user} is a member already.")
        membership = membership_begin(user, role, by=by.user, at=at)
        _remember("member_add", membership, by=by, reason=reason, at=at, after={"role": role})
    return membership


@transaction.atomic
def member_role_change(
    *, membership: Membership, role: str, by: Access, at: datetime, reason: str = ""
) -> Membership | Refused:
    if refusal := may_change_members(by, membership.tenant, reason):
        return refusal
    if role not in TENANT_ROLES:
        return UNKNOWN_ROLE
    with scope(membership.tenant):
        current = _fresh(membership)
        if current is None:
            return NO_LONGER_A_MEMBER
        before, claim = current.role, current.claim
        if before == role and not claim:
            return current
        if before == OWNER and role != OWNER and _is_last_owner(current):
            return LAST_OWNER
        current.role, current.claim = role, ""  # it counts as made by hand from now on, so claims leave it as it is
        current.save(update_fields=["role", "claim"])
        _remember(
            "member_role_change",
            current,
            by=by,
            reason=reason,
            at=at,
            before={"role": before} | ({"mapping": claim} if claim else {}),
            after={"role": role},
        )
    return current


@transaction.atomic
def member_remove(*, membership: Membership, by: Access, at: datetime, reason: str = "") -> Refused | None:
    """Remove a member: an owner or operator does it, or the member who leaves. The member's tokens for the tenant end,
    and do not come back with the member. So do invitations that are still open: the member came in by another way, and
    would come back by them."""
    leaves = by.user is not None and by.user.pk == membership.user_id and by.has_scope(Permission.MEMBERSHIP_END)
    if not leaves and (refusal := may_change_members(by, membership.tenant, reason)):
        return refusal
    with scope(membership.tenant):
        current = _fresh(membership)
        if current is None:
            return NO_LONGER_A_MEMBER
        if current.role == OWNER and _is_last_owner(current):
            return LAST_OWNER
        tokens_of_member_end(user=current.user, tenant=membership.tenant, by=by.user, at=at)
        invitations_end(current.user, at=at)
        _remember("member_remove", current, by=by, reason=reason, at=at, before={"role": current.role})
        current.delete()
    return None


def may_change_members(by: Access, tenant: Tenant, reason: str) -> Refused | None:
    """Return why members may not be changed. Owners may in their own tenant; operators may anywhere, with a reason."""
    owns = OWNER in by.roles and by.tenant == tenant
    if not (owns or OPERATOR in by.roles) or not by.has_scope(Permission.MEMBERS_CHANGE):
        return NOT_ALLOWED
    if not owns and (refusal := reason_refusal(reason)):
        return refusal
    return None


def membership_begin(user: User, role: str, *, by: User | None, at: datetime, claim: str = "") -> Membership:
    """Create a membership; no other function does. It is in the open tenant, whose row the caller has locked, for a
    person who is no member. A waiting request of the person to join is accepted with it. `by` is the person who decided
    it, or None where no person did."""
    membership: Membership = Membership.objects.create(user=user, role=role, claim=claim, created_at=at)
    waiting = JoinRequest.objects.filter(person=user, state=JoinState.WAITING)
    waiting.update(state=JoinState.ACCEPTED, role=role, ended_at=at, ended_by=by)
    return membership


def invitations_end(user: User, *, at: datetime) -> None:
    """Withdraw the open tenant's invitations to a person whose membership ends, at whichever address that the person
    has proved. They are from before the membership, since no member is invited."""
    open_ones = Invitation.objects.filter(email__in=addresses_of(user), accepted_at=None, revoked_at=None)
    open_ones.update(revoked_at=at)


def _lock(tenant: Tenant) -> None:
    """Lock the tenant, so that its members are changed one after the other; else two owners could remove each other."""
    Tenant.objects.select_for_update().get(pk=tenant.pk)


def _fresh(membership: Membership) -> Membership | None:
    """Return the membership as it is once the lock is held; the caller's copy may be old."""
    _lock(membership.tenant)
    return Membership.objects.select_related("user", "tenant").filter(pk=membership.pk).first()


def _is_last_owner(membership: Membership) -> bool:
    return not Membership.objects.filter(role=OWNER).exclude(pk=membership.pk).exists()


def _remember(
    action: str,
    membership: Membership,
    *,
    by: Access,
    reason: str,
    at: datetime,
    before: history.Values | None = None,
    after: history.Values | None = None,
) -> None:
    history.append(
        at=at,
        by=by,
        tenant=membership.tenant,
        action=action,
        subject=f"member {membership.user.email}",
        reason=reason,
        before=before,
        after=after,
    )
