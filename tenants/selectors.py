"""Reads of people, tenants and memberships. Each function says in which scope it works."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from allauth.account.models import EmailAddress
from django.db.models import OuterRef, QuerySet, Subquery

from tenants.access import NOBODY, Access
from tenants.common.repeated import RepeatedRead, Whose
from tenants.models import ApiToken, AuditEntry, ClaimMapping, Invitation, Membership, StaffGrant, Tenant, User
from tenants.roles import OWNER, Permission
from tenants.scoping import scope_disabled
from tenants.sessions import Login, logins_open

# Who listens where: a log-in, and the tenant's name in addresses, or None where staff roles count.
Place = tuple[Login | None, str | None]


def tenant_by_slug(slug: str) -> Tenant | None:
    return Tenant.objects.filter(slug=slug).first()


def person_by_address(address: str) -> User | None:
    """Return the person with this address, whether it is verified or not."""
    address = address.strip().lower()
    address_row = EmailAddress.objects.filter(email=address).order_by("-verified", "pk").select_related("user").first()
    return address_row.user if address_row else User.objects.filter(email=address).first()


def owner_of_address(address: str) -> User | None:
    """Return the person whose address this is: who has confirmed it, or else whose account began with it. Whoever has
    added it to an account without proof does not count."""
    row = EmailAddress.objects.filter(email=address.lower(), verified=True).select_related("user").first()
    return row.user if row else User.objects.filter(email=address.lower()).first()


def staff_roles(user: User) -> frozenset[str]:
    return frozenset(StaffGrant.objects.filter(user=user, revoked_at=None).values_list("role", flat=True))


def access_of(user: User | None, tenant: Tenant | None, own: Iterable[Membership] | None = None) -> Access:
    """Return the person's access with the roles that count here: staff roles, and those in this tenant. Works in any
    scope, because it decides whether a scope may be opened. `own` are the person's memberships, if the caller has
    them."""
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


def accesses_of(places: Collection[Place], at: datetime) -> dict[Place, Access]:
    """Return what `access_of` returns for each of these places, in five statements for all of them. A place without
    such a person or tenant gives no access, and neither does a log-in whose session has ended."""
    logins = {login for login, _ in places if login is not None}
    users = User.objects.in_bulk({login.person for login in logins})
    logins = logins_open(logins, users, at)
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
    for login, slug in places:
        user, tenant = users[login.person] if login in logins else None, tenants.get(slug) if slug else None
        if user is not None and user.is_active and (slug is None or tenant is not None):
            roles = over_all[user.pk] | (inside[user.pk, tenant.pk] if tenant else set())
            accesses[login, slug] = Access(user=user, tenant=tenant, roles=frozenset(roles))
    return accesses


def access_of_token(token: ApiToken, tenant: Tenant | None) -> Access:
    """Return the access of a token, as `token_by_hash` has read it, at an address. A token for a tenant has its
    person's role in that tenant, and works only there; a token for no tenant has its person's staff roles at every
    address. At an address of no tenant, a token for a tenant has its rights in its own tenant. A membership or a staff
    role that began after the token gives it nothing: a token that has lost its role does not come back with its
    person."""
    place = token.tenant or tenant
    if not token.user.is_active or (tenant is not None and place != tenant):
        return NOBODY
    if token.tenant is None:
        grants = StaffGrant.objects.filter(user=token.user, revoked_at=None, granted_at__lte=token.created_at)
        role_names = frozenset(grants.values_list("role", flat=True))
        return Access(user=token.user, tenant=tenant, roles=role_names, token=token)
    roles = frozenset() if token.role is None else frozenset({token.role})
    return Access(user=token.user, tenant=tenant, roles=roles, token=token)


def access_again(access: Access, at: datetime) -> Access:
    """Return the access that the same caller has now at the same place: a stream outlives a token, a session and a
    membership."""
    if access.token is None:
        login = access.login
        users = User.objects.in_bulk([login.person]) if login else {}
        if login is None or not logins_open([login], users, at):
            return NOBODY
        return replace(access_of(users[login.person], access.tenant), login=login)
    token = token_by_hash(access.token.token_hash)
    if token is None or token.revoked_at is not None or token.expires_at <= at:
        return NOBODY
    return access_of_token(token, access.tenant)


def access_anywhere(user: User) -> Access:
    """Return an access with all roles of the person, in any tenant or as staff: for what every member of the coalition
    may see."""
    if not user.is_active:
        return NOBODY
    with scope_disabled("a person's own memberships lie in several tenants"):
        own = frozenset(Membership.objects.filter(user=user).values_list("role", flat=True))
    return Access(user=user, tenant=None, roles=staff_roles(user) | own)


def token_by_hash(token_hash: str) -> ApiToken | None:
    """Return the token with the role that its person has in its tenant now, and had without a break since the token
    was made. The caller checks the token's state."""
    return next(iter(_tokens(token_hash=token_hash)), None)


