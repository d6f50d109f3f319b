"""The page of tokens: made and revoked there, the secret seen once."""

from __future__ import annotations

import re

import pytest

from tenants.models import ApiToken, Membership
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.views import tokens
from tests.api.builders import Program, program_of
from tests.tenants.builders import client_of, make_member, make_staff, make_tenant

pytestmark = pytest.mark.django_db
PAGE = "/t/lumen/tokens/"
NEW = {"name": "nightly", "days": "30", "scopes": ["jobs:read"]}


def member(role: str) -> Membership:
    return make_member(make_tenant("lumen"), role)


@pytest.mark.parametrize("role", [VIEWER, SUBMITTER, BILLING, OWNER])
def test_every_member_makes_a_token_that_works_and_is_shown_once(role: str) -> None:
    browser = client_of(member(role).user)
    scopes = ["tenant:read"]
    html = browser.post(f"{PAGE}make/", NEW | {"scopes": scopes}).content.decode()
    secret = re.search(r'value="(bourse_[^"]+)"', html)
    assert secret
    assert Program(secret[1]).get("tenants/lumen/").status_code == 200
    again = browser.get(PAGE).content.decode()
    assert secret[1] not in again
    assert secret[1][:13] in again


def test_only_scopes_that_are_of_use_are_offered() -> None:
    html = client_of(member(BILLING).user).get(PAGE).content.decode()
    assert 'value="budgets:write"' in html
    assert 'value="jobs:write"' not in html
    assert 'value="cluster:write"' not in html


def test_refusals_stand_in_the_form_and_nothing_is_made() -> None:
    browser = client_of(member(OWNER).user)
    for wrong in ({"scopes": []}, {"name": ""}, {"days": "1000"}, {"scopes": ["cluster:write"]}, {"name": "a\x07b"}):
        assert b'class="error"' in browser.post(f"{PAGE}make/", NEW | wrong).content
    assert not ApiToken.objects.exists()


def test_owner_revokes_everybodys_and_others_only_their_own() -> None:
    tenant = make_tenant("lumen")
    owner, viewer = make_member(tenant, OWNER), make_member(tenant, VIEWER)
    theirs = program_of(SUBMITTER, tenant).token
    assert theirs is not None
    assert theirs.hint not in client_of(viewer.user).get(PAGE).content.decode()
    client_of(viewer.user).post(f"{PAGE}{theirs.pk}/revoke/")
    assert ApiToken.objects.get(pk=theirs.pk).revoked_at is None
    assert theirs.hint in client_of(owner.user).get(PAGE).content.decode()
    client_of(owner.user).post(f"{PAGE}{theirs.pk}/revoke/")
    assert ApiToken.objects.get(pk=theirs.pk).revoked_at is not None


def test_a_working_token_is_shown_however_many_others_ended_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_ENDED", 3)
    tenant = make_tenant("lumen")
    owner = make_member(tenant, OWNER)
    old = program_of(SUBMITTER, tenant).token
    assert old is not None
    for _ in range(4):  # such as a program makes for each of its runs, and revokes
        token = program_of(SUBMITTER, tenant).token
        assert token is not None
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=token.created_at)
    html = client_of(owner.user).get(PAGE).content.decode()
    assert html.count("/revoke/") == 1
    assert f"{PAGE}{old.pk}/revoke/" in html


def test_strangers_find_nothing_and_staff_have_no_form() -> None:
    make_member(make_tenant("lumen"), OWNER)
    stranger = make_member(make_tenant("castor"), OWNER)
    assert client_of(stranger.user).get(PAGE).status_code == 404
    assert client_of(stranger.user).post(f"{PAGE}make/", NEW).status_code == 404
    assert b"Make the token" not in client_of(make_staff(AUDITOR).user).get(PAGE).content


@pytest.mark.parametrize(("role", "preset", "may"), [(AUDITOR, "read", 200), (OPERATOR, "metrics", 200)])
def test_staff_make_a_token_by_a_preset_that_works_and_revoke_it(role: str, preset: str, may: int) -> None:
    make_tenant("lumen")
    browser = client_of(make_staff(role).user)
    html = browser.post("/tokens/make/", {"name": "monitor", "days": "30", "preset": preset}).content.decode()
    secret = re.search(r'value="(bourse_[^"]+)"', html)
    assert secret
    program = Program(secret[1])
    assert program.get("history/").status_code == may
    assert program.post("tenants/", {"slug": "a"}).status_code == 403
    token = ApiToken.objects.get()
    assert (token.tenant, token.name) == (None, "monitor")
    assert secret[1] not in browser.get("/tokens/").content.decode()
    browser.post(f"/tokens/{token.pk}/revoke/")
    assert program.get("history/").status_code == 401


def test_staff_choose_single_scopes_and_hear_what_is_wrong_in_the_form() -> None:
    browser = client_of(make_staff(OPERATOR).user)
    data = {"name": "cells", "days": "30", "preset": "own"}
    assert "Tick at least one" in browser.post("/tokens/make/", data).content.decode()
    assert not ApiToken.objects.exists()
    ticked = data | {"scopes": ["cluster:write"]}
    page = browser.post("/tokens/make/", ticked | {"preset": "read"}).content.decode()
    assert "Read all has not all that is ticked below" in page
    assert '<details class="field" open>' in page
    assert not ApiToken.objects.exists()
    browser.post("/tokens/make/", ticked)
    assert ApiToken.objects.get().scopes == ["cluster:write"]


def test_auditors_are_not_offered_what_they_may_not_do_and_members_have_no_such_page() -> None:
    html = client_of(make_staff(AUDITOR).user).get("/tokens/").content.decode()
    assert 'value="read"' in html
    assert 'value="automation"' not in html
    assert 'value="cluster:write"' not in html
    assert client_of(member(OWNER).user).get("/tokens/").status_code == 403
