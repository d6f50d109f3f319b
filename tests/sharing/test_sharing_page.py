"""The form of rent and lend is sent with all that it shows, so nobody undoes with it what somebody else has changed."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from scheduling.sharing.read_sharing import sharing_of
from tenants.roles import OWNER
from tenants.scoping import scope
from tests.scheduling.builders import make_pool
from tests.scheduling.pages import client_as, client_of
from tests.tenants.builders import make_member, make_tenant

pytestmark = pytest.mark.django_db
ADDRESS = "/t/lumen/share/"
FIELDS = {"rent": "auto", "lend": "lend", "plan": "keep", "budget": "", "budget_period": "month"}


def _version(html: str) -> str:
    field = re.search(r'<input type="hidden" name="version" value="([^"]*)"', html)
    return field[1] if field else ""


def _page(client: Client) -> str:
    return str(client.get(ADDRESS, secure=True).content.decode())


def test_of_two_who_change_it_at_the_same_time_the_second_is_told() -> None:
    pool, tenant = make_pool(), make_tenant("lumen")
    first, second = (client_of(make_member(tenant, OWNER).user) for _ in range(2))
    seen_first, seen_second = _version(_page(first)), _version(_page(second))
    saved = first.post(ADDRESS, FIELDS | {"lend": "keep", "version": seen_first}, secure=True)
    assert saved.status_code == 302
    typed = FIELDS | {"reserve-worker": "0.25", "version": seen_second}
    refused = second.post(ADDRESS, typed, secure=True)
    assert refused.status_code == 200
    html = refused.content.decode()
    assert "Somebody has changed this while you looked at it" in html
    assert 'value="0.25"' in html
    with scope(tenant):
        assert (sharing_of(tenant, pool).lend, sharing_of(tenant, pool).reserve_price) == ("keep", {})
    again = second.post(ADDRESS, typed | {"version": _version(html)}, secure=True)
    assert again.status_code == 302
    with scope(tenant):
        assert (sharing_of(tenant, pool).lend, sharing_of(tenant, pool).reserve_price) == ("lend", {"worker": 0.25})


def test_one_reader_saves_twice_in_a_row() -> None:
    make_pool()
    client = client_as(OWNER, make_tenant("lumen"))
    for fields in ({"lend": "keep", "reserve-worker": "0.1"}, {"lend": "lend", "rent": "never"}):
        version = _version(_page(client))
        assert client.post(ADDRESS, FIELDS | fields | {"version": version}, secure=True).status_code == 302
