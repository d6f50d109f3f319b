"""The operator's pages: who opens them, what a form shows before anything is changed, and what is remembered after."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from marketplace.tasks import verify
from scheduling.models import Cell, LaneClock, Pool, Server, ServerState
from tenants.models import AuditEntry, Tenant
from tenants.roles import OPERATOR, STAFF_ROLES, TENANT_ROLES
from tenants.scoping import scope_disabled
from tests.database import as_superuser, overwrite
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.live import enter, fund, make_award, money, settle
from tests.scheduling.pages import client_as, text_of
from tests.tenants.builders import client_of, make_staff

pytestmark = pytest.mark.django_db

WHY = {"reason": "new rack"}
CAPACITY_VERSION = {"capacity-version": "worker.8 ps.2"}  # of `server`


@pytest.fixture
def server() -> Server:
    """Eight workers, six of them lumen's, and two parameter servers; castor owns nothing."""
    lumen, _ = make_tenant("lumen"), make_tenant("castor")
    server_of_lumen = make_server(make_pool())
    make_cells(server_of_lumen, lumen, {"worker": 6})
    return server_of_lumen


@pytest.fixture
def operator() -> Client:
    return client_as("operator", None)


def pages(server: Server) -> list[str]:
    one = [f"/operator/{page}/{server.pk}/" for page in ("servers", "cells")]
    return [
        *(f"/operator/{page}/" for page in ("servers", "cells", "pools", "credits", "health")),
        *one,
        "/operator/pools/main/",
    ]


def get(client: Client, path: str, **query: str) -> str:
    answer = client.get(path, query, secure=True)
    assert answer.status_code == 200, (path, answer.status_code)
    return answer.content.decode()


def post(client: Client, path: str, **fields: object):
    return client.post(path, {name: str(value) for name, value in fields.items()}, secure=True)


def words_of(answer) -> str:
    return text_of(answer.content.decode())


def entry(action: str) -> AuditEntry:
    return AuditEntry.objects.get(action=action)


@pytest.mark.parametrize("role", STAFF_ROLES)
def test_staff_open_every_page_and_only_the_operator_finds_forms_of_changes(server: Server, role: str) -> None:
    client = client_as(role, None)
    for path in pages(server):
        html = get(client, path)
        assert "<script>" not in html
        assert " style=" not in html
        assert ("data-change=" in html) == (role == "operator" and "health" not in path and path != "/operator/cells/")


@pytest.mark.parametrize("role", ["", *TENANT_ROLES])
def test_nobody_else_opens_any(server: Server, role: str) -> None:
    client = client_as(role, Tenant.objects.get(slug="lumen"))
    assert {client.get(path, secure=True).status_code for path in pages(server)} == {403}


def changes(server: Server) -> list[str]:
    one = [f"/operator/servers/{server.pk}/{what}/" for what in ("capacity", "state", "lose")]
    others = [
        "/operator/pools/main/",
        "/operator/pools/new/",
        "/operator/pools/main/servers/new/",
        "/operator/credits/",
    ]
    return [*one, f"/operator/cells/{server.pk}/", *others]


@pytest.mark.parametrize("role", ["auditor", "owner", "billing"])
def test_only_an_operator_changes_anything(server: Server, role: str) -> None:
    client = client_as(role, Tenant.objects.get(slug="lumen"))
    before = AuditEntry.objects.count()
    assert {post(client, path, **WHY).status_code for path in changes(server)} == {403}
    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize("path", ["servers", "cells", "pools", "credits"])
def test_tables_are_exported(server: Server, operator: Client, path: str) -> None:
    answer = operator.get(f"/operator/{path}/", {"format": "csv"}, secure=True)
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert len(lines) > 1
    assert (path != "servers") or lines[1] == "s01,in_service,8,6,2,2,0,2"


def test_every_change_asks_for_its_reason(server: Server, operator: Client) -> None:
    before = AuditEntry.objects.count()
    for path in changes(server):
        assert "Say why" in words_of(post(operator, path, reason="  ")), path
    assert AuditEntry.objects.count() == before


# ---- servers


def test_a_server_is_added_with_its_reason(server: Server, operator: Client) -> None:
    fields = {"add-name": "s02", "add-units-worker": 4, "add-units-ps": 1, "add-hosts_workers": "on"}
    answer = post(operator, "/operator/pools/main/servers/new/", **fields, **{"add-reason": "new rack"})
    assert answer.status_code == 302
    server_row = Server.objects.get(name="s02")
    assert (server_row.hosts_workers, server_row.hosts_ps) == (True, False)
    assert (entry("server_add").reason, entry("server_add").after["capacity"]) == ("new rack", {"worker": 4, "ps": 1})


