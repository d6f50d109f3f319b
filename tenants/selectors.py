"""Reads: who belongs where. Each function says in which scope it works."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from allauth.account.models import EmailAddress
from django.db.models import OuterRef, QuerySet, Subquery

from tenants.access import NOBODY, Access
from tenants.models import ApiToken, AuditEntry, ClaimMapping, Invitation, Membership, StaffGrant, Tenant, User
from tenants.repeated import RepeatedRead
from tenants.roles import OWNER, Permission
from tenants.scoping import scope_disabled

Place = tuple[int, str | None]  # a person's id, and the name in the address of a tenant; None: a role over all counts


def tenant_by_slug(slug: str) -> Tenant | None:
    return Tenant.objects.filter(slug=slug).first()


def person_by_address(address: str) -> User | None:
    """Whose address this is, proven or not."""
    address = address.strip().lower()
    address_row = EmailAddress.objects.filter(email=address).order_by("-verified", "pk").select_related("user").first()
    return address_row.user if address_row else User.objects.filter(email=address).first()


def staff_roles(user: User) -> frozenset[str]:
    return frozenset(StaffGrant.objects.filter(user=user, revoked_at=None).values_list("role", flat=True))


def access_of(user: User | None, tenant: Tenant | None, own: Iterable[Membership] | None = None) -> Access:
    """The roles that count here: over all, and in this tenant. Works in any scope, because it decides
    whether one may be opened. `own`: the person's memberships, where they are at hand."""
    if user is None or not user.is_active:
        return NOBODY
    roles = staff_roles(user)
    if tenant is not None and own is not None:
        roles |= {row.role for row in own if row.tenant_id == tenant.pk and row.user_id == user.pk}
    elif tenant is not None:
        with scope_disabled("a scope opens only after the membership was looked up"):
            role_names = Membership.objects.filter(tenant=tenant, user=user).values_list("role", flat=True)
            roles |= frozenset(role_names)
    return Access(user=user, tenant=tenant, roles=roles)


def accesses_of(places: Collection[Place]) -> dict[Place, Access]:
    """What `access_of` says at each of these places, in four statements for all of them. Where there is no such person
    or tenant, nobody has access."""
    users = User.objects.in_bulk({person for person, _ in places})
    tenants = {tenant.slug: tenant for tenant in Tenant.objects.filter(slug__in={slug for _, slug in places if slug})}
    over_all: defaultdict[int, set[str]] = defaultdict(set)
    for person, role in StaffGrant.objects.filter(user__in=users, revoked_at=None).values_list("user_id", "role"):
        over_all[person].add(role)
    inside: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    with scope_disabled("who may still listen is asked for all open sockets at once"):
        memberships = Membership.objects.filter(user__in=users, tenant__in=tenants.values()).order_by()
        for person, tenant_id, role in memberships.values_list("user_id", "tenant_id", "role"):
            inside[person, tenant_id].add(role)
    accesses = dict.fromkeys(places, NOBODY)
    for person, slug in places:
        user, tenant = users.get(person), tenants.get(slug) if slug else None
        if user is not None and user.is_active and (slug is None or tenant is not None):
            roles = over_all[person] | (inside[person, tenant.pk] if tenant else set())
            accesses[person, slug] = Access(user=user, tenant=tenant, roles=frozenset(roles))
    return accesses


def access_of_token(token: ApiToken, tenant: Tenant | None) -> Access:
    """What a token that `token_by_hash` has read may at an address: one for a tenant counts its person's membership
    there, and only there; one for no tenant counts its person's roles over all, wherever it is shown. At an address of
    no tenant, the first brings what it may in its own."""
    place = token.tenant or tenant
    if not token.user.is_active or (tenant is not None and place != tenant):
        return NOBODY
    if token.tenant is None:
        return Access(user=token.user, tenant=tenant, roles=staff_roles(token.user), token=token)
    roles = frozenset() if token.role is None else frozenset({token.role})
    return Access(user=token.user, tenant=tenant, roles=roles, token=token)


def access_again(access: Access, at: datetime) -> Access:
    """The same caller at the same place, as of now: a stream outlives a token and a membership."""
    if access.token is None:
        user = User.objects.filter(pk=access.user.pk).first() if access.user else None
        return access_of(user, access.tenant)
    token = token_by_hash(access.token.token_hash)
    if token is None or token.revoked_at is not None or token.expires_at <= at:
        return NOBODY
    return access_of_token(token, access.tenant)


