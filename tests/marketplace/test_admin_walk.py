"""Every address of Django's admin, for every model that is registered: an answer for the staff, and never a 500."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.db.models import ForeignKey, Model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tenants.models import User
from tenants.roles import AUDITOR, OPERATOR, OWNER
from tenants.scoping import scope_disabled
from tests.api.table import World, make_world
from tests.scheduling.live import submit
from tests.scheduling.markets import run_slots
from tests.tenants.builders import client_of, make_member, make_staff

pytestmark = pytest.mark.django_db
SUPERUSER = "superuser"  # of a kind that the product does not know: whatever Django asks, the answer is yes
MISSING = "999999999"
ODD = ["9" * 30, "x", "_5F", "%00"]  # ids that no row can have
QUERIES = ["?q=a", "?q=%00", "?o=1.-2.x", "?p=9" + "9" * 30, "?_popup=1&_to_field=id", "?id__gt=9" + "9" * 30]
QUERIES += ["?state__exact=%00", "?tenant__slug=lumen", "?nothing=1"]


@pytest.fixture
def world() -> World:
    """With a row of as many models as the market makes by itself."""
    world = make_world("lumen")
    with scope_disabled("the test fills a market"):
        submit(world.pool, world.tenant, lane="instant")
        run_slots(world.pool, 0, 2)
    return world


@pytest.fixture(
    params=[pytest.param(OPERATOR, marks=pytest.mark.wide), AUDITOR, pytest.param(SUPERUSER, marks=pytest.mark.wide)]
)
def staff(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Client:
    person = make_staff(AUDITOR if request.param == SUPERUSER else request.param).user
    if request.param == SUPERUSER:
        monkeypatch.setattr(User, "has_perm", lambda *_: True)
    client = client_of(person)
    client.raise_request_exception = False
    return client


def addresses(*, whole: bool) -> Iterator[str]:
    """As the resolver knows them: whatever Django or another package adds is walked too. `whole`: also where nobody
    gets by a link, with rows that are not there, odd ids and odd queries."""
    (root,) = (entry for entry in get_resolver().url_patterns if isinstance(entry, URLResolver) and _is_admin(entry))
    if whole:
        yield from (address for entry in root.url_patterns if isinstance(entry, URLPattern) for address in _site(entry))
    for number, model in enumerate(admin.site._registry):
        place = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        yield place
        keys = _keys(model) or [MISSING]
        yield from (f"{place}{key}/{view}" for key in keys for view in ("change/", "history/", "delete/"))
        if whole:
            yield from (
                f"{place}add/",
                f"{place}{keys[0]}/",
                f"{place}{keys[0]}/nothing/",
                f"{place}{MISSING}/history/",
            )
            yield from _autocompleted(model)
        if whole and number % 6 == 0:
            yield from (f"{place}{query}" for query in QUERIES)
            yield from (f"{place}{key}/{view}/" for key in ODD for view in ("change", "history"))


def _is_admin(entry: URLResolver) -> bool:
    return entry.app_name == "admin"


def _site(entry: URLPattern) -> Iterator[str]:
    kinds = [*ContentType.objects.values_list("pk", flat=True)[::4], 10**9]
    values = {"content_type_id": kinds, "object_id": ["1", "x"], "app_label": ["scheduling", "tenants", "nothing"]}
    route = str(entry.pattern)
    if entry.name == "view_on_site":
        yield from (f"/admin/r/{kind}/{key}/" for kind in values["content_type_id"] for key in values["object_id"])
    elif entry.name == "app_list":
        yield from (f"/admin/{label}/" for label in values["app_label"])
    elif entry.name != "logout":  # by POST alone
        yield f"/admin/{route}" if "(" not in route else "/admin/no/such/address"


def _keys(model: type[Model]) -> list[Any]:
    with scope_disabled("the test looks for rows"):
        return list(model._default_manager.values_list("pk", flat=True)[:1])


def _autocompleted(model: type[Model]) -> Iterator[str]:
    named = f"app_label={model._meta.app_label}&model_name={model._meta.model_name}"
    for field in model._meta.get_fields():
        if isinstance(field, ForeignKey):
            yield f"/admin/autocomplete/?term=a&{named}&field_name={field.name}"


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore::django.core.paginator.UnorderedObjectListWarning")  # of other packages' models
def test_no_address_of_the_admin_breaks(world: World, staff: Client, request: pytest.FixtureRequest) -> None:
    places = addresses(whole=request.node.callspec.params["staff"] == OPERATOR)
    statuses = {address: staff.get(address, secure=True).status_code for address in places}
    assert len(statuses) >= 4 * len(admin.site._registry)
    assert [address for address, status in statuses.items() if status >= 500] == []
    pages = [address for address, status in statuses.items() if status == 200]
    assert any("/history/" in address for address in pages)
    for model in admin.site._registry:
        assert any(f"/{model._meta.app_label}/{model._meta.model_name}/" in address for address in pages), model


@pytest.mark.wide
@pytest.mark.parametrize("staff", [pytest.param(OPERATOR, marks=pytest.mark.wide), AUDITOR], indirect=True)
def test_no_form_of_the_admin_breaks_and_none_changes_a_row(world: World, staff: Client) -> None:
    before = {model: _count(model) for model in admin.site._registry}
    statuses = {}
    for model in admin.site._registry:
        place = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        for key in _keys(model) or [MISSING]:
            for path in (place, f"{place}{key}/change/", f"{place}{key}/delete/"):
                body = {"post": "yes", "action": "delete_selected", "_selected_action": key}
                statuses[path] = staff.post(path, body, secure=True).status_code
    assert [address for address, status in statuses.items() if status >= 500] == []
    ours = [model for model in before if model._meta.app_label in ("tenants", "scheduling")]
    assert {model: _count(model) for model in ours} == {model: before[model] for model in ours}


def _count(model: type[Model]) -> int:
    with scope_disabled("the test counts"):
        return model._default_manager.count()


def test_history_of_a_tenants_row_is_shown_to_the_staff_and_to_nobody_else(world: World) -> None:
    path = f"/admin/scheduling/trainingjob/{world.jobs[0].pk}/history/"
    assert client_of(make_staff(AUDITOR).user).get(path, secure=True).status_code == 200
    assert client_of(make_member(world.tenant, OWNER).user).get(path, secure=True).status_code == 302
    assert Client().get(path, secure=True).status_code == 302