def test_a_name_that_is_taken_is_refused_at_its_field(server: Server, operator: Client) -> None:
    fields = {"add-name": "s01", "add-units-worker": 4, "add-units-ps": 1, "add-hosts_ps": "on", "add-reason": "x"}
    html = post(operator, "/operator/pools/main/servers/new/", **fields).content.decode()
    assert "There is such a server already." in error_at(html, "add-name")


def error_at(html: str, field: str) -> str:
    match = re.search(rf'data-error-of="{field}">(.*?)</div>', html, re.DOTALL)
    assert match, field
    return text_of(match[1])


def test_a_capacity_below_the_cells_is_refused_at_its_field_before_it_is_sent(server: Server, operator: Client) -> None:
    path = f"/operator/servers/{server.pk}/capacity/"
    fields = CAPACITY_VERSION | {
        "capacity-units-worker": 5,
        "capacity-units-ps": 2,
        "capacity-reason": "half is broken",
    }
    looked = post(operator, f"{path}?part=effect", **fields).content.decode()
    assert '<li data-fault="capacity-units-worker">Cells take 6 of them' in looked
    html = post(operator, path, **fields).content.decode()
    assert "Cells take 6 of them" in error_at(html, "capacity-units-worker")
    assert not AuditEntry.objects.filter(action="server_capacity_change").exists()


def test_a_capacity_is_shown_before_and_after_and_then_remembered(server: Server, operator: Client) -> None:
    path = f"/operator/servers/{server.pk}/capacity/"
    fields = CAPACITY_VERSION | {"capacity-units-worker": 10, "capacity-units-ps": 2, "capacity-reason": "bigger"}
    looked = words_of(post(operator, f"{path}?part=effect", **fields))
    assert "worker: units 8 10" in looked
    assert "left for the operator 2 4" in looked
    assert server.capacities.get(resource__name="worker").units == 8
    assert post(operator, path, **fields).status_code == 302
    row = entry("server_capacity_change")
    assert (row.reason, row.before["worker"], row.after["worker"]) == ("bigger", 8, 10)


def test_of_two_operators_neither_undoes_what_the_other_has_just_changed(server: Server, operator: Client) -> None:
    """Each has the page as it was before the other's change, and changes one resource of two."""
    path, other = f"/operator/servers/{server.pk}/", client_of(make_staff(OPERATOR).user)
    page = get(operator, path)
    version = re.search(r'name="capacity-version" value="([^"]*)"', page)
    assert version, "the page remembers what it has shown"
    fields = {"capacity-version": version[1], "capacity-reason": "new rack"}
    workers = fields | {"capacity-units-worker": 10, "capacity-units-ps": 2}
    assert post(other, f"{path}capacity/", **workers).status_code == 302
    answer = post(operator, f"{path}capacity/", **fields, **{"capacity-units-worker": 8, "capacity-units-ps": 4})
    assert "This was changed while you looked at it." in words_of(answer)
    assert dict(server.capacities.values_list("resource__name", "units")) == {"worker": 10, "ps": 2}
    again = re.search(r'name="capacity-version" value="([^"]*)"', answer.content.decode())
    assert again, "it may be sent again"
    fields |= {"capacity-version": again[1], "capacity-units-worker": 10, "capacity-units-ps": 4}
    assert post(operator, f"{path}capacity/", **fields).status_code == 302
    assert dict(server.capacities.values_list("resource__name", "units")) == {"worker": 10, "ps": 4}


def test_a_server_is_drained_and_returned(server: Server, operator: Client) -> None:
    path = f"/operator/servers/{server.pk}/state/"
    assert "in service draining" in words_of(post(operator, f"{path}?part=effect", **{"state-action": "drain"}))
    post(operator, path, **{"state-action": "drain", "state-reason": "fan"})
    server.refresh_from_db()
    assert server.state == ServerState.DRAINING
    again = post(operator, path, **{"state-action": "drain", "state-reason": "fan"})
    assert again.status_code == 200  # somebody was faster
    assert "s01 is draining by now." in words_of(again)
    post(operator, path, **{"state-action": "return", "state-reason": "mended"})
    server.refresh_from_db()
    assert server.state == ServerState.IN_SERVICE
    assert (entry("server_drain").reason, entry("server_return").reason) == ("fan", "mended")


