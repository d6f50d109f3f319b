"""The page of notices, and the bell in the head of every page."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from scheduling.feed.kinds import EventKind
from scheduling.models import Notice, NoticeChoice
from scheduling.notices.collecting import notices_collect
from scheduling.notices.kinds import NoticeKind
from scheduling.notices.pages.notices import LIST
from scheduling.notices.read_notices import notices_of
from tenants.models import Tenant, User
from tenants.roles import BILLING, OPERATOR, OWNER
from tests.notices.test_notices import lines, member, tell
from tests.scheduling.builders import make_pool, make_server
from tests.scheduling.pages import client_of, text_of
from tests.tenants.builders import NOW, make_member, make_person, make_staff, make_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("committed")]

BELL = re.compile(r'<a id="bell".*?</a>', re.DOTALL)


def tell_low_balance(tenant: Tenant, times: int = 1) -> None:
    for _ in range(times):
        tell(tenant, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)
    notices_collect(at=NOW)


def bell(client: Client, path: str) -> str:
    match = BELL.search(client.get(path).content.decode())
    assert match, path
    return text_of(match[0])


def reader(role: str = OWNER) -> tuple[Tenant, User, Client]:
    tenant = make_tenant()
    person = member(tenant, role)
    return tenant, person, client_of(person)


def test_the_bell_counts_on_pages_of_a_tenant_and_of_the_account_and_by_itself() -> None:
    make_server(make_pool())
    tenant, _, client = reader()
    paths = [f"/t/{tenant.slug}/market/", f"/t/{tenant.slug}/members/", "/notices/", "/notices/?part=bell"]
    assert {bell(client, path) for path in paths} == {"Notices, none unread"}
    tell_low_balance(tenant, 2)
    assert {bell(client, path) for path in paths} == {"Notices, 2 unread"}


def test_the_bell_counts_for_the_staff_on_the_overview() -> None:
    make_server(make_pool())
    client = client_of(make_staff(OPERATOR).user)
    tell(None, EventKind.SERVER_LOST, server="s1")
    notices_collect(at=NOW)
    assert bell(client, "/overview/") == "Notices, 1 unread"


def test_the_page_lists_ones_own_in_words_and_marks_them() -> None:
    tenant, person, client = reader()
    stranger = client_of(make_member(make_tenant(), OWNER).user)
    tell_low_balance(tenant, 2)
    page = text_of(client.get("/notices/").content.decode())
    assert "You have 2 unread notices." in page
    assert "5.00 credits last 2 slots." in page
    empty = text_of(stranger.get("/notices/").content.decode())
    assert "You have got none yet." in empty
    assert "Nothing yet" in empty
    newest, oldest = (line.id for line in lines(person))
    stranger.post("/notices/read/", {"notice": newest})
    stranger.post("/notices/read/", {"until": newest})
    assert Notice.objects.filter(read_at=None).count() == 2
    client.post("/notices/read/", {"notice": oldest})
    assert [line.is_unread for line in lines(person)] == [True, False]
    assert client.get("/notices/?show=unread").content.decode().count('<tr class="unread"') == 1
    client.post("/notices/read/", {"until": newest})
    assert "You have read all of them." in text_of(client.get("/notices/").content.decode())


def test_whoever_marks_in_the_list_of_unread_ones_stays_there() -> None:
    tenant, person, client = reader()
    tell_low_balance(tenant, 2)
    unread = "/notices/?show=unread"
    assert client.get(unread).content.decode().count('name="show" value="unread"') == 3
    assert client.get("/notices/").content.decode().count('name="show"') == 0
    newest, oldest = (line.id for line in lines(person))
    assert client.post("/notices/read/", {"notice": oldest, "show": "unread"})["Location"] == unread
    assert client.post("/notices/read/", {"until": newest, "show": "//elsewhere"})["Location"] == "/notices/"


@pytest.mark.parametrize("query", ["", "?show=unread"])
@pytest.mark.parametrize("is_second", [False, True])
def test_marking_all_on_any_page_marks_all_that_there_were_when_it_was_opened(query: str, is_second: bool) -> None:
    tenant, person, client = reader()
    tell_low_balance(tenant, LIST.rows + 2)
    html = client.get(f"/notices/{query}").content.decode()
    if is_second:
        following = re.search(r'href="(\?[^"]*)" rel="next"', html)
        assert following is not None
        html = client.get(f"/notices/{following[1].replace('&amp;', '&')}").content.decode()
        assert html.count('<tr class="unread"') == 2
    until = re.search(r'name="until" value="(\d+)"', html)
    assert until is not None
    tell_low_balance(tenant)
    client.post("/notices/read/", {"until": until[1]})
    unread = list(notices_of(person).filter(read_at=None).values_list("pk", flat=True))
    assert unread == [lines(person)[0].id], "the one that came later is unread, and no other one is"


@pytest.mark.parametrize("form", [{}, {"notice": "x"}, {"until": "-1"}, {"notice": "9" * 30}])
def test_a_form_that_names_nothing_marks_nothing(form: dict[str, str]) -> None:
    tenant, _, client = reader()
    tell_low_balance(tenant)
    assert client.post("/notices/read/", form).status_code == 302
    assert Notice.objects.filter(read_at=None).count() == 1


def test_what_is_ticked_is_what_one_is_told_of() -> None:
    tenant, person, client = reader(BILLING)
    page = client.get("/notices/choices/").content.decode()
    ticked = set(re.findall(r'name="(\w+\.\w+)"\s+aria-label="[^"]*"\s+checked', page))
    assert ticked == {f"{kind}.bell" for kind in NoticeKind if kind.rings}
    client.post("/notices/choices/", {"budget.bell": "on", "budget.toast": "on"})
    choices = {(row.kind, row.bell, row.toast) for row in NoticeChoice.objects.filter(person=person)}
    assert choices == {(kind.value, kind == NoticeKind.BUDGET, kind == NoticeKind.BUDGET) for kind in NoticeKind}
    tell_low_balance(tenant)
    tell(tenant, EventKind.BUDGET_PASSED)
    notices_collect(at=NOW)
    assert [line.kind for line in lines(person)] == [NoticeKind.BUDGET]


def test_nobody_but_a_person_who_is_logged_in_has_notices() -> None:
    for path in ("/notices/", "/notices/choices/", "/notices/read/"):
        assert Client().get(path).status_code == 302
        assert Client().post(path).status_code == 302
    assert client_of(make_person()).get("/notices/").status_code == 200


def test_the_address_of_a_form_leads_back_to_the_page() -> None:
    _, _, client = reader()
    assert client.get("/notices/read/")["Location"] == "/notices/"
