"""The operator's table of claims, and the memberships that it makes and ends at a log-in by single sign-on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from tenants import history
from tenants.access import Access, Refused
from tenants.claims import (
    ANY,
    CLAIM_LONGEST,
    VALUE_LONGEST,
    Claims,
    ClaimStep,
    Mapped,
    MembershipStanding,
    Verb,
    roles_claimed,
    steps_by_claims,
)
from tenants.common.limits import LimitOverAll, limit_lock
from tenants.models import AuditEntry, ClaimMapping, Membership, Tenant, User
from tenants.names import is_blank
from tenants.roles import OWNER, TENANT_ROLES, Permission
from tenants.scoping import scope, scope_disabled
from tenants.services.members import NOT_ALLOWED, UNKNOWN_ROLE, invitations_end, membership_begin, reason_refusal
from tenants.services.token_ends import tokens_of_member_end

BY_CLAIMS = Access(user=None, tenant=None, roles=frozenset(), name="single sign-on")
MOST_MAPPINGS = 500  # every log-in compares each

NO_CLAIM = Refused(
    "invalid_claim",
    f"A claim is a name, or a path with dots between names, of at most {CLAIM_LONGEST} characters without blanks.",
)
NO_VALUE = Refused(
    "invalid_claim_value",
    f"A value has 1 to {VALUE_LONGEST} characters that can be seen, blanks at neither end, and one * at most.",
)
MAPPED_ALREADY = Refused("claim_mapped", "This value of this claim has a role in this tenant already.")
TOO_MANY = Refused("too_many_mappings", f"There are {MOST_MAPPINGS} mappings. Use a * for values that begin alike.")
UNKNOWN_MAPPING = Refused("unknown_mapping", "There is no such mapping any more.")
UNKNOWN_TENANT = Refused("unknown_tenant", "There is no such tenant.")

_ACTIONS = {
    Verb.JOIN: "member_claims_join",
    Verb.LEAVE: "member_claims_leave",
    Verb.CHANGE: "member_claims_change",
    Verb.LAST_OWNER: "member_claims_keep",
}


@transaction.atomic
def claim_mapping_add(
    *, claim: str, value: str, tenant: str, role: str, by: Access, reason: str, at: datetime
) -> ClaimMapping | Refused:
    """Add a mapping for the tenant with this short name. It takes effect at the next log-in of each person."""
    if refusal := _may_change(by, role, reason) or _flaw(claim, value):
        return refusal
    place = Tenant.objects.select_for_update().filter(slug=tenant).first()
    if place is None:
        return UNKNOWN_TENANT
    if ClaimMapping.objects.filter(claim=claim, value=value, tenant=place).exists():
        return MAPPED_ALREADY
    limit_lock(LimitOverAll.CLAIM_MAPPINGS)
    if ClaimMapping.objects.count() >= MOST_MAPPINGS:
        return TOO_MANY
    mapping = ClaimMapping.objects.create(claim=claim, value=value, tenant=place, role=role, created_at=at)
    _remember("claim_mapping_add", mapping, by=by, reason=reason, at=at, after={"role": role})
    return mapping


@transaction.atomic
def claim_mapping_change(*, pk: int, role: str, by: Access, reason: str, at: datetime) -> ClaimMapping | Refused:
    """Give the people of a mapping another role."""
    if refusal := _may_change(by, role, reason):
        return refusal
    mapping = ClaimMapping.objects.select_for_update(of=("self",)).select_related("tenant").filter(pk=pk).first()
    if mapping is None:
        return UNKNOWN_MAPPING
    before = mapping.role
    if before == role:
        return mapping
    mapping.role = role
    mapping.save(update_fields=["role"])
    change = {"before": {"role": before}, "after": {"role": role}}
    _remember("claim_mapping_change", mapping, by=by, reason=reason, at=at, **change)
    return mapping


@transaction.atomic
def claim_mapping_remove(*, pk: int, by: Access, reason: str, at: datetime) -> Refused | None:
    """Remove a mapping. The memberships that it made end at the next log-in of their persons."""
    if not by.allows(Permission.TENANTS_CHANGE):
        return NOT_ALLOWED
    if refusal := reason_refusal(reason):
        return refusal
    mapping = ClaimMapping.objects.select_for_update(of=("self",)).select_related("tenant").filter(pk=pk).first()
    if mapping is None:
        return UNKNOWN_MAPPING
    _remember("claim_mapping_remove", mapping, by=by, reason=reason, at=at, before={"role": mapping.role})
    mapping.delete()
    return None


@transaction.atomic
def claims_apply(*, user: User, claims: Claims, at: datetime) -> list[ClaimStep]:
    """Make the person join and leave tenants as the provider's claims say now. The last owner of a tenant stays, and
    the history records that."""
    claimed = roles_claimed(claims, mappings())
    with scope_disabled("claims decide to which tenants a person belongs"):
        by_claims = Membership.objects.filter(user=user).exclude(claim="").values_list("tenant_id", flat=True)
        concerned = claimed.keys() | set(by_claims)
        # They are locked in the order of their numbers, so that two log-ins wait for each other without a deadlock.
        tenants = {row.pk: row for row in Tenant.objects.select_for_update().filter(pk__in=concerned).order_by("pk")}
        standing = [row for row in _standing(user) if row.tenant_id in concerned]
    steps = steps_by_claims(claimed, standing)
    for step in steps:
        _row_change(user, tenants[step.tenant_id], step, at)
    for step in steps:
        _step_remember(user, tenants[step.tenant_id], step, at)
    return steps


def claims_try(*, user: User | None, claims: Claims) -> list[ClaimStep]:
    """Return what a log-in with these claims would do, without a change. `user` is None where there is no
    such person."""
    with scope_disabled("a trial looks at all memberships of one person"):
        standing = _standing(user) if user is not None else []
    return steps_by_claims(roles_claimed(claims, mappings()), standing)


def claims_join_any(claims: Claims) -> bool:
    """Return whether a person with these claims would belong to any tenant."""
    return bool(roles_claimed(claims, mappings()))


def mappings() -> list[Mapped]:
    rows = ClaimMapping.objects.select_related("tenant").order_by("pk")
    return [Mapped(row.pk, row.claim, row.value, row.tenant_id, row.tenant.slug, row.role) for row in rows]


def _standing(user: User) -> list[MembershipStanding]:
    """Return the person's memberships. Needs the scope of all tenants."""
    rows = list(Membership.objects.filter(user=user).select_related("tenant"))
    owners = _owners(row.tenant_id for row in rows)
    return [
        MembershipStanding(
            row.tenant_id, row.tenant.slug, row.role, row.claim, row.role == OWNER and owners[row.tenant_id] == 1
        )
        for row in rows
    ]