def test_a_loss_says_first_what_it_would_refund_and_wants_the_name(server: Server, operator: Client) -> None:
    pool, lumen = server.pool, Tenant.objects.get(slug="lumen")
    castor = Tenant.objects.get(slug="castor")
    fund(castor)
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(epoch_at=timezone.now() - 1.5 * timedelta(seconds=pool.slot_seconds))
    award = make_award(pool, castor, slots=3, charges=[[(lumen, 2_000_000)]] * 3, allocation=[[server.pk, 0, 3, 2, 0]])
    enter(award)
    settle(pool, 0)
    assert "4.00 credits would be refunded. 1 award cut short, 1 job waits again" in text_of(
        get(operator, f"/operator/servers/{server.pk}/")
    )
    path = f"/operator/servers/{server.pk}/lose/"
    wrong = post(operator, path, **{"lose-name": "s02", "lose-reason": "smoke"}).content.decode()
    assert "This is s01. Nothing was declared." in error_at(wrong, "lose-name")
    assert money(castor)[1] == 4_000_000
    assert post(operator, path, **{"lose-name": "s01", "lose-reason": "smoke"}).status_code == 302
    assert money(castor) == (998_000_000, 0, 0)
    again = post(operator, path, **{"lose-name": "s01", "lose-reason": "smoke"})  # somebody was faster
    assert "s01 is lost already." in words_of(again)
    assert "s01 is lost already." in words_of(post(operator, path, **{"lose-name": "s1", "lose-reason": ""}))
    row = entry("server_lose")
    assert (row.reason, row.before["state"], row.after["refunded"]) == ("smoke", "in_service", 4_000_000)


# ---- cells


def cells(
    server: Server, version: str = "lumen.worker.6", reason: str = "sold a share", **units: int
) -> dict[str, str]:
    """`lumen_worker=3`: what the form would send."""
    fields = {"version": version, "reason": reason}
    for name, number in units.items():
        slug, _, resource = name.partition("_")
        fields[f"cells-{Tenant.objects.get(slug=slug).pk}-{resource}"] = str(number)
    return fields


def test_cells_above_the_capacity_are_refused_at_the_field_that_was_raised(server: Server, operator: Client) -> None:
    path, castor = f"/operator/cells/{server.pk}/", Tenant.objects.get(slug="castor")
    fields = cells(server, lumen_worker=6, castor_worker=3)
    looked = post(operator, f"{path}?part=effect", **fields).content.decode()
    assert f'<li data-fault="cells-{castor.pk}-worker">1 more than the 8 units' in looked
    assert "1 too many" in text_of(looked)
    html = post(operator, path, **fields).content.decode()
    assert "1 more than the 8 units there are: the cells would take 9." in error_at(html, f"cells-{castor.pk}-worker")
    assert error_at(html, f"cells-{Tenant.objects.get(slug='lumen').pk}-worker") == ""
    with scope_disabled("the test looks at all cells"):
        assert list(Cell.objects.values_list("tenant__slug", "units")) == [("lumen", 6)]


def test_what_is_left_for_the_operator_is_shown_while_cells_are_edited(server: Server, operator: Client) -> None:
    path = f"/operator/cells/{server.pk}/?part=effect"
    looked = words_of(post(operator, path, **cells(server, lumen_worker=3, castor_worker=4)))
    assert "Workers 8 6 → 7 2 → 1" in looked
    assert "Castor: workers 0 4" in looked
    assert "Lumen: workers 6 3" in looked


def test_cells_are_changed_and_each_owner_remembers_its_own(server: Server, operator: Client) -> None:
    path = f"/operator/cells/{server.pk}/"
    assert post(operator, path, **cells(server, lumen_worker=3, castor_worker=5, castor_ps=1)).status_code == 302
    cells_by_tenant = {
        row.tenant.slug: (row.reason, row.before, row.after) for row in AuditEntry.objects.filter(action="cells_change")
    }
    assert cells_by_tenant == {
        "lumen": ("sold a share", {"s01": {"worker": 6}}, {"s01": {"worker": 3}}),
        "castor": ("sold a share", {}, {"s01": {"worker": 5, "ps": 1}}),
    }


