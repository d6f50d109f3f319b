"""Tokens: shown once, kept as a hash, never more than their person may at the moment of the call."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from scheduling.models import AuditKind, AuditRun, LabStudy, StudyState
from tenants.models import ApiToken, AuditEntry, Membership
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, PRESETS, SCOPES, SUBMITTER, VIEWER, Permission
from tenants.scoping import scope
from tenants.selectors import access_of
from tenants.services import (
    claims_apply,
    member_add,
    member_remove,
    member_role_change,
    staff_grant,
    staff_revoke,
    token_create,
    token_hash,
)
from tests.api.builders import Program, problem, program, program_of
from tests.scheduling.builders import make_pool
from tests.tenants.builders import (
    SYSTEM,
    WHY,
    access,
    client_of,
    done,
    make_mapping,
    make_member,
    make_person,
    make_staff,
    make_tenant,
)

pytestmark = pytest.mark.django_db
TOKENS = "tenants/lumen/tokens/"
NEW = {"name": "nightly", "scopes": ["jobs:read", "jobs:write"]}


def test_every_permission_has_exactly_one_scope() -> None:
    all_permissions = [permission for permissions in SCOPES.values() for permission in permissions]
    assert sorted(all_permissions) == sorted(Permission)


def test_secret_is_shown_once_and_kept_as_a_hash() -> None:
    caller = program_of(OWNER, make_tenant("lumen"))
    reply = caller.post(TOKENS, NEW)
    issued = reply.json()
    secret = issued["secret"]
    assert (reply.status_code, secret.startswith("bourse_"), len(secret)) == (201, True, 50)
    assert issued["hint"] == secret[:13]
    row = ApiToken.objects.get(pk=issued["id"])
    assert row.token_hash == token_hash(secret)
    assert Program(secret).get("me/").json()["token"]["id"] == row.pk
    assert all("secret" not in each for each in caller.get(TOKENS).json()["results"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(row_to_json(t)::text, '') FROM tenants_apitoken t")
        assert secret not in cursor.fetchone()[0]


def test_replay_of_a_creation_has_no_secret_and_makes_no_second_token() -> None:
    caller = program_of(OWNER, make_tenant("lumen"))
    first, second = (caller.post(TOKENS, NEW, key="k1") for _ in range(2))
    assert second["Idempotent-Replay"] == "true"
    assert second.json() == first.json() | {"secret": None}
    assert first.json()["secret"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(row_to_json(k)::text, '') FROM tenants_keptanswer k")
        assert first.json()["secret"] not in cursor.fetchone()[0]


@pytest.mark.parametrize("role", [VIEWER, SUBMITTER, BILLING])
def test_role_that_was_lowered_lowers_its_tokens_at_once(role: str) -> None:
    tenant = make_tenant("lumen")
    make_member(tenant, OWNER)
    member = make_member(tenant, OWNER)
    caller = program(member.user, tenant)
    assert caller.get("tenants/lumen/jobs/").status_code == 200
    done(member_role_change(membership=member, role=role, by=SYSTEM, at=timezone.now(), reason=WHY))
    expected = 403 if role == BILLING else 200
    assert caller.get("tenants/lumen/jobs/").status_code == expected
    assert caller.post("tenants/lumen/jobs/cancel/", {"jobs": [1]}).status_code == (200 if role == SUBMITTER else 403)


def test_token_of_who_has_left_finds_nothing() -> None:
    tenant = make_tenant("lumen")
    make_member(tenant, OWNER)
    member = make_member(tenant, OWNER)
    caller = program(member.user, tenant)
    done(member_remove(membership=member, by=SYSTEM, at=timezone.now(), reason=WHY))
    problem(caller.get("tenants/lumen/jobs/"), 401, "token_revoked")


def by_their_roles_alone() -> None:
    """Take back what the services wrote in the tokens: the look-up has to see by itself that they have ended."""
    ApiToken.objects.update(revoked_at=None, revoked_by=None)


def test_token_of_who_left_and_came_back_stays_without_rights() -> None:
    tenant = make_tenant("lumen")
    make_member(tenant, OWNER)
    member = make_member(tenant, OWNER)
    old = program(member.user, tenant)
    done(member_remove(membership=member, by=access(member), at=timezone.now()))
    done(member_add(tenant=tenant, user=member.user, role=OWNER, by=SYSTEM, reason=WHY, at=timezone.now()))
    problem(old.get("tenants/lumen/jobs/"), 401, "token_revoked")
    by_their_roles_alone()
    problem(old.get("tenants/lumen/jobs/"), 404, "not_found")
    problem(old.get("pools/"), 404, "not_found")
    assert (old.get("me/").json()["tenants"], old.get("tenants/").json()["results"]) == ([], [])
    assert program(member.user, tenant).get("tenants/lumen/jobs/").status_code == 200


def test_token_of_who_left_and_came_back_by_single_sign_on_stays_without_rights() -> None:
    tenant, person = make_tenant("lumen"), make_person()
    make_mapping("groups", "gpu", tenant, SUBMITTER)
    claims_apply(user=person, claims={"groups": "gpu"}, at=timezone.now())
    old = program(person, tenant)
    for groups in ("", "gpu"):
        claims_apply(user=person, claims={"groups": groups}, at=timezone.now())
    problem(old.get("tenants/lumen/jobs/"), 401, "token_revoked")
    by_their_roles_alone()
    problem(old.get("tenants/lumen/jobs/"), 404, "not_found")


def test_token_goes_on_while_the_role_changes_by_hand_and_by_claims() -> None:
    tenant, person = make_tenant("lumen"), make_person()
    owner = make_member(tenant, OWNER)
    make_mapping("groups", "gpu", tenant, SUBMITTER)
    make_mapping("groups", "look", tenant, VIEWER)
    claims_apply(user=person, claims={"groups": "gpu"}, at=timezone.now())
    caller = program(person, tenant)
    claims_apply(user=person, claims={"groups": "look"}, at=timezone.now())
    assert caller.get("me/").json()["tenants"][0]["role"] == VIEWER
    with scope(tenant):
        member = Membership.objects.select_related("tenant", "user").get(user=person)
    done(member_role_change(membership=member, role=BILLING, by=access(owner), at=timezone.now()))
    assert caller.get("me/").json()["tenants"][0]["role"] == BILLING


def test_staff_token_ends_with_the_roles_that_its_person_had_when_it_was_made() -> None:
    make_staff(OPERATOR)
    user = make_staff(AUDITOR).user
    old = program(user, None)
    change = {"user": user, "by": SYSTEM, "reason": WHY}
    done(staff_grant(**change, role=OPERATOR, at=timezone.now()))
    assert old.get("me/").json()["staff_roles"] == [AUDITOR]  # a token gains nothing by what is granted later
    assert old.get("history/").status_code == 200
    new = program(user, None)
    assert staff_revoke(**change, role=AUDITOR, at=timezone.now()) is None
    problem(old.get("history/"), 401, "token_revoked")
    assert new.get("me/").json()["staff_roles"] == [OPERATOR]
    done(staff_grant(**change, role=AUDITOR, at=timezone.now()))
    by_their_roles_alone()
    problem(old.get("history/"), 403, "not_allowed")
    assert (old.get("me/").json()["staff_roles"], old.get("tenants/").json()["results"]) == ([], [])
    assert new.get("me/").json()["staff_roles"] == [OPERATOR]


def test_what_lists_tokens_says_that_one_ended_with_its_membership() -> None:
    tenant = make_tenant("lumen")
    owner, member = program_of(OWNER, tenant), make_member(tenant, VIEWER)
    token = program(member.user, tenant).token
    assert token is not None
    now = timezone.now()
    done(member_remove(membership=member, by=access_of(owner.token.user, tenant), at=now))
    [row] = owner.get(f"{TOKENS}?revoked=true").json()["results"]
    assert row["id"] == token.pk
    ended = ApiToken.objects.get(pk=token.pk)
    assert (ended.revoked_at, ended.revoked_by) == (now, owner.token.user)


def test_upgrade_ends_tokens_whose_role_ended_before_it() -> None:
    tenant = make_tenant("lumen")
    make_staff(OPERATOR)
    leaver, stays, staff = make_member(tenant, VIEWER), make_member(tenant, VIEWER), make_staff(AUDITOR).user
    ended = [program(leaver.user, tenant).token, program(staff, None).token]
    works = [program(stays.user, tenant).token, program_of(OPERATOR, tenant).token]
    done(member_remove(membership=leaver, by=SYSTEM, reason=WHY, at=timezone.now()))
    assert staff_revoke(user=staff, role=AUDITOR, by=SYSTEM, reason=WHY, at=timezone.now()) is None
    done(member_add(tenant=tenant, user=leaver.user, role=OWNER, by=SYSTEM, reason=WHY, at=timezone.now()))
    by_their_roles_alone()
    with connection.cursor() as cursor:
        cursor.execute(import_module("tenants.migrations.0008_tokens_end_with_their_role").END)
    rows = {row.pk: row.revoked_at is not None for row in ApiToken.objects.all()}
    assert rows == {token.pk: True for token in ended} | {token.pk: False for token in works}


def test_token_of_somebody_switched_off_does_not_work() -> None:
    member = make_member(make_tenant("lumen"), OWNER)
    caller = program(member.user, member.tenant)
    member.user.is_active = False
    member.user.save()
    problem(caller.get("me/"), 401, "token_unknown")


def test_token_for_one_tenant_opens_no_other_of_its_person_nor_staff_addresses() -> None:
    first, second = make_tenant("first"), make_tenant("second")
    member = make_member(first, OWNER)
    make_member(second, OWNER, member.user)
    make_staff(OPERATOR, member.user)
    caller = program(member.user, first)
    assert caller.get("tenants/first/tokens/").status_code == 200
    problem(caller.get("tenants/second/tokens/"), 404, "not_found")
    problem(caller.get("tokens/"), 403, "not_allowed")
    assert [row["slug"] for row in caller.get("me/").json()["tenants"]] == ["first"]


def test_staff_token_has_no_right_of_its_persons_memberships() -> None:
    tenant = make_tenant("lumen")
    member = make_member(tenant, OWNER)
    make_staff(AUDITOR, member.user)
    caller = program(member.user, None)
    assert caller.get("tenants/lumen/jobs/").status_code == 200
    problem(caller.post("tenants/lumen/jobs/cancel/", {"jobs": [1]}), 403, "not_allowed")
    make_staff(AUDITOR)
    done(staff_revoke(user=member.user, role=AUDITOR, by=SYSTEM, reason=WHY, at=timezone.now()) or member)
    problem(caller.get("tenants/lumen/jobs/"), 401, "token_revoked")


def test_scope_that_is_missing_is_named() -> None:
    caller = program_of(OWNER, make_tenant("lumen"), ["jobs:read"])
    document = problem(caller.post("tenants/lumen/jobs/cancel/", {"jobs": [1]}), 403, "scope_missing")
    assert document["numbers"] == {"scope": "jobs:write"}
    assert caller.get("tenants/lumen/jobs/").status_code == 200


@pytest.mark.parametrize("preset", ["read", "metrics"])
def test_token_that_reads_changes_no_study_and_no_audit(preset: str) -> None:
    pool, staff, now = make_pool("main"), make_staff(AUDITOR).user, timezone.now()
    study = LabStudy.objects.create(title="A past", document={}, state=StudyState.DONE, asked_at=now, ended_at=now)
    audit = AuditRun.objects.create(kind=AuditKind.EVERYTHING, pool=pool, asked_at=now)
    reader = program(staff, None, PRESETS[preset].scope_list)
    writer = program(staff, None, [*PRESETS[preset].scope_list, "audit:write"])
    for address, body in (
        ("pools/main/fairness/verify/", {"what": "everything"}),
        (f"audits/{audit.pk}/cancel/", {}),
        (f"lab/studies/{study.pk}/show/", {"shown": True}),
        (f"lab/studies/{study.pk}/remove/", {}),
    ):
        assert problem(reader.post(address, body), 403, "scope_missing")["numbers"] == {"scope": "audit:write"}
        assert writer.post(address, body).status_code < 300
    assert reader.get("lab/studies/").json()["results"] == []


def test_token_makes_no_token_that_may_more_or_lives_longer() -> None:
    caller = program_of(OWNER, make_tenant("lumen"), ["tokens:write", "jobs:read"])
    problem(caller.post(TOKENS, NEW), 403, "beyond_token")
    assert caller.token is not None
    later = (caller.token.expires_at + timedelta(seconds=1)).isoformat()
    problem(caller.post(TOKENS, {"name": "x", "scopes": ["jobs:read"], "expires_at": later}), 403, "beyond_token")
    token = caller.post(TOKENS, {"name": "x", "scopes": ["jobs:read"]}).json()
    assert ApiToken.objects.get(pk=token["id"]).expires_at == caller.token.expires_at


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"expires_at": "2020-01-01T00:00:00Z"}, "invalid_expiry"),
        ({"expires_at": "2999-01-01T00:00:00Z"}, "invalid_expiry"),
        ({"name": "a\nb"}, "invalid_token_name"),
    ],
)
def test_wrong_token_is_refused_in_words(fields: dict[str, str], code: str) -> None:
    caller = program_of(OWNER, make_tenant("lumen"))
    problem(caller.post(TOKENS, NEW | fields), 422, code)


def test_expired_revoked_and_unknown_tokens_are_401_with_a_challenge() -> None:
    member = make_member(make_tenant("lumen"), OWNER)
    caller = program(member.user, member.tenant)
    assert caller.token is not None
    ApiToken.objects.filter(pk=caller.token.pk).update(
        expires_at=timezone.now(), created_at=timezone.now() - timedelta(1)
    )
    problem(caller.get("me/"), 401, "token_expired")
    other = program(member.user, member.tenant)
    assert other.token is not None
    client = client_of(member.user)
    assert client.post(f"/api/v1/{TOKENS}{other.token.pk}/revoke/", content_type="application/json").status_code == 200
    reply = other.get("me/")
    problem(reply, 401, "token_revoked")
    assert reply["WWW-Authenticate"] == 'Bearer realm="bourse", error="invalid_token"'
    for secret in ("bourse_nothing", "x" * 5_000, "é"):
        problem(Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}), 401, "token_unknown")
    reply = Client().get("/api/v1/me/")
    problem(reply, 401, "not_authenticated")
    assert reply["WWW-Authenticate"] == 'Bearer realm="bourse"'


def test_owner_sees_and_revokes_everybodys_and_members_their_own() -> None:
    tenant = make_tenant("lumen")
    owner, viewer = program_of(OWNER, tenant), program_of(VIEWER, tenant)
    assert viewer.token is not None
    assert owner.token is not None
    assert len(owner.get(TOKENS).json()["results"]) == 2
    assert [row["id"] for row in viewer.get(TOKENS).json()["results"]] == [viewer.token.pk]
    problem(viewer.post(f"{TOKENS}{owner.token.pk}/revoke/"), 404, "unknown_token")
    assert owner.post(f"{TOKENS}{viewer.token.pk}/revoke/").json()["revoked_at"].endswith("Z")
    assert [row["id"] for row in owner.get(f"{TOKENS}?revoked=true").json()["results"]] == [viewer.token.pk]


def test_creation_and_revocation_are_in_the_history_without_the_secret() -> None:
    caller = program_of(OWNER, make_tenant("lumen"))
    token = caller.post(TOKENS, NEW).json()
    caller.post(f"{TOKENS}{token['id']}/revoke/")
    caller.post(f"{TOKENS}{token['id']}/revoke/")
    entries = AuditEntry.objects.filter(action__startswith="token_").order_by("sequence")
    actions = [(entry.action, entry.subject.split()[1]) for entry in entries]
    assert actions[1:] == [("token_create", token["hint"]), ("token_revoke", token["hint"])]
    assert token["secret"] not in str(list(entries.values()))


def test_use_is_noted_at_most_once_a_minute(django_assert_num_queries) -> None:
    member = make_member(make_tenant("lumen"), OWNER)
    issued = done(token_create(name="x", scopes=["jobs:read"], by=access(member), at=timezone.now()))
    caller = Program(issued.secret)
    caller.get("me/")
    first = ApiToken.objects.get(pk=issued.token.pk).last_used_at
    caller.get("me/")
    assert first is not None
    assert ApiToken.objects.get(pk=issued.token.pk).last_used_at == first
    ApiToken.objects.filter(pk=issued.token.pk).update(last_used_at=first - timedelta(seconds=61))
    caller.get("me/")
    assert ApiToken.objects.get(pk=issued.token.pk).last_used_at > first


def test_session_works_with_the_csrf_token_and_not_without() -> None:
    member = make_member(make_tenant("lumen"), OWNER)
    client = Client(enforce_csrf_checks=True)
    client.force_login(member.user, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(f"/api/v1/{TOKENS}").status_code == 200
    problem(client.post(f"/api/v1/{TOKENS}", NEW, content_type="application/json"), 403, "csrf_failed")
    client.get("/t/lumen/members/")
    csrf = client.cookies["bourse_csrf"].value
    reply = client.post(f"/api/v1/{TOKENS}", NEW, content_type="application/json", headers={"X-CSRFToken": csrf})
    assert reply.status_code == 201
    with scope(member.tenant):
        assert ApiToken.objects.filter(user=member.user).count() == 1