def _owners(tenant_ids: Iterable[int]) -> dict[int, int]:
    """Return the number of owners of each tenant."""
    counts = dict.fromkeys(tenant_ids, 0)
    for tenant_id in Membership.objects.filter(tenant__in=counts, role=OWNER).values_list("tenant_id", flat=True):
        counts[tenant_id] += 1
    return counts


def _row_change(user: User, tenant: Tenant, step: ClaimStep, at: datetime) -> None:
    with scope(tenant):
        rows = Membership.objects.filter(user=user)
        if step.verb is Verb.JOIN:
            membership_begin(user, step.role, by=None, at=at, claim=step.words)
        elif step.verb is Verb.LEAVE:
            rows.delete()
            invitations_end(user, at=at)
            tokens_of_member_end(user=user, tenant=tenant, by=None, at=at)
        elif step.verb is Verb.CHANGE:
            rows.update(role=step.role, claim=step.words)


def _step_remember(user: User, tenant: Tenant, step: ClaimStep, at: datetime) -> None:
    action, subject = _ACTIONS.get(step.verb), f"member {user.email}"
    if action is None or (step.verb is Verb.LAST_OWNER and _kept_last(tenant, subject, action)):
        return
    row = {"mapping": step.words} | ({"number": step.number} if step.number else {})
    role = {"role": step.role}
    history.append(
        at=at,
        by=BY_CLAIMS,
        tenant=tenant,
        action=action,
        subject=subject,
        reason=_WHY[step.verb],
        before={"role": step.before} if step.verb is Verb.CHANGE else row | role if step.verb is Verb.LEAVE else None,
        after=None if step.verb is Verb.LEAVE else row | role,
    )


_WHY = {
    Verb.JOIN: "a mapping fits the claims",
    Verb.LEAVE: "no mapping fits the claims any more",
    Verb.CHANGE: "another mapping fits the claims now",
    Verb.LAST_OWNER: "the claims would end or lower this, and the tenant would have no owner",
}


def _kept_last(tenant: Tenant, subject: str, action: str) -> bool:
    """Return whether the history says this already, as its last entry about the member. It is not repeated at every
    log-in."""
    about = AuditEntry.objects.filter(tenant=tenant, subject=subject).order_by("-sequence")
    return about.values_list("action", flat=True).first() == action


def _may_change(by: Access, role: str, reason: str) -> Refused | None:
    if not by.allows(Permission.TENANTS_CHANGE):
        return NOT_ALLOWED
    if role not in TENANT_ROLES:
        return UNKNOWN_ROLE
    return reason_refusal(reason)


def _flaw(claim: str, value: str) -> Refused | None:
    parts = claim.split(".")
    if len(claim) > CLAIM_LONGEST or any(is_blank(part) or any(map(str.isspace, part)) for part in parts):
        return NO_CLAIM
    if "\0" in claim:
        return NO_CLAIM
    is_plain = len(value) <= VALUE_LONGEST and not is_blank(value) and value == value.strip() and "\0" not in value
    return None if is_plain and value.count(ANY) <= 1 else NO_VALUE


def _remember(
    action: str,
    mapping: ClaimMapping,
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
        tenant=mapping.tenant,
        action=action,
        subject=f"claim mapping {mapping}",
        reason=reason,
        before=before,
        after=after,
    )