def _tokens_of(token_hash: str) -> QuerySet[ApiToken]:
    with scope_disabled("a scope opens only after the membership was looked up"):
        same = {"tenant": OuterRef("tenant"), "user": OuterRef("user"), "created_at__lte": OuterRef("created_at")}
        memberships = Membership.objects.filter(**same).order_by()
    tokens = ApiToken.objects.select_related("user", "tenant").filter(token_hash=token_hash).order_by()
    return tokens.annotate(role=Subquery(memberships.values("role")))  # type: ignore[no-redef]


_tokens = RepeatedRead(_tokens_of, of=Whose.NONE, token_hash="of a token")  # noqa: S106  an example


def tokens_working(user: User, at: datetime) -> list[ApiToken]:
    """Return the person's own tokens that work now, the newest first. Works in any scope."""
    rows = ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=at).select_related("tenant")
    return list(rows.order_by("-pk"))


def token_list(access: Access) -> QuerySet[ApiToken]:
    """Return the tenant's tokens: all for a reader who may change them, else the reader's own. At an address of no
    tenant, return the reader's own tokens that are for no tenant."""
    rows = ApiToken.objects.filter(tenant=access.tenant).select_related("user")
    everybodys = access.tenant is not None and access.allows(Permission.TOKENS_CHANGE)
    return rows if everybodys else rows.filter(user=access.user)


@dataclass(frozen=True)
class OwnTenant:
    slug: str
    name: str
    role: str


def memberships_of(user: User) -> list[Membership]:
    """Return all memberships of a person with their tenants, by the tenant's name. Works in any scope."""
    with scope_disabled("a person's own memberships lie in several tenants"):
        rows = Membership.objects.filter(user=user).select_related("tenant")
        return list(rows.order_by("tenant__name", "pk"))


def own_tenants(memberships: Iterable[Membership]) -> list[OwnTenant]:
    return [OwnTenant(row.tenant.slug, row.tenant.name, row.role) for row in memberships]


def user_tenants(user: User) -> list[OwnTenant]:
    """Return every tenant that the person belongs to. Works in any scope, because the switcher shows them all."""
    return own_tenants(memberships_of(user))


@dataclass(frozen=True)
class TenantReached:
    slug: str
    name: str
    role: str | None  # None if reached by a staff role


def tenants_reached(access: Access) -> list[TenantReached]:
    """Return the tenants that the caller may open, by name: staff may open all, a token for a tenant only that one."""
    if access.user is None:
        return []
    if access.allows(Permission.TENANTS_VIEW):
        return [TenantReached(tenant.slug, tenant.name, None) for tenant in Tenant.objects.all()]
    token = access.token
    if token is not None and not access.roles:
        return []
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
    """Return every tenant, for the staff."""
    by_tenant: dict[int, list[Membership]] = {}
    with scope_disabled("staff see every tenant"):
        for row in Membership.objects.select_related("user").order_by("pk"):
            by_tenant.setdefault(row.tenant_id, []).append(row)
    return [_summary(tenant, by_tenant.get(tenant.pk, [])) for tenant in Tenant.objects.all()]


def _summary(tenant: Tenant, members: list[Membership]) -> TenantSummary:
    owners = tuple(str(row.user) for row in members if row.role == OWNER)
    return TenantSummary(tenant.slug, tenant.name, len(members), owners)


def member_list() -> QuerySet[Membership]:
    """Return the open tenant's members, by name."""
    return Membership.objects.select_related("user").order_by("user__name", "user__email")