def access_anywhere(user: User) -> Access:
    """All roles that the person has in any tenant or over all: for what every member of the coalition may see."""
    if not user.is_active:
        return NOBODY
    with scope_disabled("a person's own memberships lie in several tenants"):
        own = frozenset(Membership.objects.filter(user=user).values_list("role", flat=True))
    return Access(user=user, tenant=None, roles=staff_roles(user) | own)


def token_by_hash(token_hash: str) -> ApiToken | None:
    """Whatever its state, and with the role that its person has in its tenant now: the caller looks at that."""
    return next(iter(_tokens(token_hash=token_hash)), None)


def _tokens_of(token_hash: str) -> QuerySet[ApiToken]:
    with scope_disabled("a scope opens only after the membership was looked up"):
        memberships = Membership.objects.filter(tenant=OuterRef("tenant"), user=OuterRef("user")).order_by()
    tokens = ApiToken.objects.select_related("user", "tenant").filter(token_hash=token_hash).order_by()
    return tokens.annotate(role=Subquery(memberships.values("role")))  # type: ignore[no-redef]


_tokens = RepeatedRead(_tokens_of, scoped=False, token_hash="of a token")  # noqa: S106  an example


def tokens_working(user: User, at: datetime) -> list[ApiToken]:
    """All of a person's own that work now, the newest first; in any scope."""
    rows = ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=at).select_related("tenant")
    return list(rows.order_by("-pk"))


def token_list(access: Access) -> QuerySet[ApiToken]:
    """The tenant's tokens, or of those the reader's own; at an address of no tenant, the reader's own for none."""
    rows = ApiToken.objects.filter(tenant=access.tenant).select_related("user")
    everybodys = access.tenant is not None and access.allows(Permission.TOKENS_CHANGE)
    return rows if everybodys else rows.filter(user=access.user)


@dataclass(frozen=True)
class OwnTenant:
    slug: str
    name: str
    role: str


def memberships_of(user: User) -> list[Membership]:
    """All of a person's, with their tenants, by name; in any scope."""
    with scope_disabled("a person's own memberships lie in several tenants"):
        rows = Membership.objects.filter(user=user).select_related("tenant")
        return list(rows.order_by("tenant__name", "pk"))


def own_tenants(memberships: Iterable[Membership]) -> list[OwnTenant]:
    return [OwnTenant(row.tenant.slug, row.tenant.name, row.role) for row in memberships]


def user_tenants(user: User) -> list[OwnTenant]:
    """Every tenant the person belongs to, in any scope: the switcher shows them all."""
    return own_tenants(memberships_of(user))


@dataclass(frozen=True)
class TenantReached:
    slug: str
    name: str
    role: str | None  # None: reached by a role over all


def tenants_reached(access: Access) -> list[TenantReached]:
    """Where the caller may go, by name: for the staff everywhere, with a token for one tenant there alone."""
    if access.user is None:
        return []
    if access.allows(Permission.TENANTS_VIEW):
        return [TenantReached(tenant.slug, tenant.name, None) for tenant in Tenant.objects.all()]
    token = access.token
    only = None if token is None else token.tenant.slug if token.tenant else ""
    own = [own for own in user_tenants(access.user) if only in (None, own.slug)]
    return [TenantReached(tenant.slug, tenant.name, tenant.role) for tenant in own]


@dataclass(frozen=True)
class TenantSummary:
    slug: str
    name: str
    members: int
    owners: tuple[str, ...]


def tenant_list() -> list[TenantSummary]:
    """Every tenant, for the staff."""
    by_tenant: dict[int, list[Membership]] = {}
    with scope_disabled("staff see every tenant"):
        for row in Membership.objects.select_related("user").order_by("pk"):
            by_tenant.setdefault(row.tenant_id, []).append(row)
    return [_summary(tenant, by_tenant.get(tenant.pk, [])) for tenant in Tenant.objects.all()]


def _summary(tenant: Tenant, members: list[Membership]) -> TenantSummary:
    owners = tuple(str(row.user) for row in members if row.role == OWNER)
    return TenantSummary(tenant.slug, tenant.name, len(members), owners)


def member_list() -> QuerySet[Membership]:
    """The open tenant's members, by name."""
    return Membership.objects.select_related("user").order_by("user__name", "user__email")


