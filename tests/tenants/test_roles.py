"""The role table: each role at each address, in its own tenant and in another one, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver
from django.utils import timezone

from tenants import services
from tenants.models import AuditEntry, ClaimMapping, Invitation, JoinRequest, Membership, StaffGrant, Tenant, User
from tenants.roles import (
    AUDITOR,
    BILLING,
    MEANING,
    OPERATOR,
    OWNER,
    ROLES_ALLOWED,
    STAFF_ROLES,
    SUBMITTER,
    TENANT_ROLES,
    VIEWER,
    Permission,
    allows,
)
from tenants.scoping import scope, scope_disabled
from tenants.urls import tenant_patterns, urlpatterns
from tests.tenants.builders import (
    access,
    client_of,
    done,
    make_mapping,
    make_member,
    make_person,
    make_staff,
    make_tenant,
)
from tests.worlds import built_once

OUTSIDER, STRANGER = "outsider", "stranger"  # logged in without any role; not logged in
EVERYBODY = (*TENANT_ROLES, *STAFF_ROLES, OUTSIDER, STRANGER)

LOGIN = "login"  # sent to the log-in page
DONE = "done"  # a change was accepted: redirect to a page


@dataclass(frozen=True)
class Place:
    """One address. `answers` names who gets what; whoever is not named gets `otherwise`."""

    name: str
    method: str
    path: str
    answers: dict[str, int | str]
    otherwise: int | str = 403
    data: tuple[tuple[str, str], ...] = ()


READS = dict.fromkeys((*TENANT_ROLES, *STAFF_ROLES), 200)
REASON = ("reason", "because the table says so")

IN_TENANT = [
    Place("tenant_home", "get", "", dict.fromkeys((*TENANT_ROLES, *STAFF_ROLES), DONE)),  # on to the market
    Place("tenant_members", "get", "members/", READS),
    Place("tenant_history", "get", "history/", {OWNER: 200, AUDITOR: 200, OPERATOR: 200}),
    # Everybody's own tokens. Staff are no members, and make theirs over all tenants.
    Place("tenant_tokens", "get", "tokens/", READS),
    Place(
        "member_role_change",
        "post",
        "members/{member}/role/",
        {OWNER: DONE, OPERATOR: DONE},
        data=(("role", SUBMITTER), REASON),
    ),
    Place("member_remove", "post", "members/{member}/remove/", {OWNER: DONE, OPERATOR: DONE}, data=(REASON,)),
    Place(
        "invitation_create",
        "post",
        "invitations/",
        {OWNER: 200, OPERATOR: 200},
        data=(("email", "new@example.org"), ("role", VIEWER), REASON),
    ),
    Place(
        "invitation_revoke",
        "post",
        "invitations/{invitation}/revoke/",
        {OWNER: DONE, OPERATOR: DONE},
        data=(REASON,),
    ),
    Place(
        "join_accept",
        "post",
        "join-requests/{request}/accept/",
        {OWNER: DONE, OPERATOR: DONE},
        data=(("role", VIEWER), REASON),
    ),
    Place("join_decline", "post", "join-requests/{request}/decline/", {OWNER: DONE, OPERATOR: DONE}, data=(REASON,)),
    Place("may_be_asked", "post", "join-requests/open/", {OWNER: DONE, OPERATOR: DONE}, data=(("on", "no"), REASON)),
    # Staff who are no members have nothing to leave.
    Place("member_leave", "post", "leave/", {**dict.fromkeys(TENANT_ROLES, DONE), AUDITOR: 404, OPERATOR: 404}),
]

OVER_ALL = [
    Place(
        "home",
        "get",
        "/",
        {**dict.fromkeys((*TENANT_ROLES, *STAFF_ROLES), DONE), OUTSIDER: 200, STRANGER: 200},
    ),
    Place("my_tenants", "get", "/mine/", dict.fromkeys((*TENANT_ROLES, *STAFF_ROLES, OUTSIDER), 200)),
    Place("tenants", "get", "/tenants/", {AUDITOR: 200, OPERATOR: 200}),
    Place(
        "tenants",
        "post",
        "/tenants/",
        {OPERATOR: DONE},
        data=(("name", "New"), ("slug", "new"), ("owner", "somebody@example.org"), REASON),
    ),
    Place("owner_invite_again", "post", "/tenants/invitations/{invitation}/again/", {OPERATOR: 200}, data=(REASON,)),
    Place("owner_withdraw", "post", "/tenants/invitations/{invitation}/withdraw/", {OPERATOR: DONE}, data=(REASON,)),
    Place("staff_tokens", "get", "/tokens/", {AUDITOR: 200, OPERATOR: 200}),
    Place("staff", "get", "/staff/", {AUDITOR: 200, OPERATOR: 200}),
    Place(
        "staff_grant",
        "post",
        "/staff/grant/",
        {OPERATOR: DONE},
        data=(("email", "somebody@example.org"), ("role", AUDITOR), REASON),
    ),
    Place("staff_revoke", "post", "/staff/{grant}/revoke/", {OPERATOR: DONE}, data=(REASON,)),
    Place("claims", "get", "/claims/", {AUDITOR: 200, OPERATOR: 200}),
    Place(
        "claim_mapping_add",
        "post",
        "/claims/add/",
        {OPERATOR: DONE},
        data=(("claim", "groups"), ("value", "new"), ("tenant", "own"), ("role", VIEWER), REASON),
    ),
    Place(
        "claim_mapping_change",
        "post",
        "/claims/{mapping}/change/",
        {OPERATOR: DONE},
        data=(("role", SUBMITTER), REASON),
    ),
    Place("claim_mapping_remove", "post", "/claims/{mapping}/remove/", {OPERATOR: DONE}, data=(REASON,)),
    Place("history", "get", "/history/", {AUDITOR: 200, OPERATOR: 200}),
    # Nor is a request: whoever is no member may ask, and whoever asked may withdraw it.
    Place("join_ask", "post", "/mine/ask/", {**dict.fromkeys((*TENANT_ROLES, *STAFF_ROLES, OUTSIDER), 200)}),
    Place("join_withdraw", "post", "/mine/ask/{request}/withdraw/", {}, otherwise=DONE),
    # An invitation is no matter of roles: without one in the session there is nothing to see or accept.
    Place("invitation", "get", "/invitation/", dict.fromkeys(EVERYBODY, 404)),
    Place("invitation_accept", "post", "/invitation/accept/", {}, otherwise=DONE),
    Place("invitation_open", "get", "/invitation/no-such-token/", dict.fromkeys(EVERYBODY, DONE)),
]


NO_ROLE = {"invitation_accept", "join_ask", "join_withdraw"}


@dataclass(frozen=True)
class World:
    tenant: Tenant
    target: Membership
    invitation: Invitation
    grant: StaffGrant
    mapping: ClaimMapping
    request: JoinRequest
    people: Mapping[str, User]  # by role, the outsider among them

    def client(self, role: str) -> Client:
        return Client() if role == STRANGER else client_of(self.people[role])

    def path(self, place: Place) -> str:
        """In this world's tenant where the address belongs to a tenant."""
        rows = {"invitation": self.invitation.pk, "grant": self.grant.pk, "mapping": self.mapping.pk}
        rows |= {"request": self.request.pk}
        path = place.path.format(member=self.target.pk, **rows)
        return path if path.startswith("/") else f"/t/{self.tenant.slug}/{path}"


