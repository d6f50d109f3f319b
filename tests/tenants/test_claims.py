"""Claims of a provider: what a table of mappings makes of them, at a log-in and on the page where it is tried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from tenants import history, services
from tenants.claims import Mapped, MembershipStanding, Verb, claim_values, roles_claimed, steps_by_claims, value_fits
from tenants.models import AuditEntry, ClaimMapping, Membership, Tenant, User
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, TENANT_ROLES, VIEWER
from tenants.scoping import scope, scope_disabled
from tests.tenants.builders import (
    NOW,
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
from tests.tenants.provider import Provider
from tests.tenants.test_members import refusal
from tests.tenants.test_single_sign_on import logged_in_as, provider, sign_on

__all__ = ["provider"]  # the fixture

EMAIL = "ines@lumen.example"

# --- what stands in claims


@pytest.mark.parametrize(
    ("claims", "path", "values"),
    [
        ({"groups": ["a", "b"]}, "groups", ("a", "b")),
        ({"groups": "a"}, "groups", ("a",)),
        ({"groups": "a, b"}, "groups", ("a, b",)),  # a name may have a comma: one text is one value
        ({"groups": []}, "groups", ()),
        ({}, "groups", ()),
        ({"groups": None}, "groups", ()),
        ({"realm_access": {"roles": ["r"]}}, "realm_access.roles", ("r",)),
        ({"realm_access": ["r"]}, "realm_access.roles", ()),
        ({"realm_access": "r"}, "realm_access.roles", ()),
        ({"https://lumen.example/groups": ["a"]}, "https://lumen.example/groups", ("a",)),
        ({"a.b": {"c": "long"}, "a": {"b": {"c": "short"}}}, "a.b.c", ("long",)),
        ({"teams": [{"name": "a"}, {"name": "b"}, "c"]}, "teams.name", ("a", "b")),
        ({"is_staff": True, "level": 7, "half": 0.5}, "is_staff", ("true",)),
        ({"level": 7}, "level", ("7",)),
        ({"half": 0.5}, "half", ()),
        ({"groups": [["a"], {"b": 1}]}, "groups", ()),
        ({"groups": {"a": 1}}, "groups", ()),
        ({"email": EMAIL}, "email", ()),
        ({"email": EMAIL, "email_verified": False}, "email", ()),
        ({"email": EMAIL, "email_verified": True}, "email", (EMAIL,)),
        ({"email": EMAIL, "email_verified": "true"}, "email", (EMAIL,)),
    ],
)
def test_values_of_a_claim(claims: dict[str, Any], path: str, values: tuple[str, ...]) -> None:
    assert claim_values(claims, path) == values


@pytest.mark.parametrize(
    ("wanted", "value", "fits"),
    [
        ("lumen", "lumen", True),
        ("lumen", "Lumen", False),
        ("lumen", "lumen-x", False),
        ("lumen-*", "lumen-", True),
        ("lumen-*", "lumen-gpu", True),
        ("lumen-*", "my-lumen-gpu", False),
        ("*-admins", "lumen-admins", True),
        ("a*a", "a", False),  # the two ends do not share a character
        ("a*a", "aa", True),
        ("*", "", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
    ],
)
def test_value_fits_exactly_or_by_its_star(wanted: str, value: str, fits: bool) -> None:
    assert value_fits(wanted, value) is fits


@given(st.text("ab*", max_size=6).filter(lambda text: text.count("*") <= 1), st.text("ab", max_size=6))
def test_value_fits_as_a_regular_expression_does(wanted: str, value: str) -> None:
    expression = ".*".join(map(re.escape, wanted.split("*")))
    assert value_fits(wanted, value) is bool(re.fullmatch(expression, value, re.DOTALL))


def row(number: int, value: str, tenant_id: int, role: str) -> Mapped:
    return Mapped(number, "groups", value, tenant_id, f"t{tenant_id}", role)


def test_of_several_roles_the_first_in_the_order_counts_and_of_equals_the_oldest_row() -> None:
    table = [row(1, "a", 1, VIEWER), row(2, "b", 1, SUBMITTER), row(3, "*", 1, SUBMITTER), row(4, "a", 2, BILLING)]
    assert roles_claimed({"groups": ["a", "b"]}, table) == {1: table[1], 2: table[3]}
    assert roles_claimed({"groups": ["z"]}, table) == {1: table[2]}
    assert roles_claimed({}, table) == {}
    both = [row(1, "a", 1, BILLING), row(2, "a", 1, SUBMITTER), row(3, "a", 1, OWNER)]
    assert roles_claimed({"groups": "a"}, both) == {1: both[2]}
    assert roles_claimed({"groups": "a"}, both[:2]) == {1: both[1]}


RULE = "groups = old"


@pytest.mark.parametrize(
    ("claimed", "standing", "verb", "role"),
    [
        (SUBMITTER, None, Verb.JOIN, SUBMITTER),
        (SUBMITTER, MembershipStanding(1, "t1", SUBMITTER, RULE, False), Verb.STAY, SUBMITTER),
        (VIEWER, MembershipStanding(1, "t1", OWNER, RULE, False), Verb.CHANGE, VIEWER),
        (OWNER, MembershipStanding(1, "t1", VIEWER, RULE, False), Verb.CHANGE, OWNER),
        (None, MembershipStanding(1, "t1", VIEWER, RULE, False), Verb.LEAVE, VIEWER),
        (None, MembershipStanding(1, "t1", OWNER, RULE, True), Verb.LAST_OWNER, OWNER),
        (VIEWER, MembershipStanding(1, "t1", OWNER, RULE, True), Verb.LAST_OWNER, OWNER),
        (OWNER, MembershipStanding(1, "t1", OWNER, RULE, True), Verb.STAY, OWNER),
        *(
            (role, MembershipStanding(1, "t1", VIEWER, "", False), Verb.BY_HAND, VIEWER)
            for role in (None, VIEWER, OWNER)
        ),
        (VIEWER, MembershipStanding(1, "t1", OWNER, "", False), Verb.BY_HAND, OWNER),
    ],
)
def test_step_for_each_case(claimed: str | None, standing: MembershipStanding | None, verb: Verb, role: str) -> None:
    rows = {1: row(9, "a", 1, claimed)} if claimed else {}
    (step,) = steps_by_claims(rows, [standing] if standing else [])
    assert (step.verb, step.role) == (verb, role)
    assert step.words == ("groups = a" if claimed else standing.claim if standing else "")


@given(
    st.lists(st.sampled_from(TENANT_ROLES), min_size=3, max_size=3),
    st.lists(
        st.none() | st.tuples(st.sampled_from(TENANT_ROLES), st.booleans(), st.booleans()), min_size=3, max_size=3
    ),
    st.sets(st.integers(0, 2)),
)
def test_hand_made_and_last_owners_are_never_touched(roles, standing, claimed: set[int]) -> None:
    now = [
        MembershipStanding(i, f"t{i}", each[0], RULE if each[1] else "", each[2] and each[0] == OWNER)
        for i, each in enumerate(standing)
        if each
    ]
    steps = steps_by_claims({i: row(i, "a", i, roles[i]) for i in claimed}, now)
    touched = {step.tenant_id for step in steps if step.changes}
    assert not touched & {each.tenant_id for each in now if not each.claim or each.is_last_owner}
    # Whoever is not protected has exactly what the claims say.
    after = {step.tenant_id: step.role for step in steps if step.verb is not Verb.LEAVE}
    exempt = {each.tenant_id: each.role for each in now if not each.claim or each.is_last_owner}
    assert after == {i: roles[i] for i in claimed} | exempt


# --- what is done to memberships


def members(tenant: Tenant) -> dict[str, tuple[str, str]]:
    with scope(tenant):
        return {row.user.email: (row.role, row.claim) for row in Membership.objects.select_related("user")}


def apply(user: User, **claims: Any) -> list[Verb]:
    return [step.verb for step in services.claims_apply(user=user, claims=claims, at=NOW)]


def entries(*actions: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action__in=actions).order_by("sequence"))


CLAIM_ACTIONS = ("member_claims_join", "member_claims_leave", "member_claims_change", "member_claims_keep")


@pytest.mark.django_db
def test_join_change_and_leave_are_done_and_remembered_with_the_row() -> None:
    lumen, delta, person = make_tenant("lumen"), make_tenant("delta"), make_person(EMAIL)
    make_member(lumen, OWNER)
    first = make_mapping("groups", "gpu-*", lumen, SUBMITTER)
    make_mapping("groups", "board", lumen, OWNER)
    make_mapping("groups", "board", delta, BILLING)
    assert apply(person, groups="gpu-vision") == [Verb.JOIN]
    assert members(lumen)[EMAIL] == (SUBMITTER, "groups = gpu-*")
    assert apply(person, groups=["gpu-vision"]) == [Verb.STAY]
    assert apply(person, groups=["gpu-vision", "board"]) == [Verb.CHANGE, Verb.JOIN]
    assert members(lumen)[EMAIL] == (OWNER, "groups = board")
    assert members(delta)[EMAIL] == (BILLING, "groups = board")
    assert apply(person, groups=[]) == [Verb.LEAVE, Verb.LEAVE]
    assert EMAIL not in members(lumen) | members(delta)
    rows = entries(*CLAIM_ACTIONS)
    assert [(entry.action[14:], entry.tenant) for entry in rows] == [
        ("join", lumen), ("change", lumen), ("join", delta), ("leave", lumen), ("leave", delta),
    ]  # fmt: skip
    assert rows[0].after == {"mapping": "groups = gpu-*", "number": first.pk, "role": SUBMITTER}
    assert (rows[1].before, rows[1].after["role"]) == ({"role": SUBMITTER}, OWNER)
    assert (rows[3].before, rows[3].after) == ({"mapping": "groups = board", "role": OWNER}, None)
    assert {entry.actor_name for entry in rows} == {"single sign-on"}
    assert isinstance(history.verify(), history.VerifiedHistory)


@pytest.mark.django_db
def test_membership_by_hand_is_left_alone_and_one_by_claims_becomes_one_by_hand() -> None:
    lumen, person = make_tenant("lumen"), make_person(EMAIL)
    owner, member = make_member(lumen, OWNER), make_member(lumen, BILLING, person)
    make_mapping("groups", "a", lumen, OWNER)
    for groups in ("a", "b"):
        assert apply(person, groups=groups) in ([], [Verb.BY_HAND])
        assert members(lumen)[EMAIL] == (BILLING, "")
    with scope(lumen):
        Membership.objects.filter(pk=member.pk).delete()
    assert apply(person, groups="a") == [Verb.JOIN]
    with scope(lumen):
        joined = Membership.objects.select_related("tenant", "user").get(user=person)
    # Even the same role, said by an owner, is an owner's word.
    done(services.member_role_change(membership=joined, role=OWNER, by=access(owner), at=NOW))
    assert members(lumen)[EMAIL] == (OWNER, "")
    assert apply(person, groups="b") == []
    assert EMAIL in members(lumen)
    assert entries("member_role_change")[-1].before == {"role": OWNER, "mapping": "groups = a"}


@pytest.mark.django_db
def test_last_owner_stays_and_the_history_says_so_once() -> None:
    lumen, person = make_tenant("lumen"), make_person(EMAIL)
    make_mapping("groups", "a", lumen, OWNER)
    make_mapping("groups", "b", lumen, VIEWER)
    assert apply(person, groups="a") == [Verb.JOIN]
    for groups in ("none", "none", "b"):
        assert apply(person, groups=groups) == [Verb.LAST_OWNER]
    assert members(lumen)[EMAIL] == (OWNER, "groups = a")
    (entry,) = entries("member_claims_keep")
    assert "no owner" in entry.reason
    make_member(lumen, OWNER)
    assert apply(person, groups="b") == [Verb.CHANGE]
    assert members(lumen)[EMAIL][0] == VIEWER


@pytest.mark.django_db
def test_who_leaves_by_claims_does_not_come_back_by_an_invitation_from_before() -> None:
    lumen, person = make_tenant("lumen"), make_person(EMAIL)
    owner = make_member(lumen, OWNER)
    invited = done(services.invitation_create(tenant=lumen, email=EMAIL, role=VIEWER, by=access(owner), at=NOW))
    make_mapping("groups", "a", lumen, VIEWER)
    assert apply(person, groups="a") == [Verb.JOIN]
    assert apply(person, groups="") == [Verb.LEAVE]
    outcome = services.invitation_accept(token_hash=services.token_hash(invited.token), user=person, at=NOW)
    assert refusal(outcome) == "invitation_revoked"


@pytest.mark.django_db
def test_two_owners_by_claims_never_leave_both() -> None:
    lumen, ines, omar = make_tenant("lumen"), make_person(), make_person()
    make_mapping("groups", "a", lumen, OWNER)
    assert [apply(ines, groups="a"), apply(omar, groups="a")] == [[Verb.JOIN], [Verb.JOIN]]
    assert [apply(ines, groups=""), apply(omar, groups="")] == [[Verb.LEAVE], [Verb.LAST_OWNER]]


@pytest.mark.django_db
def test_removed_mapping_ends_what_it_made_at_the_next_log_in() -> None:
    lumen, person = make_tenant("lumen"), make_person(EMAIL)
    mapping = make_mapping("groups", "a", lumen, VIEWER)
    apply(person, groups="a")
    assert services.claim_mapping_remove(pk=mapping.pk, by=SYSTEM, reason=WHY, at=NOW) is None
    assert EMAIL in members(lumen)
    assert apply(person, groups="a") == [Verb.LEAVE]


# --- the table


def add(**values: Any):
    row = {"claim": "groups", "value": "a", "tenant": "lumen", "role": VIEWER, "by": SYSTEM, "reason": WHY, "at": NOW}
    return services.claim_mapping_add(**{**row, **values})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("values", "code"),
    [
        *(({"claim": claim}, "invalid_claim") for claim in ("", ".", "a..b", "a b", "a.", "x" * 121, "a\0")),
        *(({"value": value}, "invalid_claim_value") for value in ("", " ", "**", "a*b*", " a", "x" * 151, "\0")),
        ({"tenant": "nobody"}, "unknown_tenant"),
        ({"role": OPERATOR}, "unknown_role"),
        ({"reason": " "}, "reason_missing"),
        ({"reason": "x" * 301}, "reason_too_long"),
        ({"value": "taken", "role": OWNER}, "claim_mapped"),
    ],
)
def test_bad_row_is_refused(values: dict[str, Any], code: str) -> None:
    make_mapping("groups", "taken", make_tenant("lumen"), VIEWER)
    count = AuditEntry.objects.count()
    assert add(**values).code == code
    assert (ClaimMapping.objects.count(), AuditEntry.objects.count()) == (1, count)


@pytest.mark.django_db
def test_table_has_an_end(monkeypatch) -> None:
    monkeypatch.setattr("tenants.services.claims.MOST_MAPPINGS", 2)
    make_tenant("lumen")
    assert [getattr(add(value=value), "code", "done") for value in "abc"] == ["done", "done", "too_many_mappings"]


@pytest.mark.django_db
def test_changes_of_the_table_are_the_operators_and_in_the_history() -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    mapping = done(add())
    for by in (access(owner), SYSTEM.__class__(user=None, tenant=None, roles=frozenset({AUDITOR}))):
        change = {"pk": mapping.pk, "by": by, "reason": WHY, "at": NOW}
        assert add(value="b", by=by).code == "not_allowed"
        assert services.claim_mapping_change(role=OWNER, **change).code == "not_allowed"
        assert services.claim_mapping_remove(**change).code == "not_allowed"
    change = {"pk": mapping.pk, "by": SYSTEM, "reason": WHY, "at": NOW}
    done(services.claim_mapping_change(role=VIEWER, **change))  # as it was: nothing to tell
    done(services.claim_mapping_change(role=BILLING, **change))
    assert services.claim_mapping_remove(**change) is None
    assert services.claim_mapping_remove(**change).code == "unknown_mapping"
    assert services.claim_mapping_change(role=OWNER, **change).code == "unknown_mapping"
    rows = entries("claim_mapping_add", "claim_mapping_change", "claim_mapping_remove")
    assert [(entry.before, entry.after) for entry in rows] == [
        (None, {"role": VIEWER}), ({"role": VIEWER}, {"role": BILLING}), ({"role": BILLING}, None),
    ]  # fmt: skip
    assert {entry.subject for entry in rows} == {"claim mapping groups = a"}


# --- at a log-in, through a provider


@pytest.mark.django_db
def test_log_in_joins_and_a_later_one_leaves(provider: Provider) -> None:
    lumen = make_tenant("lumen")
    make_member(lumen, OWNER)
    make_person(EMAIL)
    make_mapping("realm.groups", "gpu", lumen, SUBMITTER)
    person = {"sub": "1", "email": EMAIL, "email_verified": True}
    provider.person = {**person, "realm": {"groups": ["gpu", "other"]}}
    browser = Client()
    sign_on(browser)
    assert members(lumen)[EMAIL] == (SUBMITTER, "realm.groups = gpu")
    assert browser.get("/t/lumen/members/").status_code == 200
    provider.person = {**person, "realm": {"groups": "other"}}
    sign_on(Client())
    assert EMAIL not in members(lumen)
    assert browser.get("/t/lumen/members/").status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("proved", "groups", "comes_in"), [(True, "gpu", True), (False, "gpu", False), (True, "", False)]
)
def test_person_without_invitation_comes_in_where_a_mapping_fits(
    provider: Provider, proved: bool, groups: str, comes_in: bool
) -> None:
    lumen = make_tenant("lumen")
    make_mapping("groups", "gpu", lumen, VIEWER)
    provider.person = {"sub": "9", "email": EMAIL, "email_verified": proved, "name": "Ines", "groups": groups}
    browser = Client()
    sign_on(browser)
    assert logged_in_as(browser) == (EMAIL if comes_in else None)
    assert (EMAIL in members(lumen)) == comes_in


@pytest.mark.django_db
def test_log_in_by_password_changes_nothing() -> None:
    lumen, person = make_tenant("lumen"), make_person(EMAIL)
    make_mapping("groups", "gpu", lumen, VIEWER)
    apply(person, groups="gpu")
    browser = Client()
    answer = browser.post("/accounts/login/", {"login": EMAIL, "password": "correct horse battery 7"})
    assert (answer.status_code, logged_in_as(browser)) == (302, EMAIL)
    assert EMAIL in members(lumen)


@pytest.mark.django_db
def test_nobody_is_logged_in_where_claims_cannot_be_applied(provider: Provider, monkeypatch) -> None:
    make_person(EMAIL)

    def fail(**_: Any) -> None:
        raise DatabaseError("the lock was not given")

    monkeypatch.setattr("tenants.adapters.claims_apply", fail)
    provider.person = {"sub": "1", "email": EMAIL, "email_verified": True}
    browser = Client(raise_request_exception=False)
    sign_on(browser)
    assert logged_in_as(browser) is None


# --- the page


@pytest.fixture
def operator(db) -> Iterator[Client]:
    return client_of(make_staff(OPERATOR).user)


def everything() -> tuple[list[Any], list[Any], int]:
    with scope_disabled("the test looks whether anything changed"):
        rows = list(Membership.objects.order_by("pk").values_list("pk", "role", "claim"))
    return rows, list(ClaimMapping.objects.values_list()), AuditEntry.objects.count()


def test_trial_says_what_would_happen_and_changes_nothing(operator: Client) -> None:
    lumen, delta, haus = make_tenant("lumen"), make_tenant("delta"), make_tenant("haus")
    person = make_person(EMAIL)
    make_member(haus, OWNER, person)
    make_mapping("groups", "gone", lumen, VIEWER)
    make_member(lumen, OWNER)
    make_mapping("groups", "new-*", delta, BILLING)
    apply(person, groups="gone")
    before = everything()
    claims = {"groups": ["new-team"], "email": EMAIL, "email_verified": True}
    page = operator.post("/claims/try/", {"claims": json.dumps(claims)}).content.decode()
    tried = " ".join(re.sub(r"<[^>]+>", " ", page.split('id="tried"')[1].split("</section>")[0]).split())
    assert "delta joins as billing groups = new-*" in tried
    assert "lumen leaves; was viewer groups = gone" in tried
    assert "haus stays owner: made by hand no mapping" in tried
    assert everything() == before
    stranger = operator.post("/claims/try/", {"claims": json.dumps(claims), "person": "new@example.org"})
    words = stranger.content.decode()
    assert "new@example.org</b> has no account" in words
    assert "leaves" not in words.split('id="tried"')[1].split("</section>")[0]
    assert everything() == before


@pytest.mark.parametrize("claims", ["", "no json", "[1]", "7", "{", '{"a": ' * 3_000, "[" * 19_000, "1" * 5_000])
def test_pasted_nonsense_is_refused_at_its_field(operator: Client, claims: str) -> None:
    page = operator.post("/claims/try/", {"claims": claims})
    assert page.status_code == 200
    assert "claims" in page.context["trial"].errors
    assert page.context["steps"] is None


@pytest.mark.parametrize("claims", [{"email": ["x"]}, {"email": "a\0b"}, {"groups": {"a": [{}]}}, {"email": 7}])
def test_pasted_oddities_answer(operator: Client, claims: dict[str, Any]) -> None:
    make_mapping("groups.a", "x", make_tenant("lumen"), VIEWER)
    assert operator.post("/claims/try/", {"claims": json.dumps(claims)}).status_code == 200


def test_auditor_may_try_and_may_not_change(db) -> None:
    auditor = client_of(make_staff(AUDITOR).user)
    make_mapping("groups", "a", make_tenant("lumen"), VIEWER)
    page = auditor.post("/claims/try/", {"claims": '{"groups": "a"}'})
    assert "joins as <b>viewer</b>" in page.content.decode()
    assert "Add a mapping" not in page.content.decode()


@pytest.mark.parametrize("role", TENANT_ROLES)
def test_members_may_not_try(db, role: str) -> None:
    member = client_of(make_member(make_tenant("lumen"), role).user)
    assert member.post("/claims/try/", {"claims": "{}"}).status_code == 403
    assert member.get("/claims/").status_code == 403


def test_row_is_added_changed_and_removed_on_the_page(operator: Client) -> None:
    make_tenant("lumen", "Lumen Lab")
    row = {"claim": "groups", "value": "gpu-*", "tenant": "lumen", "role": VIEWER, "reason": "our teams"}
    page = operator.post("/claims/add/", row, follow=True).content.decode()
    assert "groups = gpu-* is viewer of Lumen Lab from now on" in page
    pk = ClaimMapping.objects.get().pk
    page = operator.post(f"/claims/{pk}/change/", {"role": BILLING, "reason": "they pay"}, follow=True)
    assert "Billing" in page.content.decode()
    assert ClaimMapping.objects.get().role == BILLING
    operator.post(f"/claims/{pk}/remove/", {"reason": ""}, follow=True)
    assert ClaimMapping.objects.exists()
    operator.post(f"/claims/{pk}/remove/", {"reason": "gone"}, follow=True)
    assert not ClaimMapping.objects.exists()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"claim": "a b"}, "claim"),
        ({"claim": ""}, "claim"),
        ({"value": "**"}, "value"),
        ({"value": ""}, "value"),
        ({"tenant": "nobody"}, "tenant"),
        ({"role": "king"}, "role"),
        ({"reason": ""}, "reason"),
        ({"reason": "\u3164"}, "reason"),
    ],
)
def test_bad_row_is_refused_at_its_field(operator: Client, values: dict[str, str], field: str) -> None:
    make_tenant("lumen")
    row = {"claim": "groups", "value": "a", "tenant": "lumen", "role": VIEWER, "reason": WHY}
    page = operator.post("/claims/add/", {**row, **values})
    assert set(page.context["form"].errors) == {field}
    assert not ClaimMapping.objects.exists()


def test_members_page_marks_who_came_by_claims(db) -> None:
    lumen = make_tenant("lumen")
    owner, person = make_member(lumen, OWNER), make_person(EMAIL)
    make_mapping("groups", "a", lumen, VIEWER)
    apply(person, groups="a")
    assert client_of(owner.user).get("/t/lumen/members/").content.decode().count("by single sign-on") == 1