def member_by_id(member_id: int) -> Membership | None:
    """Of the open tenant."""
    return Membership.objects.select_related("user", "tenant").filter(pk=member_id).first()


def invitation_by_id(invitation_id: int) -> Invitation | None:
    """Of the open tenant, whatever its state."""
    return Invitation.objects.select_related("tenant", "invited_by").filter(pk=invitation_id).first()


def invitation_list(at: datetime) -> QuerySet[Invitation]:
    """The open tenant's invitations that can still be accepted."""
    rows = Invitation.objects.filter(accepted_at=None, revoked_at=None, expires_at__gt=at)
    return rows.select_related("invited_by").order_by("-created_at")


def invitation_by_hash(token_hash: str) -> Invitation | None:
    """Whoever has the token may read the invitation, whatever its state, before belonging to the tenant."""
    with scope_disabled("an invitation is found by its token, by somebody who has no tenant yet"):
        rows = Invitation.objects.select_related("tenant", "invited_by")
        return rows.filter(token_hash=token_hash).first()


def invitations_of_owners(most: int) -> list[Invitation]:
    """Of all tenants, those of owners who have not come yet, the newest first; also what has expired meanwhile."""
    with scope_disabled("staff see who was invited to begin a tenant"):
        rows = Invitation.objects.select_related("tenant", "invited_by")
        return list(rows.filter(role=OWNER, accepted_at=None, revoked_at=None).order_by("-created_at", "-pk")[:most])


def invitation_anywhere(invitation_id: int) -> Invitation | None:
    """Of any tenant, for the staff."""
    with scope_disabled("staff change an invitation at an address of no tenant"):
        return Invitation.objects.select_related("tenant", "invited_by").filter(pk=invitation_id).first()


def invitations_to(emails: Iterable[str], at: datetime) -> list[Invitation]:
    """To whichever tenants these addresses are invited now. Only for addresses that somebody has proved to own."""
    with scope_disabled("the invited person belongs to none of these tenants yet"):
        rows = Invitation.objects.select_related("tenant", "invited_by")
        waiting = rows.filter(email__in=list(emails), accepted_at=None, revoked_at=None, expires_at__gt=at)
        return list(waiting.order_by("pk"))


def addresses_of(user: User) -> list[str]:
    """The mailboxes that the person has proved to own, in lower case."""
    rows = EmailAddress.objects.filter(user=user, verified=True).values_list("email", flat=True)
    return [email.lower() for email in rows]


def user_owns_address(user: User, email: str) -> bool:
    """Has the person proved that the mailbox is theirs?"""
    return EmailAddress.objects.filter(user=user, email__iexact=email, verified=True).exists()


def persons_by_addresses(emails: Iterable[str]) -> list[tuple[str, int]]:
    """(address, person) of those who have proved to own one of these addresses, which are in lower case."""
    rows = EmailAddress.objects.filter(email__in=list(emails), verified=True, user__is_active=True)
    return list(rows.order_by("pk").values_list("email", "user_id"))


def audit_entries(access: Access) -> QuerySet[AuditEntry]:
    """What this reader may see of the history: the tenant's part, everything, or nothing. Newest first."""
    entries = AuditEntry.objects.order_by("-sequence")
    if access.tenant is not None and access.allows(Permission.TENANT_HISTORY_VIEW):
        return entries.filter(tenant=access.tenant)
    if access.tenant is None and access.allows(Permission.HISTORY_VIEW):
        return entries.select_related("tenant")
    return entries.none()


@dataclass(frozen=True)
class ClaimMappingRow:
    mapping: ClaimMapping
    members: int  # that this mapping made and that are still there


def claim_mapping_list() -> list[ClaimMappingRow]:
    """The operator's table, by tenant, each row with the memberships that it made."""
    with scope_disabled("staff see what a mapping of claims made in every tenant"):
        counts = Counter(Membership.objects.exclude(claim="").values_list("tenant_id", "claim").order_by())
    rows = ClaimMapping.objects.select_related("tenant").order_by("tenant__name", "tenant__slug", "pk")
    return [ClaimMappingRow(row, counts[row.tenant_id, str(row)]) for row in rows]


def staff_list() -> Iterable[StaffGrant]:
    return StaffGrant.objects.select_related("user", "granted_by", "revoked_by").order_by("-granted_at")