def make_world(slug: str) -> World:
    tenant = make_tenant(slug)
    first_owner = make_member(tenant, OWNER)
    issued = done(
        services.invitation_create(
            tenant=tenant, email="old@example.org", role=VIEWER, by=access(first_owner), at=timezone.now()
        )
    )
    mapping = make_mapping("groups", slug, tenant, VIEWER)
    done(services.may_be_asked_set(tenant=tenant, on=True, by=access(first_owner), at=timezone.now()))
    fields = {"tenant": slug, "why": "The table asks.", "person": make_person(), "at": timezone.now()}
    request = done(services.join_request_create(**fields))
    people = {role: make_member(tenant, role).user for role in TENANT_ROLES}
    people |= {role: make_staff(role).user for role in STAFF_ROLES} | {OUTSIDER: make_person()}
    target, grant = make_member(tenant, VIEWER), make_staff(AUDITOR)
    return World(tenant, target, issued.invitation, grant, mapping, request, people)


@dataclass(frozen=True)
class Worlds:
    own: World
    other: World


def make_worlds() -> Worlds:
    make_person("somebody@example.org")
    return Worlds(make_world("own"), make_world("other"))


worlds = built_once(make_worlds)


def ask(client: Client, place: Place, path: str) -> int | str:
    response = getattr(client, place.method)(path, dict(place.data))
    if response.status_code != 302:
        return response.status_code
    return LOGIN if response["Location"].startswith("/accounts/login/") else DONE