def test_cells_that_somebody_else_has_changed_meanwhile_are_not_overwritten(server: Server, operator: Client) -> None:
    answer = post(operator, f"/operator/cells/{server.pk}/", **cells(server, version="lumen.worker.5", lumen_worker=1))
    assert "were changed while you looked at them" in words_of(answer)
    assert not AuditEntry.objects.filter(action="cells_change").exists()


def test_an_owner_that_the_browser_did_not_send_keeps_its_cells(server: Server, operator: Client) -> None:
    assert post(operator, f"/operator/cells/{server.pk}/", **cells(server, castor_ps=1)).status_code == 302
    with scope_disabled("the test looks at all cells"):
        assert set(Cell.objects.values_list("tenant__slug", "units")) == {("lumen", 6), ("castor", 1)}


# ---- pools


def pool_fields(**changed: object) -> dict[str, object]:
    return {
        "slug": "second",
        "name": "Second pool",
        "slot_seconds": 60,
        "clock_first": 1,
        "clock_cap": 8,
        "clock_restart": "on",
        "epoch_at": "2026-03-02 12:00",
        "resources": "worker: worker\nps: parameter server",
        "batch_policy": '{"name": "astraea"}',
        "instant_policy": "",
        "outage_grace_seconds": 60,
        "instant_share_percent": 40,
        "instant_cooling_slots": 2,
        "reason": "a second hall",
    } | changed


def test_a_pool_is_made_with_all_its_rules(server: Server, operator: Client) -> None:
    assert post(operator, "/operator/pools/new/", **pool_fields()).status_code == 302
    pool = Pool.objects.get(slug="second")
    assert (pool.instant_policy, pool.instant_share_percent, pool.instant_cooling_slots) == (None, 40, 2)
    assert entry("pool_create").reason == "a second hall"


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("slug", "main", "There is a pool of this short name already."),
        ("slug", "Second Hall", "Small letters and digits"),
        ("clock_cap", 0, "greater than or equal to 1"),
        ("resources", "worker", "has no name, colon and word"),
        ("resources", "Worker 1: worker", "Worker 1"),
        ("batch_policy", "{", "This is not JSON"),
        ("batch_policy", "[" * 200_000, "This is not JSON"),
        ("batch_policy", '{"name": "fifo"}', "the batch lane can be run by"),
        ("instant_policy", '{"name": "astraea"}', "the instant lane can be run by oasis, pdors"),
        ("instant_policy", '{"name": "oasis", "mode": "paper"}', "counts time and prices as a market does"),
        ("instant_policy", '{"name": "oasis", "hours": 1}', "policy.hours: unknown field"),
    ],
)
def test_an_impossible_pool_is_refused_at_the_field(
    server: Server, operator: Client, field: str, value: object, sentence: str
) -> None:
    html = post(operator, "/operator/pools/new/", **pool_fields(**{field: value})).content.decode()
    assert sentence in error_at(html, field)
    assert Pool.objects.count() == 1


def test_a_pool_is_held_drained_and_resumed(server: Server, operator: Client) -> None:
    path = "/operator/pools/main/"
    assert "Main is running held" in words_of(post(operator, f"{path}?part=effect", action="hold"))
    for action, flags in (("hold", (True, False)), ("drain", (True, True)), ("resume", (False, False))):
        assert post(operator, path, action=action, reason="inspection").status_code == 302
        assert {(clock.held, clock.draining) for clock in LaneClock.objects.all()} == {flags}
    assert entry("pool_drain").before == {"held": True, "draining": False}
    again = post(operator, path, action="resume", reason="again")
    assert again.status_code == 200
    assert "Main is running by now." in words_of(again)
    assert "running running" not in words_of(again)


# ---- credits


def credits(
    slug: str = "lumen", amount: str = "12.5", direction: str = "grant", key: object = None
) -> dict[str, object]:
    tenant = Tenant.objects.get(slug=slug).pk
    return {"tenant": tenant, "amount": amount, "direction": direction, "key": key or uuid.uuid4(), "reason": "quarter"}


def test_a_grant_sent_twice_pays_once(server: Server, operator: Client) -> None:
    fields = credits()
    assert {post(operator, "/operator/credits/", **fields).status_code for _ in range(2)} == {302}
    assert money(Tenant.objects.get(slug="lumen"))[0] == 12_500_000
    assert (entry("credits_grant").reason, entry("credits_grant").after["amount"]) == ("quarter", 12_500_000)


