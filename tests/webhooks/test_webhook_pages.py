"""The pages of webhooks: for owners alone, the secret seen once, the log with replay."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from scheduling.models import DeliveryState, Webhook, WebhookDelivery
from tenants.models import Tenant
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, STAFF_ROLES, SUBMITTER, VIEWER
from tenants.scoping import scope
from tests.api.rows_webhooks import URL, deliveries, webhook
from tests.api.table import World, make_world
from tests.tenants.builders import client_of, make_staff

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world("lumen")


def browser(world: World, role: str = OWNER) -> Client:
    return client_of(make_staff(role).user if role in STAFF_ROLES else world.members[role].user)


def place(world: World, rest: str = "") -> str:
    return f"/t/{world.tenant.slug}/webhooks/{rest}"


def version(html: str) -> str:
    """What the form that changes a webhook says that it was made from."""
    match = re.search(r'<input type="hidden" name="version" value="([^"]*)"', html)
    return match[1] if match else ""


def ticks(html: str) -> list[str]:
    return re.findall(r'name="kinds" value="(\w+)"[^>]* checked', html)


def all_of(tenant: Tenant) -> list[Webhook]:
    with scope(tenant):
        return list(Webhook.objects.order_by("pk"))


@pytest.mark.parametrize("role", [VIEWER, SUBMITTER, BILLING, AUDITOR, OPERATOR])
def test_others_than_owners_are_told_for_whom_it_is(world: World, role: str) -> None:
    names = deliveries(world)
    for path in ("", f"{names['webhook']}/"):
        assert browser(world, role).get(place(world, path)).status_code == 403
    for path in ("make/", f"{names['webhook']}/remove/", f"{names['webhook']}/secret/"):
        assert browser(world, role).post(place(world, path), {"url": URL}).status_code == 403
    assert len(all_of(world.tenant)) == 2


@pytest.mark.parametrize("private", [False, True])
def test_page_says_which_addresses_may_be_called_here(world: World, settings, private: bool) -> None:
    settings.WEBHOOKS_ALLOW_PRIVATE = private
    html = browser(world).get(place(world)).content.decode()
    assert ("A public address that begins with https://." in html) is not private
    assert ("An address, also one of a private network, that begins with https:// or http://." in html) is private
    html = browser(world).post(place(world, "make/"), {"url": "ftp://lumen.example/"}).content.decode()
    assert f"An address begins with https://{' or http://' if private else ''} and a host." in html


def test_owner_makes_one_and_sees_its_secret_once(world: World) -> None:
    owner = browser(world)
    html = owner.post(place(world, "make/"), {"url": URL, "kinds": ["job_finished"]}).content.decode()
    secret = re.search(r'value="(whsec_[A-Za-z0-9+/]{43}=)"', html)
    assert secret
    assert secret[1] not in owner.get(place(world)).content.decode()
    (row,) = all_of(world.tenant)
    assert (row.url, row.kinds) == (URL, ["job_finished"])
    assert f"<h1>Webhook {row.pk} " in owner.get(place(world, f"{row.pk}/")).content.decode()  # as notices call it
    assert f">{row.pk}</span>" in owner.get(place(world)).content.decode()
    renewed = owner.post(place(world, f"{row.pk}/secret/")).content.decode()
    assert re.search(r'value="(whsec_[A-Za-z0-9+/]{43}=)"', renewed)
    assert secret[1] not in renewed


def test_private_address_is_refused_at_the_field(world: World) -> None:
    html = browser(world).post(place(world, "make/"), {"url": "https://127.0.0.1/"}).content.decode()
    assert "This address is not a public one." in html
    assert all_of(world.tenant) == []


def test_one_too_many_is_refused_beside_the_address(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other address would help."""
    monkeypatch.setattr("scheduling.webhooks.changes.MOST_WEBHOOKS", 0)
    html = browser(world).post(place(world, "make/"), {"url": URL}).content.decode()
    assert re.search(r'role="alert">.{0,600}?<span>A tenant has at most 0 webhooks', html, re.DOTALL)
    assert "aria-invalid" not in html
    assert f'value="{URL}"' in html


def test_log_shows_each_try_and_replays(world: World) -> None:
    names, owner = deliveries(world), browser(world)
    path = place(world, f"{names['webhook']}/")
    html = owner.get(path).content.decode()
    assert html.count("Delivered</span>") == 2
    assert b"Nothing was told here in this state" in owner.get(path, {"state": "given_up"}).content
    lines = b"".join(owner.get(path, {"format": "csv"}).streaming_content).decode().splitlines()
    assert len(lines) == 3
    owner.post(f"{path}deliveries/{names['delivery']}/replay/")
    with scope(world.tenant):
        assert WebhookDelivery.objects.get(pk=names["delivery"]).state == DeliveryState.WAITING