def everything() -> list[object]:
    """What a request could have changed."""
    with scope_disabled("the test looks at all rows to see that none changed"):
        members = list(Membership.objects.order_by("pk").values_list("pk", "role"))
        invitations = list(Invitation.objects.order_by("pk").values_list("pk", "revoked_at", "accepted_at"))
        requests = list(JoinRequest.objects.order_by("pk").values_list("pk", "state"))
    grants = list(StaffGrant.objects.order_by("pk").values_list("pk", "revoked_at"))
    return [members, invitations, requests, grants, Tenant.objects.count(), AuditEntry.objects.count()]


@pytest.mark.django_db
@pytest.mark.parametrize("role", EVERYBODY)
@pytest.mark.parametrize("place", IN_TENANT, ids=lambda place: place.name)
def test_role_in_its_own_tenant_gets_what_the_table_says(place: Place, role: str, worlds: Worlds) -> None:
    world = worlds.own
    client = world.client(role)
    expected = {OUTSIDER: 404, STRANGER: LOGIN}.get(role) or place.answers.get(role, place.otherwise)
    before = everything()
    assert ask(client, place, world.path(place)) == expected
    changes = place.method == "post" and expected in (DONE, 200)
    assert (everything() != before) == changes


@pytest.mark.django_db
@pytest.mark.parametrize("role", EVERYBODY)
@pytest.mark.parametrize("place", IN_TENANT, ids=lambda place: place.name)
def test_role_in_another_tenant_finds_nothing_there(place: Place, role: str, worlds: Worlds) -> None:
    client, other = worlds.own.client(role), worlds.other
    expected = place.answers.get(role, place.otherwise) if role in STAFF_ROLES else 404
    if role == STRANGER:
        expected = LOGIN
    before = everything()
    assert ask(client, place, other.path(place)) == expected
    changes = place.method == "post" and expected in (DONE, 200)
    assert (everything() != before) == changes


@pytest.mark.django_db
@pytest.mark.parametrize("role", [*TENANT_ROLES, *STAFF_ROLES])
@pytest.mark.parametrize("place", [place for place in IN_TENANT if "{" in place.path], ids=lambda place: place.name)
def test_another_tenants_row_is_not_found_under_the_own_address(place: Place, role: str, worlds: Worlds) -> None:
    client, mixed = worlds.own.client(role), replace(worlds.other, tenant=worlds.own.tenant)
    expected = 404 if role in (OWNER, OPERATOR) else 403
    before = everything()
    assert ask(client, place, mixed.path(place)) == expected
    assert everything() == before


@pytest.mark.django_db
@pytest.mark.parametrize("role", EVERYBODY)
@pytest.mark.parametrize("place", OVER_ALL, ids=lambda place: f"{place.name}-{place.method}")
def test_role_over_all_tenants_gets_what_the_table_says(place: Place, role: str, worlds: Worlds) -> None:
    world = worlds.own
    client = world.client(role)
    expected = place.answers.get(role, LOGIN if role == STRANGER else place.otherwise)
    before = everything()
    assert ask(client, place, world.path(place)) == expected
    changes = place.method == "post" and role == OPERATOR and place.name not in NO_ROLE
    assert (everything() != before) == changes


@pytest.mark.django_db
@pytest.mark.parametrize("slug", ["no-such-tenant", "NO", "..%2f"])
def test_unknown_tenant_answers_like_another_ones(slug: str, worlds: Worlds) -> None:
    client = worlds.own.client(OWNER)
    assert client.get(f"/t/{slug}/").status_code == 404


WITH_THEIR_PAGE = {
    "token_create",
    "token_revoke",
    "staff_token_create",
    "staff_token_revoke",
    "claims_try",  # changes nothing for anybody: tests/tenants/test_claims.py has each role at it
}  # the table of the interface has each role at the same services


