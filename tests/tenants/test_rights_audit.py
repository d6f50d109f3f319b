"""Whoever gives a right behind the product's back is named: to a person, by an invitation, by a mapping, to a token."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import NamedTuple

import pytest
from allauth.account.models import EmailAddress
from django.core.management import CommandError, call_command

from tenants import rights_audit, services
from tenants.models import Invitation, Membership, StaffGrant, Tenant
from tenants.roles import AUDITOR, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope_disabled
from tenants.services.claims import claims_apply
from tests.ledger.builders import tamper
from tests.tenants.builders import NOW, SYSTEM, WHY, access, done, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=1)


class World(NamedTuple):
    tenant: Tenant
    owner: Membership
    member: Membership
    stranger: int
    grant: StaffGrant
    token: int


@pytest.fixture
def world() -> World:
    """Everything of which rights come, some of it changed and taken back since."""
    tenant, stranger = make_tenant("castor"), make_person("stranger@example.org")
    owner, member = make_member(tenant, OWNER), make_member(tenant, SUBMITTER, make_person("member@example.org"))
    by = access(owner)
    done(services.member_role_change(membership=member, role=VIEWER, by=by, at=LATER))
    leaver = make_member(tenant, SUBMITTER)
    assert services.member_remove(membership=leaver, by=by, at=LATER) is None
    make_staff(OPERATOR)
    grant = make_staff(AUDITOR, make_person("auditor@example.org"))
    past = make_staff(OPERATOR, make_person("past@example.org"))
    assert services.staff_revoke(user=past.user, role=OPERATOR, by=SYSTEM, reason=WHY, at=LATER) is None
    invitation = done(services.invitation_create(tenant=tenant, email="new@example.org", role=VIEWER, by=by, at=NOW))
    withdrawn = done(services.invitation_create(tenant=tenant, email="not@example.org", role=VIEWER, by=by, at=NOW))
    assert services.invitation_revoke(invitation=withdrawn.invitation, by=by, at=LATER) is None
    newcomer = make_person("new@example.org")
    hashed = services.token_hash(invitation.token)
    done(services.invitation_accept(token_hash=hashed, user=newcomer, at=LATER))
    for claim, role in (("groups", SUBMITTER), ("team", VIEWER)):
        fields = {"claim": claim, "value": "ml", "tenant": "castor", "role": role}
        done(services.claim_mapping_add(**fields, by=SYSTEM, reason=WHY, at=NOW))
    claims_apply(user=make_person("claimed@example.org"), claims={"groups": ["ml"]}, at=NOW)
    token = done(services.token_create(name="one", scopes=["jobs:read"], by=by, at=NOW)).token
    revoked = done(services.token_create(name="two", scopes=["jobs:read"], by=by, at=NOW)).token
    done(services.token_revoke(token_id=revoked.pk, by=by, at=LATER))
    return World(tenant, owner, member, stranger.pk, grant, token.pk)


def findings() -> list[str]:
    return [str(flaw) for flaw in rights_audit.verify()]


def test_all_that_came_by_the_product_is_explained(world: World) -> None:
    assert findings() == []


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE tenants_membership SET role = 'owner' WHERE id = {member}", "the role is owner, and should be viewer"),
        ("UPDATE tenants_membership SET user_id = {stranger} WHERE id = {member}", "nothing tells that this person"),
        (
            "INSERT INTO tenants_membership (tenant_id, user_id, role, created_at, claim)"
            " VALUES ({tenant}, {stranger}, 'owner', now(), '')",
            "nothing tells that this person became a member as owner",
        ),
        ("DELETE FROM tenants_membership WHERE id = {member}", "the membership as viewer is gone"),
        ("UPDATE tenants_membership SET created_at = created_at - interval '1 day' WHERE id = {member}", "began"),
        ("UPDATE tenants_membership SET claim = '' WHERE claim <> ''", "rests on a person"),
        (
            "INSERT INTO tenants_staffgrant (user_id, role, granted_at, granted_reason, revoked_reason)"
            " VALUES ({stranger}, 'operator', now(), '', '')",
            "no entry of the history tells that this person was given the role",
        ),
        ("UPDATE tenants_staffgrant SET role = 'operator' WHERE id = {grant}", "operator auditor@example.org"),
        ("UPDATE tenants_staffgrant SET user_id = {stranger} WHERE id = {grant}", "auditor stranger@example.org"),
        ("UPDATE tenants_staffgrant SET revoked_at = NULL WHERE revoked_at IS NOT NULL", "a role was taken then"),
        ("UPDATE tenants_staffgrant SET revoked_at = now() WHERE id = {grant}", "no entry tells that a role was taken"),
        ("DELETE FROM tenants_staffgrant WHERE id = {grant}", "the row of the role is gone"),
        ("UPDATE tenants_invitation SET role = 'owner' WHERE revoked_at IS NOT NULL", "no entry of the history tells"),
        (
            "UPDATE tenants_invitation SET expires_at = expires_at + interval '1 year' WHERE revoked_at IS NOT NULL",
            "no entry of the history tells",
        ),
        ("UPDATE tenants_invitation SET revoked_at = NULL", "it was withdrawn, and is open"),
        ("UPDATE tenants_claimmapping SET role = 'owner' WHERE claim = 'team'", "it gives owner, and should"),
        ("UPDATE tenants_claimmapping SET value = '*' WHERE claim = 'team'", "claim mapping team = *"),
        ("DELETE FROM tenants_claimmapping WHERE claim = 'team'", "it gives None, and should"),
        ("UPDATE tenants_apitoken SET scopes = scopes || 'cells:write'::varchar WHERE id = {token}", "its person"),
        ("UPDATE tenants_apitoken SET expires_at = expires_at + interval '1 year' WHERE id = {token}", "its person"),
        ("UPDATE tenants_apitoken SET user_id = {stranger} WHERE id = {token}", "its person"),
        ("UPDATE tenants_apitoken SET tenant_id = NULL WHERE id = {token}", "its person"),
        ("UPDATE tenants_apitoken SET revoked_at = NULL", "it was withdrawn, and works"),
    ],
)
def test_right_that_was_given_behind_the_product_is_named(world: World, sql: str, what: str) -> None:
    numbers = {"member": world.member.pk, "grant": world.grant.pk, "tenant": world.tenant.pk}
    tamper(sql.format(**numbers, stranger=world.stranger, token=world.token))
    stated = findings()
    assert stated
    assert any(what in line for line in stated), stated
    errors = io.StringIO()
    with pytest.raises((SystemExit, CommandError)):
        call_command("verify_history", stderr=errors, stdout=io.StringIO())
    assert what in errors.getvalue()


def test_persons_who_change_their_addresses_stay_members(world: World) -> None:
    """The address with which a member came belongs to nobody any more; the role changes under another one."""
    member = world.member
    for address in ("second@example.org", "third@example.org"):
        EmailAddress.objects.filter(user=member.user).delete()
        member.user.email = address
        member.user.save(update_fields=["email"])
        if address == "second@example.org":
            done(services.member_role_change(membership=member, role=SUBMITTER, by=access(world.owner), at=LATER))
    world.grant.user.email = "other@example.org"
    world.grant.user.save(update_fields=["email"])
    EmailAddress.objects.filter(user=world.grant.user).delete()
    assert findings() == []
    tamper("UPDATE tenants_membership SET role = 'owner' WHERE id = %s", [member.pk])
    assert findings() == [
        "member third@example.org of castor: nothing tells that this person became a member as owner",
        "member second@example.org of castor: the membership as submitter is gone",
    ]


def test_address_that_another_account_names_without_proof_is_not_that_accounts(world: World) -> None:
    for user in (world.member.user, world.grant.user):
        address, user.email = user.email, f"other-{user.pk}@example.org"
        user.save(update_fields=["email"])
        EmailAddress.objects.create(user=make_person(), email=address)
    assert findings() == []


def test_invitation_that_another_one_replaced_is_explained(world: World) -> None:
    by = access(world.owner)
    for at in (LATER, LATER + timedelta(hours=1)):
        done(services.invitation_create(tenant=world.tenant, email="not@example.org", role=OWNER, by=by, at=at))
    assert findings() == []
    with scope_disabled("the test counts all"):
        assert Invitation.objects.filter(email="not@example.org", revoked_at=None).count() == 1
