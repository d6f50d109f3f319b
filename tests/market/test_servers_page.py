"""The page of servers and cells: who may open it, and what it shows to whom."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from scheduling.market.pages import servers_choice
from scheduling.market.pages.servers_chart import MINE, OPERATOR, OTHERS, ChartShare, ChartSquare, _squares
from scheduling.models import Server
from tenants.access import access_of_system
from tenants.models import Tenant, User
from tenants.roles import ROLES_ALLOWED, STAFF_ROLES, TENANT_ROLES, Permission
from tenants.services import member_add, staff_grant
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.tenants.builders import client_of

pytestmark = pytest.mark.django_db

SQUARE = re.compile(r'height="22"\s+rx="2"')  # of a worker
BY = {"by": access_of_system("test"), "reason": "test", "at": datetime(2026, 3, 2, tzinfo=UTC)}


def page(slug: str, user: User | None, **query: str):
    client = Client()
    if user:
        client.force_login(user)
    return client.get(f"/t/{slug}/servers/", query, secure=True)


def make_person(role: str, tenant: Tenant | None = None) -> User:
    """`role` in the tenant, or over all; "" belongs nowhere."""
    user = User.objects.create_user(f"{role or 'stranger'}@example.org", None, name=role or "stranger")
    if role in STAFF_ROLES:
        staff_grant(user=user, role=role, **BY)
    elif role:
        assert tenant
        member_add(tenant=tenant, user=user, role=role, **BY)
    return user


def numbers(html: str) -> list[list[str]]:
    """The table's cells, row by row, as text."""
    rows = re.findall(r"<tr>(.*?)</tr>", html.partition("The same in numbers")[2], re.DOTALL)[1:]
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<.*?>", "", cell).split()) for cell in row] for row in cells]


@pytest.mark.parametrize("role", [*TENANT_ROLES, *STAFF_ROLES])
def test_opens_for_each_role_that_may_see_the_quota(role: str) -> None:
    lumen = make_tenant("lumen")
    make_server(make_pool())
    expected = 200 if role in ROLES_ALLOWED[Permission.QUOTA_VIEW] else 403
    assert page("lumen", make_person(role, lumen)).status_code == expected


@pytest.mark.parametrize("role", TENANT_ROLES)
def test_is_not_there_for_members_of_another_tenant(role: str) -> None:
    make_tenant("lumen")
    make_server(make_pool())
    member = make_person(role, make_tenant("castor"))
    assert page("lumen", member).status_code == 404
    assert page("nobody", member).status_code == 404


def test_is_not_there_for_people_without_a_tenant_and_asks_strangers_to_log_in() -> None:
    make_tenant("lumen")
    assert page("lumen", make_person("")).status_code == 404
    answer = page("lumen", None)
    assert answer.status_code == 302
    assert answer["Location"].endswith("?next=/t/lumen/servers/")


def test_shows_the_same_servers_from_each_owners_side() -> None:
    pool = make_pool()
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    first = make_server(pool, "s01", worker=8, ps=2)
    make_server(pool, "s02", worker=4, ps=0)
    make_cells(first, lumen, {"worker": 5, "ps": 1})
    make_cells(first, castor, {"worker": 2})
    person = make_person("viewer", lumen)
    member_add(tenant=castor, user=person, role="owner", **BY)
    assert numbers(page("lumen", person).content.decode()) == [
        ["s01", "Lumen, Castor", "5", "2", "1", "1", "0", "1"],
        ["s02", "none, all the operator's", "0", "0", "4", "0", "0", "0"],
        ["Sum", "", "5", "2", "5", "1", "0", "1"],
    ]
    assert numbers(page("castor", person).content.decode()) == [
        ["s01", "Castor, Lumen", "2", "5", "1", "0", "1", "1"],
        ["s02", "none, all the operator's", "0", "0", "4", "0", "0", "0"],
        ["Sum", "", "2", "5", "5", "0", "1", "1"],
    ]


def test_says_when_a_server_is_not_in_service() -> None:
    server = make_server(make_pool())
    person = make_person("viewer", make_tenant("lumen"))
    assert b"Draining" not in page("lumen", person).content
    Server.objects.filter(pk=server.pk).update(state="draining")
    assert b"Draining" in page("lumen", person).content


def test_shows_the_pool_that_is_asked_for() -> None:
    make_server(make_pool("first"), "s01")
    make_server(make_pool("second"), "z01")
    person = make_person("viewer", make_tenant("lumen"))
    assert [row[0] for row in numbers(page("lumen", person).content.decode())] == ["s01", "Sum"]
    assert [row[0] for row in numbers(page("lumen", person, pool="second").content.decode())] == ["z01", "Sum"]
    assert page("lumen", person, pool="third").status_code == 404


@pytest.mark.parametrize(
    ("path", "heading"),
    [
        ("servers", "Servers and cells"),
        ("market", "Market"),
        ("submit", "Submit a job"),
        ("share", "My share"),
        ("use", "Use over time"),
        ("fairness", "Fairness"),
        ("intervals", "Intervals"),
    ],
)
def test_says_what_is_missing_before_there_is_a_pool(path: str, heading: str) -> None:
    client = client_of(make_person("owner", make_tenant("lumen")))
    answer = client.get(f"/t/lumen/{path}/")
    assert answer.status_code == 200
    assert b"No pool yet" in answer.content
    assert f"<h1>{heading}</h1>" in answer.content.decode()
    assert f"<title>{heading} " in answer.content.decode()


