"""Every address that a person can see answers when it is asked again: after a reload, or a log-in that leads back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tenants.models import Tenant
from tenants.roles import OPERATOR, OWNER
from tests.patience import PATIENCE
from tests.tenants.builders import client_of, make_member, make_staff, make_tenant

pytestmark = pytest.mark.django_db
# Whose addresses nobody reads in a browser's line, or that are not ours.
FOR_PROGRAMS = ("api/", "admin/", "accounts/", "healthz", "readyz", "metrics")
PARTS: dict[str, object] = {
    "tenant_slug": "lumen",
    "pk": 1,
    "number": 1,
    "version": 1,
    "delivery": 1,
    "slug": "main",
    "pool_slug": "main",
    "owner": "operator",
    "name": "trainer",
    "tag": "jobs",
    "what": "book",
    "token": "no-such-token",
}


def named_addresses(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[tuple[str, str]]:
    for each in patterns:
        route = f"{before}{each.pattern}"
        if route.startswith(("^", *FOR_PROGRAMS)):
            continue
        if isinstance(each, URLResolver):
            yield from named_addresses(each.url_patterns, route)
        else:
            parts = {name: PARTS[name] for name in _parts(route)}
            name = str(each.name)
            yield name, reverse(name, kwargs={**parts, **each.default_args})


def _parts(route: str) -> list[str]:
    return [piece.split(">")[0].split(":")[-1] for piece in route.split("<")[1:]]


@pytest.fixture
def people() -> list[Client]:
    owner = make_member(make_tenant("lumen"), OWNER)
    return [client_of(owner.user), client_of(make_staff(OPERATOR).user)]


def test_every_address_of_a_page_answers_to_get(people: list[Client]) -> None:
    """There are few rows here, so many addresses are of things that do not exist; none refuses the question itself."""
    pages = [address for _, address in named_addresses(get_resolver().url_patterns)]
    assert len(pages) > 100
    refused = [address for browser in people for address in pages if browser.get(address).status_code in (405, 500)]
    assert refused == []


def test_reload_of_a_refused_form_shows_the_page_with_the_form(people: list[Client]) -> None:
    owner, operator = people
    for browser, address, form in (
        (owner, "/t/lumen/invitations/", 'name="email"'),
        (owner, "/t/lumen/tokens/make/", 'name="days"'),
        (owner, "/t/lumen/webhooks/make/", 'name="url"'),
        (operator, "/operator/pools/new/", 'name="slug"'),
        (operator, "/staff/grant/", 'name="role"'),
        (operator, "/tokens/make/", 'name="preset"'),
    ):
        assert form in browser.post(address, {}, follow=True).content.decode(), address
        again = browser.get(address, follow=True)
        assert (again.status_code, len(again.redirect_chain)) == (200, 1), address
        assert form in again.content.decode()
    assert owner.put("/t/lumen/invitations/").status_code == 405


def test_development_has_our_own_pages_of_errors() -> None:
    words = "from django.conf import settings; print(settings.DEVELOPMENT, settings.DEBUG)"
    for pages, expected in (("false", "True False"), ("true", "True True")):
        printed = subprocess.run(
            [sys.executable, "-c", words],
            env={**os.environ, "DEBUG": "true", "DEBUG_PAGES": pages},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        ).stdout
        assert printed.split() == expected.split()


def test_a_stranger_to_a_tenant_and_a_wrong_address_get_our_own_page(people: list[Client]) -> None:
    Tenant.objects.get(slug="lumen")
    for address in ("/t/nothing/", "/no-such-address/"):
        answer = people[0].get(address)
        assert answer.status_code == 404
        assert "There is nothing here" in answer.content.decode()
