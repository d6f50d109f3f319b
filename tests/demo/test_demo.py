"""The demonstration: whole, the same each time, only where DEBUG is on, and never over somebody's own data."""

from __future__ import annotations

import io
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from pytest_django.fixtures import Settings

from scheduling.demo import content, demo
from scheduling.models import ProgramSwitch
from scheduling.programs.stored import usable_programs
from tenants.access import Refused
from tenants.models import Tenant, User
from tests.patience import PATIENCE
from tests.scheduling.builders import NOON, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _debug(settings: Settings) -> None:
    settings.DEVELOPMENT = True


def load() -> str:
    out = io.StringIO()
    call_command("demo", at=NOON, stdout=out)
    return out.getvalue()


def test_loads_once_and_says_so_the_second_time() -> None:
    load()
    before = everything()
    assert "The demo was loaded already." in load()
    assert everything() == before


def test_offers_programs_to_all_and_lets_tenants_bring_their_own() -> None:
    load()
    for tenant in Tenant.objects.all():
        offered = usable_programs(tenant_id=tenant.pk)
        assert [(each.program.name, each.program.owner.tenant) for each in offered] == [
            ("fit-a-line", ""), ("script", ""), ("torch-ddp", "")
        ]  # fmt: skip
        assert ProgramSwitch.objects.get(tenant=tenant).may_bring


def test_loads_nothing_where_debug_is_off(settings: Settings) -> None:
    settings.DEVELOPMENT = False
    with pytest.raises(CommandError, match="only where DEBUG is on"):
        load()
    with pytest.raises(CommandError, match="only where DEBUG is on"):
        call_command("demo", reset=True)
    assert not User.objects.exists()


def test_does_not_mix_with_data_that_is_not_its_own() -> None:
    make_tenant("mine")
    with pytest.raises(CommandError, match="empty database"):
        load()
    assert not User.objects.exists()


def test_asks_for_the_tables_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.introspection, "table_names", lambda: [])
    with pytest.raises(CommandError, match="migrate first"):
        load()


def test_does_not_wipe_a_database_that_is_not_a_demo() -> None:
    make_tenant("mine")
    User.objects.create_user("somebody@example.org", None)
    outcome = demo.demo_wipe()
    assert isinstance(outcome, Refused)
    assert outcome.code == "not_demo"
    assert Tenant.objects.filter(slug="mine").exists()


OTHER_EACH_TIME = {"password", "created_at", "date_joined", "written_by"}  # clocks, salts, transactions
FRAMEWORK = {"django_migrations", "django_session", "django_content_type", "auth_permission"}


def everything() -> dict[str, list[dict[str, object]]]:
    """All rows of all tables, ids and hashes too: into an empty database they are given out alike."""
    tables = {}
    with connection.cursor() as cursor:
        for table in set(connection.introspection.table_names(cursor)) - FRAMEWORK:
            cursor.execute(f'SELECT * FROM "{table}"')  # noqa: S608  names from the catalogue
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            stable_rows = [{name: row[name] for name in names if name not in OTHER_EACH_TIME} for row in rows]
            tables[table] = sorted(stable_rows, key=repr)
    return tables


@pytest.mark.parametrize(
    ("tables", "wiped"), [([], True), (["orders", "invoices"], False)], ids=["no tables", "another program's tables"]
)
def test_wipes_a_database_without_our_tables_only_if_it_has_none(
    tables: list[str], wiped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[bool] = []
    monkeypatch.setattr(connection.introspection, "table_names", lambda: tables)
    monkeypatch.setattr(demo, "_drop_everything", lambda: dropped.append(True))
    assert (demo.demo_wipe() is None) == bool(dropped) == wiped


def test_does_not_wipe_tenants_that_have_no_people_yet() -> None:
    make_tenant("mine")
    assert demo.demo_wipe() == demo.NOT_DEMO


@pytest.mark.wide
@pytest.mark.django_db(transaction=True, reset_sequences=True)
def test_reset_brings_back_the_same_rows_whatever_was_done_in_between() -> None:
    load()
    first = everything()
    make_tenant("newcomer")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_server SET state = 'draining'")
    assert everything() != first
    call_command("demo", reset=True, at=NOON, stdout=io.StringIO())
    assert everything() == first


def load_twice_at_once() -> Counter[str]:
    def load_in_thread(_: int) -> str:
        try:
            return str(demo.demo_load(at=NOON))
        except demo.DemoBroken:  # its first tenant was there already
            return "DemoBroken"
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        return Counter(pool.map(load_in_thread, range(2)))


@pytest.mark.django_db(transaction=True)
def test_reset_gives_way_to_an_open_transaction_and_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    before = everything()
    monkeypatch.setattr(demo, "PATIENCE", "100ms")
    with closing(connection.copy()) as other:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM tenants_user")
            with pytest.raises(CommandError, match="nothing was removed"):
                call_command("demo", reset=True)
        other.rollback()
    assert everything() == before


@pytest.mark.django_db(transaction=True)
def test_two_loads_at_once_load_once() -> None:
    assert load_twice_at_once() == {"DemoLoaded(already=False)": 1, "DemoLoaded(already=True)": 1}


@pytest.mark.django_db(transaction=True)
def test_two_loads_at_once_collide_without_their_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    both_have_looked = threading.Barrier(2)

    def empty_for_both() -> bool:
        both_have_looked.wait(PATIENCE)
        return True

    monkeypatch.setattr(demo, "_wait_for_other_loads", lambda: None)
    monkeypatch.setattr(demo, "database_is_empty", empty_for_both)
    assert load_twice_at_once() == {"DemoLoaded(already=False)": 1, "DemoBroken": 1}


def test_log_in_page_shows_its_people_and_a_press_logs_in(settings: Settings) -> None:
    assert "People of the demonstration" not in Client().get("/accounts/login/").content.decode()
    load()
    page = Client().get("/accounts/login/").content.decode()
    for person in content.PEOPLE:
        assert person.email in page
    assert "operator over all tenants" in page
    browser = Client()
    browser.post("/accounts/login/", {"login": content.PEOPLE[-1].email, "password": content.PASSWORD})
    assert browser.get("/")["Location"] == "/overview/"
    settings.DEVELOPMENT = False
    page = Client().get("/accounts/login/").content.decode()
    assert content.PASSWORD not in page
    assert "People of the demonstration" not in page
