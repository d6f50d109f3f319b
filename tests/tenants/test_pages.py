"""The pages as a browser gets them."""

from __future__ import annotations

import re

import pytest
from django.test import Client, RequestFactory
from django.views.defaults import server_error

from tenants.roles import AUDITOR, OPERATOR, OWNER, VIEWER
from tests.tenants.builders import client_of, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db

ACCOUNT_PAGES = [
    "/accounts/email/",
    "/accounts/password/change/",
    "/accounts/2fa/",
]
STRANGER_PAGES = ["/", "/accounts/login/", "/accounts/password/reset/", "/accounts/signup/", "/accounts/logout/"]


def assert_keeps_the_policy(response) -> None:
    """What the browser is told to refuse, the page does not contain."""
    policy = response["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    html = response.content.decode()
    assert not re.search(r"<[^>]+\sstyle=", html)
    assert not re.search(r"<[^>]+\son[a-z]+=", html)
    assert "<style" not in html
    for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL):
        assert ("src=" in attributes and not body.strip()) or 'type="application/json"' in attributes


@pytest.mark.parametrize("path", STRANGER_PAGES)
def test_stranger_reads_public_page_under_the_policy(path: str) -> None:
    response = Client().get(path, follow=True)
    assert response.status_code == 200
    assert_keeps_the_policy(response)


@pytest.mark.parametrize("path", ACCOUNT_PAGES)
def test_person_reads_account_page_under_the_policy(path: str) -> None:
    response = client_of(make_person()).get(path, follow=True)
    assert response.status_code == 200
    assert_keeps_the_policy(response)


@pytest.mark.parametrize("path", ["", "members/", "history/"])
def test_owner_reads_tenant_page_under_the_policy(path: str) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    response = client_of(owner.user).get(f"/t/lumen/{path}")
    assert response.status_code == 200
    assert_keeps_the_policy(response)


@pytest.mark.parametrize("path", ["/", "/tenants/", "/staff/", "/history/"])
@pytest.mark.parametrize("role", [AUDITOR, OPERATOR])
def test_staff_read_page_over_all_tenants_under_the_policy(path: str, role: str) -> None:
    make_tenant("lumen", "Lumen Lab")
    response = client_of(make_staff(role).user).get(path)
    assert response.status_code == 200
    assert_keeps_the_policy(response)


def test_member_of_one_tenant_arrives_there() -> None:
    member = make_member(make_tenant("lumen"), VIEWER)
    response = client_of(member.user).get("/")
    assert (response.status_code, response["Location"]) == (302, "/t/lumen/")


def test_member_of_two_tenants_chooses_and_the_switcher_shows_both() -> None:
    person = make_person()
    make_member(make_tenant("lumen", "Lumen Lab"), VIEWER, person)
    make_member(make_tenant("delta", "Delta Group"), OWNER, person)
    client = client_of(person)
    for path in ("/", "/t/lumen/"):
        html = client.get(path).content.decode()
        assert 'href="/t/lumen/"' in html
        assert 'href="/t/delta/"' in html


def test_stranger_is_sent_to_the_log_in_and_back() -> None:
    make_tenant("lumen")
    response = Client().get("/t/lumen/members/?a=1")
    assert response.status_code == 302
    assert response["Location"] == "/accounts/login/?next=/t/lumen/members/%3Fa%3D1"


def test_unknown_page_is_told_in_our_look(settings) -> None:
    settings.DEBUG = False
    response = Client().get("/nowhere/")
    assert response.status_code == 404
    assert "There is nothing here" in response.content.decode()


def test_failing_page_is_told_without_asking_the_database(django_assert_num_queries, rf: RequestFactory) -> None:
    with django_assert_num_queries(0):
        response = server_error(rf.get("/"))
    assert response.status_code == 500
    assert "This page could not be built" in response.content.decode()


def test_form_without_its_token_is_told_in_our_look() -> None:
    member = make_member(make_tenant("lumen"), OWNER)
    client = Client(enforce_csrf_checks=True)
    client.force_login(member.user, backend="django.contrib.auth.backends.ModelBackend")
    response = client.post("/t/lumen/invitations/", {"email": "a@example.org", "role": VIEWER})
    assert response.status_code == 403
    assert "This form was too old" in response.content.decode()
