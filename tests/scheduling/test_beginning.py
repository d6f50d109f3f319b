"""An installation without the demonstration: pages on which there is nothing yet name the next step and lead to it."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tenants.roles import AUDITOR, OPERATOR, OWNER
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.live import fund
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db

POOLS, SERVERS, CELLS, TENANTS = "/operator/pools/", "/operator/servers/?pool=main", "/operator/cells/", "/tenants/"


@pytest.fixture
def operator() -> Client:
    return client_as(OPERATOR, None)


def page(client: Client, address: str) -> str:
    """Return what stands in the page itself, without its navigation."""
    answer = client.get(address)
    assert answer.status_code == 200, address
    return str(answer.content.decode().partition("<main")[2].partition("</main>")[0])


def links(html: str) -> set[str]:
    return {address.replace("&amp;", "&") for address in re.findall(r'<a\s[^>]*href="([^"]*)"', html)}


def words(client: Client, address: str) -> str:
    return " ".join(text_of(page(client, address)).split())


def steps(client: Client) -> list[tuple[str, bool, str]]:
    """Return each first step of the overview: its title, whether it is done, and where its button leads."""
    panel = page(client, "/overview/").partition('class="decide first"')[2]
    rows = re.findall(r"<li[^>]*>(.*?)</li>", panel, re.DOTALL)
    titles = [(re.findall(r"<b>(.*?)</b>", row), row) for row in rows if 'class="due' in row]
    return [(title, "done" in text_of(row), "".join(links(row))) for (title,), row in titles]


@pytest.mark.parametrize(
    ("address", "step"),
    [
        ("/overview/", POOLS),
        ("/overview/", TENANTS),
        ("/overview/jobs/", TENANTS),
        ("/operator/servers/", POOLS),
        ("/operator/cells/", POOLS),
        ("/operator/credits/", TENANTS),
        ("/operator/programs/", TENANTS),
        ("/operator/health/", POOLS),
        ("/fairness/", POOLS),
    ],
)
def test_where_nothing_exists_pages_lead_to_what_is_made_first(address: str, step: str, operator: Client) -> None:
    assert step in links(page(operator, address))


def test_a_pool_without_servers_leads_to_the_page_that_adds_them(operator: Client) -> None:
    make_pool()
    assert SERVERS in links(page(operator, "/operator/cells/"))
    assert SERVERS in links(page(operator, "/overview/").partition('id="overview-use"')[2])


def test_cells_of_a_server_lead_to_tenants_where_there_is_nobody_to_own_them(operator: Client) -> None:
    server = make_server(make_pool())
    assert TENANTS in links(page(operator, f"/operator/cells/{server.pk}/"))
    assert "Choose an owner below" not in words(operator, f"/operator/cells/{server.pk}/")


def test_a_tenant_without_an_entry_or_a_figure_is_led_to_its_first_job() -> None:
    make_server(make_pool())
    owner = client_as(OWNER, make_tenant("lumen"))
    assert "/t/lumen/submit/" in links(page(owner, "/t/lumen/ledger/"))
    assert {"/t/lumen/submit/", "/t/lumen/share/"} <= links(page(owner, "/t/lumen/fairness/"))


def test_the_overview_of_an_empty_market_has_the_first_steps_until_a_job_can_run(operator: Client) -> None:
    page = words(operator, "/overview/")
    assert "The market has not begun" in page
    assert "The market is well" not in page
    assert steps(operator) == [
        ("Make a pool", False, POOLS),
        ("Add its servers", False, "/operator/servers/"),
        ("Make a tenant", False, TENANTS),
        ("Give it cells or credits", False, CELLS),
    ]
    pool = make_pool()
    assert [done for _, done, _ in steps(operator)] == [True, False, False, False]
    assert steps(operator)[1][2] == SERVERS
    server = make_server(pool)
    lumen = make_tenant("lumen")
    assert [done for _, done, _ in steps(operator)] == [True, True, True, False]
    make_cells(server, lumen, {"worker": 2})
    assert steps(operator) == []
    assert "has not begun" not in words(operator, "/overview/")


def test_the_step_that_comes_next_has_the_filled_button(operator: Client) -> None:
    def filled() -> list[str]:
        html = page(operator, "/overview/").partition('class="decide first"')[2].partition("</ol>")[0]
        return [text_of(button).strip() for button in re.findall(r'<a class="button main".*?</a>', html, re.DOTALL)]

    assert [" ".join(button.split()) for button in filled()] == ["Pools : Make a pool"]
    make_tenant("lumen")
    make_pool()
    assert [" ".join(button.split()) for button in filled()] == ["Servers : Add its servers"]


def test_credits_are_enough_to_begin_where_all_units_are_the_operators(operator: Client) -> None:
    make_server(make_pool())
    fund(make_tenant("lumen"), 5)
    assert steps(operator) == []


def test_an_auditor_reads_the_first_steps_and_gets_no_button_for_them() -> None:
    assert [(done, address) for _, done, address in steps(client_as(AUDITOR, None))] == [(False, "")] * 4


@pytest.mark.parametrize("address", ["/operator/servers/?pool=main", "/operator/cells/?pool=main"])
def test_units_of_a_pool_are_told_in_one_sentence(address: str, operator: Client) -> None:
    make_server(make_pool(), worker=4, ps=2)
    page = words(operator, address).replace(" ,", ",")
    assert "4 workers, 4 of them the operator's, and 2 pss, 2 of them the operator's." in page


def test_an_auditor_reads_nothing_of_a_change_that_only_operators_make() -> None:
    server = make_server(make_pool())
    make_cells(server, make_tenant("lumen"), {"worker": 2})
    auditor = client_as(AUDITOR, None)
    page = words(auditor, f"/operator/cells/{server.pk}/")
    assert "Nothing would change yet" not in page
    assert "Lumen" in page
    page = words(auditor, "/operator/programs/")
    assert "Give a reason beside the button" not in page
    assert "May bring Change" not in page
    assert "Lumen" in page