def test_it_is_changed_switched_and_removed(world: World) -> None:
    names, owner = webhook(world), browser(world)
    path = place(world, f"{names['webhook']}/")
    page_version = version(owner.get(path).content.decode())
    owner.post(f"{path}change/", {"url": f"{URL}/2", "kinds": ["low_balance"], "version": page_version})
    owner.post(f"{path}change/", {"active": "off"})
    first, _ = all_of(world.tenant)
    assert (first.url, first.kinds, first.active) == (f"{URL}/2", ["low_balance"], False)
    owner.post(f"{path}change/", {"active": "on"})
    assert all_of(world.tenant)[0].active
    owner.post(f"{path}remove/")
    assert owner.get(path).status_code == 404


def test_refused_change_keeps_what_was_typed(world: World) -> None:
    names, owner = webhook(world), browser(world)
    path = place(world, f"{names['webhook']}/")
    typed = {"url": "https://127.0.0.1/typed", "kinds": ["job_finished", "low_balance"]}
    answer = owner.post(f"{path}change/", typed | {"version": version(owner.get(path).content.decode())})
    html = answer.content.decode()
    assert "This address is not a public one." in html
    assert 'value="https://127.0.0.1/typed"' in html
    assert ticks(html) == ["job_finished", "low_balance"]
    assert all_of(world.tenant)[0].url == URL


def test_refused_change_keeps_the_log_on_the_page(world: World) -> None:
    """It is what says which address does not answer."""
    names, owner = deliveries(world), browser(world)
    path = place(world, f"{names['webhook']}/")
    typed = {"url": "https://127.0.0.1/typed", "version": version(owner.get(path).content.decode())}
    html = owner.post(f"{path}change/", typed).content.decode()
    assert "This address is not a public one." in html
    assert html.count("Delivered</span>") == 2


def test_of_two_who_change_it_at_the_same_time_the_second_is_told(world: World) -> None:
    """The form sends the address with the events, and so would send events to an address that another owner has just
    changed."""
    names, first, second = webhook(world), browser(world), browser(world)
    path = place(world, f"{names['webhook']}/")
    page_version = version(second.get(path).content.decode())
    first.post(f"{path}change/", {"url": f"{URL}/moved", "version": version(first.get(path).content.decode())})
    typed = {"url": URL, "kinds": ["job_finished", "low_balance"]}
    html = second.post(f"{path}change/", typed | {"version": page_version}).content.decode()
    assert "Somebody has changed this webhook while you looked at it" in html
    assert ticks(html) == ["job_finished", "low_balance"]
    assert all_of(world.tenant)[0].url == f"{URL}/moved"
    second.post(f"{path}change/", typed | {"version": version(html)})
    assert (all_of(world.tenant)[0].url, all_of(world.tenant)[0].kinds) == (URL, ["job_finished", "low_balance"])


def test_page_asks_before_a_webhook_is_removed(world: World) -> None:
    owner, path = browser(world), place(world, f"{webhook(world)['webhook']}/")
    assert f'<a class="button bad" href="{path}remove/">Remove</a>' in owner.get(path).content.decode()
    question = owner.get(f"{path}remove/").content.decode()
    assert "Nothing has happened yet" in question
    assert URL in question
    assert owner.get(path).status_code == 200
    assert owner.post(f"{path}remove/").status_code == 302
    assert owner.get(path).status_code == owner.get(f"{path}remove/").status_code == 404


def test_another_tenants_webhook_is_not_found(world: World) -> None:
    other = make_world("castor", world.pool)
    theirs = deliveries(other)
    owner = browser(world)
    assert owner.get(place(world, f"{theirs['webhook']}/")).status_code == 404
    assert owner.get(place(world, f"{theirs['webhook']}/remove/")).status_code == 404
    owner.post(place(world, f"{theirs['webhook']}/remove/"))
    owner.post(place(world, f"{theirs['webhook']}/deliveries/{theirs['delivery']}/replay/"))
    assert all(row.removed_at is None for row in all_of(other.tenant))
    assert owner.get(f"/t/{other.tenant.slug}/webhooks/").status_code == 404


def test_the_events_of_a_webhook_change_while_its_name_server_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form sends the address as it was; only one that is typed anew has to be known."""
    names, owner = webhook(world), browser(world)
    path = place(world, f"{names['webhook']}/")
    typed = {"kinds": ["low_balance"], "version": version(owner.get(path).content.decode())}

    def away(*_: object, **__: object) -> None:
        raise OSError("the name server is away")

    monkeypatch.setattr("scheduling.webhooks.addresses.socket.getaddrinfo", away)
    assert owner.post(f"{path}change/", typed | {"url": URL}).status_code == 302
    assert all_of(world.tenant)[0].kinds == ["low_balance"]
    typed["version"] = version(owner.get(path).content.decode())
    html = owner.post(f"{path}change/", typed | {"url": f"{URL}/moved"}).content.decode()
    assert "The name of this host is not known." in html