def test_shows_a_pool_without_servers_and_a_server_without_units() -> None:
    pool = make_pool()
    person = make_person("viewer", make_tenant("lumen"))
    assert [row[0] for row in numbers(page("lumen", person).content.decode())] == ["Sum"]
    make_server(pool, "s01", worker=0, ps=0)
    assert numbers(page("lumen", person).content.decode())[0] == ["s01", "none, all the operator's", *"000000"]


def test_draws_large_amounts_beside_small_ones_each_on_its_own_scale() -> None:
    server = make_server(make_pool(), worker=4, ps=400)
    make_cells(server, make_tenant("lumen"), {"worker": 1, "ps": 100})
    html = page("lumen", make_person("viewer", make_tenant("lumen"))).content.decode()
    assert html.count('width="21.5%"') == 4  # four single workers
    assert 'width="24.965%"' in html  # a hundred in one bar
    assert 'width="74.965%"' in html


def names(html: str) -> list[str]:
    return [row[0].partition(" ")[0] for row in numbers(html)[:-1]]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> tuple[User, User]:
    """Five servers where two fit a page; the fourth is Lumen's, the second Castor's, the last is draining. A viewer of
    Lumen, and one of Castor."""
    monkeypatch.setattr(servers_choice, "FEW", 4)
    monkeypatch.setattr(servers_choice, "ROWS", 2)
    pool, lumen, castor = make_pool(), make_tenant("lumen"), make_tenant("castor")
    servers = [make_server(pool, f"s0{number}") for number in range(1, 6)]
    make_cells(servers[3], lumen, {"worker": 8, "ps": 2})
    make_cells(servers[1], castor, {"worker": 8, "ps": 1})
    Server.objects.filter(pk=servers[4].pk).update(state="draining")
    viewer = make_person("viewer", lumen)
    other = make_person("billing", castor)
    return viewer, other


def test_a_large_pool_is_shown_in_pages_with_the_readers_own_servers_first(large: tuple[User, User]) -> None:
    one, other = large
    first = page("lumen", one).content.decode()
    assert names(first) == ["s04", "s01"]
    assert "page 1 of" in first
    assert numbers(first)[-1] == ["The whole pool", "", "8", "8", "24", "2", "1", "7"]
    assert len(SQUARE.findall(first)) == 16
    assert names(page("castor", other).content.decode()) == ["s02", "s01"]
    assert names(page("lumen", one, page="3").content.decode()) == ["s05"]
    assert names(page("lumen", one, page="99").content.decode()) == ["s05"]  # the last one
    assert names(page("lumen", one, page="oops").content.decode()) == ["s04", "s01"]
    assert names(page("lumen", one, page="2", part="cells").content.decode()) == ["s02", "s03"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"owner": "@mine"}, ["s04"]),
        ({"owner": "castor"}, ["s02"]),
        ({"owner": "@operator"}, ["s01", "s02"]),  # of the second it has one parameter server
        ({"owner": "nobody-known"}, ["s04", "s01"]),
        ({"state": "draining"}, ["s05"]),
        ({"state": "draining", "owner": "castor"}, []),
        ({"name": "S03"}, ["s03"]),
    ],
)
def test_servers_of_a_large_pool_are_filtered(
    large: tuple[User, User], query: dict[str, str], expected: list[str]
) -> None:
    html = page("lumen", large[0], **query).content.decode()
    assert names(html) == expected
    assert ("No server fits" in html) == (not expected)


def test_a_filter_travels_along_in_the_links_of_a_large_pool(large: tuple[User, User]) -> None:
    html = page("lumen", large[0], owner="@operator", window="48").content.decode()
    links = [link.replace("&amp;", "&") for link in re.findall(r'(?:href|hx-get)="([^"]*pool=main[^"]*)"', html)]
    stay = [link for link in links if link.startswith("?pool=main&window=") or "/servers/?part=" in link]
    assert len(stay) > 5
    assert all("owner=%40operator" in link for link in stay)


def test_needs_no_style_that_the_policy_forbids() -> None:
    make_cells(make_server(make_pool()), make_tenant("lumen"), {"worker": 5})
    html = page("lumen", make_person("viewer", make_tenant("lumen"))).content.decode()
    assert "style=" not in html
    assert "<script>" not in html


def test_draws_one_square_per_unit_and_one_bar_per_owner_where_squares_would_be_too_narrow() -> None:
    share = ChartShare("worker", "worker", mine=1, others=2, operator=1)
    assert list(_squares(share, 25, whole=False)) == [
        ChartSquare(MINE, 0, 21.5),
        ChartSquare(OTHERS, 25, 21.5),
        ChartSquare(OTHERS, 50, 21.5),
        ChartSquare(OPERATOR, 75, 21.5),
    ]
    assert [(square.owner, square.x, square.width) for square in _squares(share, 25, whole=True)] == [
        (MINE, 0, 21.5),
        (OTHERS, 25, 46.5),
        (OPERATOR, 75, 21.5),
    ]


@pytest.mark.parametrize(("path", "heading"), [("servers", "Servers"), ("cells", "Cells")])
def test_tells_the_operator_what_is_missing_before_there_is_a_pool(path: str, heading: str) -> None:
    client = client_of(make_person("operator"))
    html = client.get(f"/operator/{path}/").content.decode()
    assert f"<h1>{heading}</h1>" in html
    assert f"<title>{heading} " in html