def test_each_opened_form_is_a_grant_of_its_own(server: Server, operator: Client) -> None:
    keys = {re.search(r'name="key" value="([^"]+)"', get(operator, "/operator/credits/"))[1] for _ in range(2)}
    for key in keys:
        post(operator, "/operator/credits/", **credits(key=key))
    assert money(Tenant.objects.get(slug="lumen"))[0] == 25_000_000


def test_a_form_sent_again_with_another_amount_moves_nothing_and_says_so(server: Server, operator: Client) -> None:
    fields = credits()
    post(operator, "/operator/credits/", **fields)
    answer = post(operator, "/operator/credits/", **(fields | {"amount": "99"}))
    assert "sent before with other contents" in words_of(answer)
    assert f'value="{fields["key"]}"' not in answer.content.decode()
    assert money(Tenant.objects.get(slug="lumen"))[0] == 12_500_000


def test_a_withdrawal_is_shown_before_and_after_and_never_goes_below_nothing(server: Server, operator: Client) -> None:
    lumen = Tenant.objects.get(slug="lumen")
    fund(lumen, 100)
    looked = words_of(post(operator, "/operator/credits/?part=effect", **credits(amount="30", direction="withdraw")))
    assert "Lumen: available 100.00 70.00" in looked
    html = post(operator, "/operator/credits/", **credits(amount="130", direction="withdraw")).content.decode()
    assert "can pay out 100.00 credits; 130.00 were asked for" in error_at(html, "amount")
    assert post(operator, "/operator/credits/", **credits(amount="30", direction="withdraw")).status_code == 302
    assert (money(lumen)[0], entry("credits_withdraw").reason) == (70_000_000, "quarter")


@pytest.mark.parametrize("amount", ["0", "-1", "1000000001"])
def test_an_amount_out_of_range_is_told_the_range_that_holds(server: Server, operator: Client, amount: str) -> None:
    html = post(operator, "/operator/credits/", **credits(amount=amount)).content.decode()
    assert "Must be from 0.000001 to 1 000 000 000.00 credits." in " ".join(error_at(html, "amount").split())


@pytest.mark.parametrize("amount", ["0", "-1", "1.0000001", "1000000001", "NaN", ""])
def test_an_impossible_amount_is_refused_at_its_field(server: Server, operator: Client, amount: str) -> None:
    assert error_at(post(operator, "/operator/credits/", **credits(amount=amount)).content.decode(), "amount")
    assert not AuditEntry.objects.filter(action="credits_grant").exists()


# ---- health


def test_health_says_how_far_the_clock_is_behind_and_what_was_verified(server: Server, operator: Client) -> None:
    assert "not verified yet" in text_of(get(operator, "/operator/health/"))
    for what in ("history", "book"):
        assert post(operator, f"/operator/health/verify/{what}/").status_code == 302
    assert text_of(get(operator, "/operator/health/")).count("being verified since") == 2
    for what in ("history", "book"):
        verify(what=what)  # as the worker does
    text = text_of(get(operator, "/operator/health/"))
    assert "being verified" not in text
    assert "each follows the one before" in text
    assert "every one sums to nothing" in text
    part = get(operator, "/operator/health/", part="now")
    assert "<html" not in part
    assert "Queue lag" in part
    assert post(operator, "/operator/health/verify/weather/").status_code == 404


def test_a_clock_that_has_not_begun_says_when_it_does(server: Server, operator: Client) -> None:
    assert "not yet" not in text_of(get(operator, "/operator/health/")), "a boundary has passed without it"
    pool = server.pool
    pool.epoch_at = timezone.now() + timedelta(hours=1)
    overwrite(pool)
    for path in ("/operator/health/", f"/operator/pools/{pool.slug}/"):
        assert "not yet; next at" in text_of(get(operator, path))


def test_intervals_that_are_all_alike_are_one_number(server: Server, operator: Client) -> None:
    server.pool.clock_first = server.pool.clock_cap = 1
    overwrite(server.pool)
    page = text_of(get(operator, f"/operator/pools/{server.pool.slug}/"))
    assert "1 slot all alike" in page


def test_charged_against_ran_says_which_difference_does_not_count(server: Server, operator: Client) -> None:
    page = text_of(get(operator, f"/operator/pools/{server.pool.slug}/ran/"))
    assert "Up to 3 seconds of a slot for starting and saving are no difference." in page
