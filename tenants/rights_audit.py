"""Verify that who may do what is as the history left it: members, roles over all tenants, invitations, mappings of
claims, tokens.

The history is folded from its first entry on, and the rows are compared with the result. Its entries name people by the
addresses that they had at the time. So an address that nobody has any more may be that of any member.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from allauth.account.models import EmailAddress

from tenants.common.guards import Flaw
from tenants.common.moments import one_moment
from tenants.history import exact
from tenants.models import ApiToken, AuditEntry, ClaimMapping, Invitation, Membership, StaffGrant, Tenant, User
from tenants.scoping import scope_disabled

JOINS = ("member_add", "invitation_accept", "join_request_accept", "member_claims_join")
CHANGES = ("member_role_change", "member_claims_change")
LEAVES = ("member_remove", "member_claims_leave")
NEARLY = timedelta(minutes=1)  # older versions let the database's clock say when a membership began; later is no harm


@dataclass
class MemberSet:
    """A membership as the history says it should be."""

    role: str
    claim: str
    since: datetime


def verify() -> list[Flaw]:
    """Compare every right that a person or a token has with the history."""
    with one_moment(), scope_disabled("rights are compared over all tenants"):
        return [*_members(), *_staff(), *_invitations(), *_mappings(), *_tokens()]


def _members() -> Iterator[Flaw]:
    people = _people_by_address()
    right: defaultdict[int | None, dict[int | str, MemberSet]] = defaultdict(dict)
    for entry in _entries(*JOINS, *CHANGES, *LEAVES):
        address = entry.subject.partition(" of " if entry.action == "join_request_accept" else " ")[2]
        person, members = people.get(address, address), right[entry.tenant_id]
        before, after = entry.before or {}, entry.after or {}
        member = MemberSet(after.get("role", ""), after.get("mapping", ""), entry.at)
        if entry.action not in JOINS:
            before_it = members.pop(_place(members, person, before.get("role", "")), None)
            member.since = before_it.since if before_it else entry.at
        if entry.action not in LEAVES:
            members[person] = member
    tenants = dict(Tenant.objects.values_list("pk", "slug"))
    for row in Membership.objects.select_related("user").order_by("pk"):
        where = f"member {row.user.email} of {tenants.get(row.tenant_id, f'tenant {row.tenant_id}')}"
        members = right[row.tenant_id]
        one = members.pop(_place(members, row.user_id, row.role), None)
        if one is None:
            yield Flaw(where, f"nothing tells that this person became a member as {row.role}")
            continue
        if row.role != one.role:
            yield Flaw(where, f"the role is {row.role}, and should be {one.role}")
        if row.claim != one.claim:
            yield Flaw(where, f"the membership rests on {row.claim or 'a person'}, and should on {one.claim or 'one'}")
        if row.created_at < one.since - NEARLY:
            yield Flaw(where, f"the membership began {row.created_at}, and should have {one.since}")
    addresses = dict(User.objects.values_list("pk", "email"))
    for tenant, members in right.items():
        for person, one in members.items():
            name = addresses.get(person, person) if isinstance(person, int) else person
            yield Flaw(f"member {name} of {tenants.get(tenant or 0, tenant)}", f"the membership as {one.role} is gone")


def _place(members: dict[int | str, MemberSet], person: int | str, role: str) -> int | str:
    """Return under which key the person stands among the members: the own one, or an address that nobody has now and
    that stands for this role."""
    if person in members:
        return person
    return next((key for key, one in members.items() if isinstance(key, str) and one.role == role), person)


def _people_by_address() -> dict[str, int]:
    """Return the number of each person by the addresses that the person has now."""
    more = EmailAddress.objects.filter(verified=True).values_list("email", "user_id")
    return {email.lower(): number for email, number in [*more, *User.objects.values_list("email", "pk")]}


def _staff() -> Iterator[Flaw]:
    """Compare the roles over all tenants. Each entry explains one row, at its moment."""
    people, grants = _people_by_address(), defaultdict[tuple[str, datetime], list[str]](list)
    ends = Counter[tuple[str, datetime]]()
    for entry in _entries("staff_grant", "staff_revoke"):
        if entry.action == "staff_grant":
            grants[(entry.after or {}).get("role", ""), entry.at].append(entry.subject.removeprefix("person "))
        else:
            ends[(entry.before or {}).get("role", ""), entry.at] += 1
    for row in StaffGrant.objects.select_related("user").order_by("pk"):
        where, addresses = f"{row.role} {row.user.email}", grants[row.role, row.granted_at]
        own = [each for each in addresses if people.get(each, row.user_id) == row.user_id]
        if not own:
            yield Flaw(where, "no entry of the history tells that this person was given the role")
            continue
        addresses.remove(own[0])
        if row.revoked_at is not None:
            ends[row.role, row.revoked_at] -= 1
    for (role, _), addresses in grants.items():
        for address in addresses:
            yield Flaw(f"{role} {address}", "the row of the role is gone")
    for (role, at), number in ends.items():
        if number:
            what = "a role was taken then, and is there" if number > 0 else "no entry tells that a role was taken then"
            yield Flaw(f"{role} at {at}", what)


def _invitations() -> Iterator[Flaw]:
    """Compare the invitations: whoever puts one in place has a door to a role."""
    beginnings, withdrawals = Counter[tuple[object, ...]](), defaultdict[tuple[int | None, str], list[datetime]](list)
    for entry in _entries("invitation_create", "invitation_revoke"):
        email, after = entry.subject.removeprefix("invitation of "), entry.after or {}
        if entry.action == "invitation_create":
            beginnings[entry.tenant_id, email, entry.at, after.get("role"), after.get("expires_at")] += 1
        else:
            withdrawals[entry.tenant_id, email].append(entry.at)
    for row in Invitation.objects.select_related("tenant").order_by("pk"):
        where = f"invitation of {row.email} to {row.tenant.slug}"
        key = (row.tenant_id, row.email, row.created_at, row.role, exact(row.expires_at))
        beginnings[key] -= 1
        if beginnings[key] < 0:
            yield Flaw(where, f"no entry of the history tells of it, as {row.role} until {row.expires_at}")
        is_open = row.revoked_at is None and row.accepted_at is None
        if is_open and any(at >= row.created_at for at in withdrawals[row.tenant_id, row.email]):
            yield Flaw(where, "it was withdrawn, and is open")


def _mappings() -> Iterator[Flaw]:
    right: dict[tuple[int | None, str], str] = {}
    for entry in _entries("claim_mapping_add", "claim_mapping_change", "claim_mapping_remove"):
        key = entry.tenant_id, entry.subject.removeprefix("claim mapping ")
        right.pop(key, None)
        if entry.after is not None:
            right[key] = entry.after.get("role", "")
    rows: dict[tuple[int | None, str], str] = {}
    rows |= {(row.tenant_id, str(row)): row.role for row in ClaimMapping.objects.order_by("pk")}
    for tenant, words in sorted(rows.keys() | right.keys(), key=str):
        stored, role = rows.get((tenant, words)), right.get((tenant, words))
        if stored != role:
            yield Flaw(f"claim mapping {words} in tenant {tenant}", f"it gives {stored}, and should give {role}")


def _tokens() -> Iterator[Flaw]:
    """Compare the tokens: whose they are, for what, until when, and which of them were withdrawn."""
    beginnings: defaultdict[tuple[str, datetime], list[Sequence[object]]] = defaultdict(list)
    withdrawals: defaultdict[tuple[str, int | None], list[datetime]] = defaultdict(list)
    for entry in _entries("token_create", "token_revoke"):
        hint = entry.subject.removeprefix("token ").partition(" of ")[0]
        after = entry.after or {}
        if entry.action == "token_create":
            beginnings[hint, entry.at].append(
                [entry.actor_id, entry.tenant_id, after.get("scopes"), after.get("expires_at")]
            )
        else:
            withdrawals[hint, entry.tenant_id].append(entry.at)
    for row in ApiToken.objects.select_related("user").order_by("pk"):
        where, entries = f"token {row.hint} of {row.user.email}", beginnings[row.hint, row.created_at]
        if [row.user_id, row.tenant_id, row.scopes, exact(row.expires_at)] not in entries:
            yield Flaw(where, "its person, tenant, scopes or end are not those with which it was made")
        if row.revoked_at is None and any(at >= row.created_at for at in withdrawals[row.hint, row.tenant_id]):
            yield Flaw(where, "it was withdrawn, and works")


def _entries(*actions: str) -> Iterator[AuditEntry]:
    return AuditEntry.objects.filter(action__in=actions).order_by("sequence").iterator(chunk_size=2_000)