def test_every_address_of_this_app_stands_in_the_table() -> None:
    names = {place.name for place in (*IN_TENANT, *OVER_ALL)} | WITH_THEIR_PAGE
    here: list[URLPattern | URLResolver] = [*tenant_patterns, *urlpatterns]
    assert {pattern.name for pattern in here if isinstance(pattern, URLPattern)} == names


def test_every_permission_names_its_roles() -> None:
    assert set(ROLES_ALLOWED) == set(Permission)
    assert all(roles and roles <= set(MEANING) for roles in ROLES_ALLOWED.values())


# What the specification's table says, word for word; the code's table is finer.
MAY = {
    VIEWER: {Permission.JOBS_VIEW, Permission.QUOTA_VIEW, Permission.PRICES_VIEW},
    SUBMITTER: {Permission.JOBS_VIEW, Permission.JOBS_SUBMIT, Permission.JOBS_CANCEL, Permission.QUOTES_MAKE},
    BILLING: {
        Permission.LEDGER_VIEW,
        Permission.BUDGETS_VIEW,
        Permission.BUDGETS_CHANGE,
        Permission.PRICES_VIEW,
        Permission.QUOTA_VIEW,
    },
    OWNER: {Permission.MEMBERS_CHANGE, Permission.TOKENS_CHANGE, Permission.WEBHOOKS_CHANGE, Permission.SHARING_CHANGE},
    AUDITOR: {permission for permission in Permission if permission.value.endswith("_view")} | {Permission.AUDITS_ASK},
    OPERATOR: {
        Permission.CLUSTER_CHANGE,
        Permission.POLICIES_CHANGE,
        Permission.CREDITS_CHANGE,
        Permission.HISTORY_VIEW,
    },
}
MAY_NOT = {
    VIEWER: {Permission.JOBS_SUBMIT, Permission.LEDGER_VIEW, Permission.MEMBERS_CHANGE, Permission.TENANTS_VIEW},
    SUBMITTER: {Permission.LEDGER_VIEW, Permission.BUDGETS_VIEW, Permission.MEMBERS_CHANGE, Permission.TENANTS_VIEW},
    BILLING: {Permission.JOBS_VIEW, Permission.JOBS_SUBMIT, Permission.JOBS_CANCEL, Permission.MEMBERS_CHANGE},
    OWNER: {Permission.TENANTS_VIEW, Permission.CLUSTER_CHANGE, Permission.CREDITS_CHANGE, Permission.STAFF_CHANGE},
    # A token of one's own is a way to come in, and an audit changes nothing of the market.
    AUDITOR: {permission for permission in Permission if not permission.value.endswith("_view")}
    - {Permission.TOKENS_OWN, Permission.AUDITS_ASK},
    OPERATOR: {Permission.JOBS_SUBMIT, Permission.JOBS_CANCEL, Permission.BUDGETS_CHANGE, Permission.SHARING_CHANGE},
}


@pytest.mark.parametrize("role", MEANING)
def test_role_may_what_the_specification_gives_it_and_not_more(role: str) -> None:
    assert {permission for permission in MAY[role] if not allows([role], permission)} == set()
    assert {permission for permission in MAY_NOT[role] if allows([role], permission)} == set()


@pytest.mark.django_db
def test_inactive_person_has_no_role_left() -> None:
    member = make_member(make_tenant("idle"), OWNER)
    member.user.is_active = False
    assert access(member).roles == frozenset()


@pytest.mark.django_db
def test_two_tenants_with_the_same_names_stay_apart() -> None:
    first, second = make_tenant("first", "Vision Lab"), make_tenant("second", "Vision Lab")
    mine, theirs = make_member(first, OWNER), make_member(second, OWNER)
    mine.user.name = theirs.user.name = "Kim Lee"
    mine.user.save()
    theirs.user.save()
    for tenant, member in ((first, mine), (second, theirs)):
        with scope(tenant):
            assert [row.user for row in Membership.objects.select_related("user")] == [member.user]
        html = client_of(member.user).get(f"/t/{tenant.slug}/members/").content.decode()
        assert member.user.email in html
        assert (theirs if member is mine else mine).user.email not in html
