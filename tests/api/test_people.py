"""Tenants, members, invitations and the history for programs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from django.test import Client

from tenants.models import Membership
from tenants.roles import AUDITOR, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tests.api.builders import problem, program, program_of
from tests.tenants.builders import client_of, make_member, make_person, make_tenant

pytestmark = pytest.mark.django_db


def test_tenants_are_those_that_the_caller_reaches() -> None:
    first, second = make_tenant("first"), make_tenant("second")
    make_tenant("third")
    member = make_member(first, OWNER)
    make_member(second, VIEWER, member.user)
    with_session = client_of(member.user).get("/api/v1/tenants/").json()["results"]
    assert [(row["slug"], row["role"]) for row in with_session] == [("first", "owner"), ("second", "viewer")]
    assert [row["slug"] for row in program(member.user, second).get("tenants/").json()["results"]] == ["second"]
    everything = program_of(AUDITOR, first).get("tenants/").json()["results"]
    assert [(row["slug"], row["role"]) for row in everything] == [("first", None), ("second", None), ("third", None)]
    narrow = program_of(AUDITOR, first, ["tenant:read"])
    assert narrow.get("tenants/").json()["results"] == []


def test_invited_person_joins_by_the_link_which_is_shown_once() -> None:
    tenant = make_tenant("lumen")
    owner = program_of(OWNER, tenant)
    body = {"email": "grace@lumen.example", "role": "submitter"}
    first, again = (owner.post("tenants/lumen/invitations/", body, key="k") for _ in range(2))
    link = first.json()["link"]
    assert link.startswith("http://testserver/invitation/")
    assert again.json() == first.json() | {"link": None}
    invitations = owner.get("tenants/lumen/invitations/").json()["results"]
    assert [row["email"] for row in invitations] == ["grace@lumen.example"]
    assert link.split("/")[-2] not in str(invitations)
    opened = Client().get(link.removeprefix("http://testserver"), follow=True)
    assert opened.status_code == 200
    owner.post(f"tenants/lumen/invitations/{first.json()['id']}/revoke/")
    assert owner.get("tenants/lumen/invitations/").json()["results"] == []
    problem(owner.post(f"tenants/lumen/invitations/{first.json()['id']}/revoke/"), 409, "invitation_revoked")


def test_requests_to_join_are_listed_accepted_and_declined_by_a_program() -> None:
    tenant = make_tenant("lumen")
    owner = program_of(OWNER, tenant)
    assert owner.get("tenants/lumen/").json()["may_be_asked"] is False
    assert owner.post("tenants/lumen/join-requests/open/", {"may_be_asked": True}).json() == {"may_be_asked": True}
    problem(owner.post("tenants/lumen/join-requests/open/", {"may_be_asked": "yes"}), 400, "invalid_request")
    ines, kim = make_person("ines@example.org", "Ines"), make_person("kim@example.org")
    for person in (ines, kim):
        client_of(person).post("/mine/ask/", {"tenant": "lumen", "why": "The speech models."})
    second, first = owner.get("tenants/lumen/join-requests/?state=waiting").json()["results"]
    assert (first["person"], first["name"], first["why"]) == ("ines@example.org", "Ines", "The speech models.")
    accepted = owner.post(f"tenants/lumen/join-requests/{first['id']}/accept/", {"role": "viewer"}).json()
    assert (accepted["person"], accepted["role"]) == ("ines@example.org", "viewer")
    problem(owner.post(f"tenants/lumen/join-requests/{second['id']}/decline/", {}), 400, "invalid_request")
    problem(owner.post(f"tenants/lumen/join-requests/{second['id']}/decline/", {"reason": " "}), 422, "reason_missing")
    declined = owner.post(f"tenants/lumen/join-requests/{second['id']}/decline/", {"reason": "Ask Castor."}).json()
    assert (declined["state"], declined["answer"]) == ("declined", "Ask Castor.")
    again = owner.post(f"tenants/lumen/join-requests/{second['id']}/accept/", {"role": "viewer"})
    problem(again, 409, "join_request_ended")
    assert owner.get("tenants/lumen/join-requests/?state=waiting").json()["results"] == []


def test_operator_says_why_and_owner_need_not() -> None:
    tenant = make_tenant("lumen")
    owner, operator = program_of(OWNER, tenant), program_of(OPERATOR, tenant)
    member = make_member(tenant, VIEWER)
    place = f"tenants/lumen/members/{member.pk}/role/"
    problem(operator.post(place, {"role": "submitter"}), 422, "reason_missing")
    assert operator.post(place, {"role": "submitter", "reason": "asked by mail"}).json()["role"] == "submitter"
    assert owner.post(place, {"role": "viewer"}).json()["role"] == "viewer"
    problem(owner.post(place, {"role": "king"}), 422, "unknown_role")
    entries = owner.get("tenants/lumen/history/?action=member_role_change").json()["results"]
    assert [(row["reason"], row["after"]["role"]) for row in entries] == [
        ("", "viewer"),
        ("asked by mail", "submitter"),
    ]
    assert entries[0]["before"] == {"role": "submitter"}
    assert entries[0]["tenant"] == "lumen"


def test_last_owner_stays_and_a_reading_token_does_not_leave() -> None:
    tenant = make_tenant("lumen")
    owner = make_member(tenant, OWNER)
    caller = program(owner.user, tenant)
    problem(caller.post("tenants/lumen/leave/"), 409, "last_owner")
    problem(caller.post(f"tenants/lumen/members/{owner.pk}/remove/"), 409, "last_owner")
    viewer = make_member(tenant, VIEWER)
    problem(program(viewer.user, tenant, ["tenant:read"]).post("tenants/lumen/leave/"), 403, "scope_missing")
    assert program(viewer.user, tenant).post("tenants/lumen/leave/").json() == {"removed": True}
    with scope(tenant):
        assert not Membership.objects.filter(user=viewer.user).exists()


def test_history_shows_only_the_own_tenants_and_the_staff_everything() -> None:
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    make_member(castor, SUBMITTER, make_person(email="secret@castor.example"))
    owner = program_of(OWNER, lumen)
    assert b"castor" not in owner.get("tenants/lumen/history/?limit=200").content
    everything = program_of(AUDITOR, lumen).get("history/?limit=200").json()["results"]
    assert {row["tenant"] for row in everything} == {"lumen", "castor", None}
    chain = sorted(everything, key=lambda row: row["sequence"])
    assert all(left["hash"] == right["previous_hash"] for left, right in pairwise(chain))
    lines = owner.get("tenants/lumen/history/", Accept="text/csv").getvalue().decode().splitlines()
    assert lines[0].startswith("sequence,at,by,tenant,action")


def test_same_names_in_two_tenants_are_kept_apart() -> None:
    for slug in ("lumen", "castor"):
        owner = program_of(OWNER, make_tenant(slug))
        owner.post(f"tenants/{slug}/invitations/", {"email": "grace@example.org", "role": "viewer"})
        invitations = owner.get(f"tenants/{slug}/invitations/").json()["results"]
        assert [row["email"] for row in invitations] == ["grace@example.org"]
        assert all(row["tenant"] == slug for row in owner.get(f"tenants/{slug}/history/").json()["results"])