def member_by_id(member_id: int) -> Membership | None:
    """Return a membership of the open tenant."""
    return Membership.objects.select_related("user", "tenant").filter(pk=member_id).first()


def invitation_by_id(invitation_id: int) -> Invitation | None:
    """Return an invitation of the open tenant, whatever its state."""
    return Invitation.objects.select_related("tenant", "invited_by").filter(pk=invitation_id).first()


def invitation_list(at: datetime) -> QuerySet[Invitation]:
    """Return the open tenant's invitations that can still be accepted."""
    rows = Invitation.objects.filter(accepted_at=None, revoked_at=None, expires_at__gt=at)
    return rows.select_related("invited_by").order_by("-created_at")


def invitation_by_hash(token_hash: str) -> Invitation | None:
    """Return the invitation with this token, whatever its state. Its holder need not belong to the tenant yet."""
    with scope_disabled("an invitation is found by its token, by somebody who has no tenant yet"):
        rows = Invitation.objects.select_related("tenant", "invited_by")
        return rows.filter(token_hash=token_hash).first()


def invitations_of_owners(most: int) -> list[Invitation]:
    """Return the invitations of all tenants to owners that were not accepted yet, also expired ones, newest first."""
    with scope_disabled("staff see who was invited to begin a tenant"):
        rows = Invitation.objects.select_related("tenant", "invited_by")
        return list(rows.filter(role=OWNER, accepted_at=None, revoked_at=None).order_by("-created_at", "-pk")[:most])


def invitation_anywhere(invitation_id: int) -> Invitation | None:
    """Return an invitation of any tenant, for the staff."""
    with scope_disabled("staff change an invitation at an address of no tenant"):
        return Invitation.objects.select_related("tenant", "invited_by").filter(pk=invitation_id).first()


def invitations_to(emails: Iterable[str], at: datetime) -> list[Invitation]:
    """Return the open invitations to these addresses, of all tenants. The addresses must be verified."""
    with scope_disabled("the invited person belongs to none of these tenants yet"):
        rows = Invitation.objects.select_related("tenant", "invited_by")
        waiting = rows.filter(email__in=list(emails), accepted_at=None, revoked_at=None, expires_at__gt=at)
        return list(waiting.order_by("pk"))


def addresses_of(user: User) -> list[str]:
    """Return the addresses that the person has verified, in lower case."""
    rows = EmailAddress.objects.filter(user=user, verified=True).values_list("email", flat=True)
    return [email.lower() for email in rows]


def user_owns_address(user: User, email: str) -> bool:
    """Return whether the person has verified the address."""
    return EmailAddress.objects.filter(user=user, email__iexact=email, verified=True).exists()


def persons_by_addresses(emails: Iterable[str]) -> list[tuple[str, int]]:
    """Return (address, person) of those who have verified one of these addresses, which are in lower case."""
    rows = EmailAddress.objects.filter(email__in=list(emails), verified=True, user__is_active=True)
    return list(rows.order_by("pk").values_list("email", "user_id"))


def audit_entries(access: Access) -> QuerySet[AuditEntry]:
    """Return what this reader may see of the history, newest first: the tenant's part, everything, or nothing."""
    entries = AuditEntry.objects.order_by("-sequence")
    if access.tenant is not None and access.allows(Permission.TENANT_HISTORY_VIEW):
        return entries.filter(tenant=access.tenant)
    if access.tenant is None and access.allows(Permission.HISTORY_VIEW):
        return entries.select_related("tenant")
    return entries.none()


@dataclass(frozen=True)
class ClaimMappingRow:
    mapping: ClaimMapping
    members: int  # memberships that this mapping made and that still exist


def claim_mapping_list() -> list[ClaimMappingRow]:
    """Return the operator's mappings by tenant, each with the number of memberships that it made."""
    with scope_disabled("staff see what a mapping of claims made in every tenant"):
        counts = Counter(Membership.objects.exclude(claim="").values_list("tenant_id", "claim").order_by())
    rows = ClaimMapping.objects.select_related("tenant").order_by("tenant__name", "tenant__slug", "pk")
    return [ClaimMappingRow(row, counts[row.tenant_id, str(row)]) for row in rows]


def staff_list() -> Iterable[StaffGrant]:
    return StaffGrant.objects.select_related("user", "granted_by", "revoked_by").order_by("-granted_at")
