"""Logging in through an OpenID Connect provider: a real one, of ours, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from allauth.account.models import EmailAddress
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from tenants import services
from tenants.adapters import SocialAccountAdapter
from tenants.models import User
from tenants.roles import OWNER, VIEWER
from tests.patience import PATIENCE
from tests.tenants.builders import access, done, make_member, make_person, make_tenant
from tests.tenants.provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider
from tests.tenants.test_members import in_threads

pytestmark = pytest.mark.django_db

EMAIL = "ines@lumen.example"


@pytest.fixture
def provider(settings) -> Iterator[Provider]:
    with running_provider() as provider:
        app = {
            "provider_id": "oidc",
            "name": "Lumen account",
            "client_id": CLIENT_ID,
            "secret": CLIENT_SECRET,
            "settings": {"server_url": provider.url},
        }
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
        yield provider


def sign_on(browser: Client) -> HttpResponse:
    """Through the provider and back; the page where the browser ends."""
    there = browser.post("/accounts/oidc/oidc/login/")
    assert there.status_code == 302
    back = requests.get(there["Location"], allow_redirects=False, timeout=PATIENCE)
    parts = urlsplit(back.headers["Location"])
    return browser.get(f"{parts.path}?{parts.query}", follow=True)


def logged_in_as(browser: Client) -> str | None:
    pk = browser.session.get("_auth_user_id")
    return User.objects.get(pk=pk).email if pk else None


def test_log_in_page_offers_the_provider(provider) -> None:
    assert "Lumen account" in Client().get("/accounts/login/").content.decode()


def test_proved_address_logs_in_to_its_account(provider) -> None:
    make_person(EMAIL)
    provider.person = {"sub": "1", "email": EMAIL, "email_verified": True, "name": "Ines"}
    browser = Client()
    sign_on(browser)
    assert logged_in_as(browser) == EMAIL
    provider.person = {"sub": "1", "email": "renamed@lumen.example", "email_verified": True}
    later = Client()
    sign_on(later)  # the provider's own number for the person counts from now on
    assert logged_in_as(later) == EMAIL


def test_unproved_address_does_not_log_in_to_somebody_elses_account(provider) -> None:
    make_person(EMAIL)
    provider.person = {"sub": "2", "email": EMAIL, "email_verified": False}
    browser = Client()
    sign_on(browser)
    assert logged_in_as(browser) is None
    assert User.objects.count() == 1


def test_person_without_an_invitation_gets_no_account(provider) -> None:
    provider.person = {"sub": "3", "email": "mallory@example.org", "email_verified": True}
    browser = Client()
    page = sign_on(browser)
    assert "begin with an invitation" in page.content.decode()
    assert logged_in_as(browser) is None
    assert not User.objects.exists()


@pytest.mark.parametrize("proved", [True, False])
def test_person_whom_the_provider_proves_gets_an_account_where_a_tenant_may_be_asked(provider, proved: bool) -> None:
    owner = make_member(make_tenant("lumen", "Lumen Lab"), OWNER)
    done(services.may_be_asked_set(tenant=owner.tenant, on=True, by=access(owner), at=timezone.now()))
    provider.person = {"sub": "3", "email": EMAIL, "email_verified": proved, "name": "Ines"}
    browser = Client()
    page = sign_on(browser).content.decode()
    assert logged_in_as(browser) == (EMAIL if proved else None)
    assert ("Ask to join a tenant" in page) == proved
    assert browser.get("/t/lumen/members/").status_code == (404 if proved else 302)


@pytest.mark.parametrize(("email", "comes_in"), [("Guest@example.org", True), ("mallory@example.org", False)])
def test_invited_person_comes_in_with_the_invited_address_only(provider, email: str, comes_in: bool) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    issued = done(
        services.invitation_create(
            tenant=owner.tenant, email="guest@example.org", role=VIEWER, by=access(owner), at=timezone.now()
        )
    )
    provider.person = {"sub": "4", "email": email, "email_verified": True, "name": "Gus Guest"}
    browser = Client()
    browser.get(f"/invitation/{issued.token}/")
    sign_on(browser)
    assert logged_in_as(browser) == ("guest@example.org" if comes_in else None)
    joined = browser.post("/invitation/accept/")
    assert (joined["Location"] == "/t/lumen/") == comes_in
    if comes_in:
        assert User.objects.get(email="guest@example.org").name == "Gus Guest"


def test_the_invitation_is_where_single_sign_on_ends(provider) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    issued = done(
        services.invitation_create(tenant=owner.tenant, email=EMAIL, role=VIEWER, by=access(owner), at=timezone.now())
    )
    provider.person = {"sub": "4", "email": EMAIL, "email_verified": True, "name": "Ines"}
    browser = Client()
    browser.get(f"/invitation/{issued.token}/")
    ending = sign_on(browser)
    assert ending.redirect_chain[-1][0] == "/invitation/"
    assert ">Join</button>" in ending.content.decode()


def test_invited_person_comes_in_without_the_link_where_the_provider_proves_the_address(provider) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    done(services.invitation_create(tenant=owner.tenant, email=EMAIL, role=VIEWER, by=access(owner), at=timezone.now()))
    provider.person = {"sub": "4", "email": EMAIL, "email_verified": False, "name": "Ines"}
    sign_on(Client())
    assert not User.objects.filter(email=EMAIL).exists()
    provider.person = {"sub": "4", "email": EMAIL, "email_verified": True, "name": "Ines"}
    browser = Client()
    assert "invites you to lumen" in sign_on(browser).content.decode()
    assert logged_in_as(browser) == EMAIL


def test_account_that_names_the_address_without_proof_is_not_logged_in_to_and_blocks_nobody(provider) -> None:
    """The account would get what the claims give, and its owner would have it, too."""
    other = make_person()
    EmailAddress.objects.create(user=other, email=EMAIL)
    owner = make_member(make_tenant("lumen"), OWNER)
    done(services.invitation_create(tenant=owner.tenant, email=EMAIL, role=VIEWER, by=access(owner), at=timezone.now()))
    provider.person = {"sub": "4", "email": EMAIL, "email_verified": True, "name": "Ines"}
    browser = Client()
    sign_on(browser)
    assert logged_in_as(browser) == EMAIL
    assert EmailAddress.objects.get(email=EMAIL, verified=True).user == User.objects.get(email=EMAIL) != other
    assert other.has_usable_password()


@pytest.mark.django_db(transaction=True)
def test_person_who_comes_in_two_windows_at_once_is_logged_in_in_both(provider, monkeypatch) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    done(services.invitation_create(tenant=owner.tenant, email=EMAIL, role=VIEWER, by=access(owner), at=timezone.now()))
    provider.person = {"sub": "4", "email": EMAIL, "email_verified": True, "name": "Ines"}
    barrier, save = threading.Barrier(2, timeout=PATIENCE), DefaultSocialAccountAdapter.save_user

    def save_together(adapter: SocialAccountAdapter, *arguments: Any, **named: Any) -> User:
        barrier.wait()  # neither has found an account
        return save(adapter, *arguments, **named)

    monkeypatch.setattr(DefaultSocialAccountAdapter, "save_user", save_together)
    browsers = Client(), Client()
    answers = in_threads(*[partial(sign_on, browser) for browser in browsers])
    assert [each.status_code for each in answers] == [200, 200]
    assert [logged_in_as(browser) for browser in browsers] == [EMAIL, EMAIL]
    assert EmailAddress.objects.get(email=EMAIL).user == User.objects.get(email=EMAIL)


@pytest.mark.django_db(transaction=True)
def test_account_by_single_sign_on_at_the_moment_of_a_sign_up_is_refused_as_later(provider, monkeypatch) -> None:
    """Whoever signs up has not proved the address yet, so single sign-on must not log in to that account."""
    owner = make_member(make_tenant("lumen"), OWNER)
    done(services.invitation_create(tenant=owner.tenant, email=EMAIL, role=VIEWER, by=access(owner), at=timezone.now()))
    provider.person = {"sub": "4", "email": EMAIL, "email_verified": True, "name": "Ines"}
    save = DefaultSocialAccountAdapter.save_user

    def save_too_late(adapter: SocialAccountAdapter, *arguments: Any, **named: Any) -> User:
        sign_up = partial(User.objects.create_user, EMAIL, "a password of somebody's")
        in_threads(sign_up)  # on a connection of its own
        return save(adapter, *arguments, **named)

    monkeypatch.setattr(DefaultSocialAccountAdapter, "save_user", save_too_late)
    browser = Client()
    at_once = sign_on(browser)
    assert logged_in_as(browser) is None
    monkeypatch.undo()
    provider.person |= {"sub": "5"}
    assert sign_on(Client()).redirect_chain == at_once.redirect_chain


def test_name_from_the_provider_that_cannot_be_seen_is_none(provider) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    issued = done(
        services.invitation_create(tenant=owner.tenant, email=EMAIL, role=VIEWER, by=access(owner), at=timezone.now())
    )
    provider.person = {"sub": "4", "email": EMAIL, "email_verified": True, "name": "\u3164"}
    browser = Client()
    browser.get(f"/invitation/{issued.token}/")
    sign_on(browser)
    assert str(User.objects.get(email=EMAIL)) == EMAIL


def test_name_from_the_provider_is_kept_without_what_turns_the_text_around_it(provider) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    done(services.invitation_create(tenant=owner.tenant, email=EMAIL, role=VIEWER, by=access(owner), at=timezone.now()))
    provider.person = {"sub": "4", "email": EMAIL, "email_verified": True, "name": "Ines\u202e\nLind"}
    sign_on(Client())
    assert str(User.objects.get(email=EMAIL)) == "Ines Lind"


def test_answer_that_nobody_asked_for_is_refused(provider) -> None:
    make_person(EMAIL)
    provider.person = {"sub": "1", "email": EMAIL, "email_verified": True}
    browser = Client()
    there = browser.post("/accounts/oidc/oidc/login/")
    back = requests.get(there["Location"], allow_redirects=False, timeout=PATIENCE)
    other = Client()
    parts = urlsplit(back.headers["Location"])
    other.get(f"{parts.path}?{parts.query}")
    assert logged_in_as(other) is None


SETTINGS = "from django.conf import settings; print(settings.SOCIALACCOUNT_PROVIDERS, settings.CONTENT_SECURITY_POLICY)"


def test_provider_comes_from_the_environment() -> None:
    variables = {
        "OIDC_SERVER_URL": "https://id.lumen.example/realms/main",
        "OIDC_NAME": "Lumen account",
        "OIDC_CLIENT_ID": "bourse",
        "OIDC_CLIENT_SECRET": "between-us",
    }
    printed = subprocess.run(
        [sys.executable, "-c", SETTINGS],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    for value in (*variables.values(), "'https://id.lumen.example'"):
        assert value in printed
