"""The cluster in Django's admin: the staff look, nobody changes anything there."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path

from tenants.models import StaffGrant
from tests.catalogue.builders import BY, archive_with, register
from tests.market.test_servers_page import make_person
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.scheduling.test_admin")]

urlpatterns = [path("admin/", admin.site.urls)]  # the product has these addresses only where DEBUG is on

MODELS = ["server", "cell"]
OWN = {"SavedView", "NoticeChoice", "NoticeProfile"}  # a person's own questions are nobody else's business
COMPOSITE = {"CalendarCell", "PriceTick", "ShapeChange"}  # the admin cannot show a key of several columns


@pytest.mark.parametrize(
    ("role", "look", "add"), [("auditor", 200, 403), ("operator", 200, 403), ("owner", 302, 302), ("viewer", 302, 302)]
)
@pytest.mark.parametrize("model", MODELS)
def test_shows_the_cluster_to_the_staff_and_lets_nobody_add(model: str, role: str, look: int, add: int) -> None:
    tenant = make_tenant("lumen")
    make_cells(make_server(make_pool()), tenant, {"worker": 5})
    client = Client()
    client.force_login(make_person(role, tenant))
    assert client.get(f"/admin/scheduling/{model}/", secure=True).status_code == look
    assert client.get(f"/admin/scheduling/{model}/add/", secure=True).status_code == add


@pytest.mark.wide
def test_every_model_of_the_market_is_shown_can_be_searched_and_never_changed() -> None:
    registered = {model.__name__ for model in admin.site._registry if model._meta.app_label == "scheduling"}
    assert {model.__name__ for model in apps.get_app_config("scheduling").get_models()} - registered <= COMPOSITE | OWN
    client = Client()
    client.force_login(make_person("operator", None))
    for model, page in admin.site._registry.items():
        if model._meta.app_label not in ("scheduling", "tenants"):
            continue
        assert page.search_fields, model
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        assert client.get(path, {"q": "7"}, secure=True).status_code == 200, model
        assert client.get(f"{path}add/", secure=True).status_code == 403, model


def test_a_page_asks_once_whether_its_reader_is_of_the_staff() -> None:
    """It shows every model of the product in its navigation, and Django asks for each of them. Beside that the product
    asks for the roles of whoever calls."""
    client = Client()
    client.force_login(make_person("auditor", None))
    with CaptureQueriesContext(connection) as captured:
        assert client.get("/admin/tenants/tenant/", secure=True).status_code == 200
    queries = [query["sql"] for query in captured.captured_queries if StaffGrant._meta.db_table in query["sql"]]
    assert len(queries) == 2


@pytest.mark.parametrize("role", ["auditor", "operator"])
def test_words_of_programs_are_not_shown(role: str) -> None:
    row = register(BY, archive_with("train.py"), command=[], parameters=[], script="echo unseen\n")
    client = Client()
    client.force_login(make_person(role, None))
    for model, pk in (("programversion", row.pk), ("programarchive", row.archive_id)):
        for place in ("", "?q=unseen", f"{pk}/change/"):
            reply = client.get(f"/admin/scheduling/{model}/{place}", secure=True)
            assert reply.status_code == 200
            assert "echo unseen" not in reply.content.decode()
