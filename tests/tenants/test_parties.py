"""Whose turns a request uses, by what it shows."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

from tenants.models import Membership
from tenants.requests.parties import party_of_session, party_of_token
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.api.builders import program
from tests.bench.web import session_of
from tests.scheduling.builders import make_tenant
from tests.tenants.builders import make_member, make_person

pytestmark = pytest.mark.django_db


def test_a_token_counts_for_its_tenant_and_a_session_for_the_first_tenant_of_its_person() -> None:
    first, second = make_tenant("castor"), make_tenant("lumen")
    person = make_member(second, OWNER).user
    secret = program(person, second).secret
    assert party_of_token(f"Bearer {secret}") == f"tenant {second.pk}"
    assert party_of_session(session_of(person)) == f"tenant {second.pk}"
    with scope_disabled("a test"):
        Membership.objects.create(tenant=first, user=person, role=OWNER)
    assert party_of_token(f"Bearer {secret}") == f"tenant {second.pk}"
    assert party_of_session(session_of(person)) == f"tenant {first.pk}"


def test_a_person_of_no_tenant_counts_alone() -> None:
    person = make_person("ada@example.org")
    assert party_of_session(session_of(person)) == f"person {person.pk}"


@pytest.mark.parametrize("words", ["", "Bearer", "Bearer ", "Bearer nobodys", "Basic YTpi"])
def test_nobody_is_known_by_the_words_of_no_token(words: str) -> None:
    assert party_of_token(words) is None


def test_nobody_is_known_by_a_session_in_which_nobody_is_logged_in() -> None:
    assert party_of_session("x") is None
    assert party_of_session("abcdefghijklmnopqrstuvwxyz012345") is None
    client = Client()
    client.session.save()
    assert party_of_session(client.cookies[settings.SESSION_COOKIE_NAME].value) is None
