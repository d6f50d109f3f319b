"""What the database itself refuses, asked in raw SQL so that no Python stands in between."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from scheduling.models import Pool
from tests.database import as_superuser
from tests.scheduling.builders import NOON, kind, make_cells, make_pool, make_server, make_tenant

pytestmark = pytest.mark.django_db


def run(sql: str, *values: object) -> None:
    """The statement, and every deferred rule at once, as a commit would; the serving role may do least of it."""
    with transaction.atomic(), as_superuser(), connection.cursor() as cursor:
        cursor.execute(sql, values)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def refuses(rule: str, sql: str, *values: object) -> None:
    with pytest.raises(IntegrityError, match=re.escape(rule)):
        run(sql, *values)


def insert_cell(server, tenant, resource: str, units: int, *, pool=None) -> tuple:
    sql = "INSERT INTO scheduling_cell (server_id, tenant_id, resource_id, units) VALUES (%s, %s, %s, %s)"
    return sql, server.pk, tenant.pk, kind(pool or server.pool, resource).pk, units


@pytest.mark.parametrize(
    ("rule", "sql"),
    [
        ("pool_slot_has_length", "UPDATE scheduling_pool SET slot_seconds = 0"),
        ("pool_clock_possible", "UPDATE scheduling_pool SET clock_first = 0"),
        ("pool_clock_possible", "UPDATE scheduling_pool SET clock_first = 9"),
        ("pool_batch_policy_named", "UPDATE scheduling_pool SET batch_policy = '{}'"),
        ("pool_batch_policy_named", "UPDATE scheduling_pool SET batch_policy = '[\"name\"]'"),
        ("pool_instant_policy_named", "UPDATE scheduling_pool SET instant_policy = '{\"floor\": 1}'"),
    ],
)
def test_refuses_an_impossible_pool(rule: str, sql: str) -> None:
    make_pool()
    refuses(rule, sql)


@pytest.mark.parametrize(
    ("rule", "sql"),
    [
        ("server_hosts_something", "UPDATE scheduling_server SET hosts_workers = false, hosts_ps = false"),
        ("server_state_known", "UPDATE scheduling_server SET state = 'asleep'"),
    ],
)
def test_refuses_an_impossible_server(rule: str, sql: str) -> None:
    make_server(make_pool())
    refuses(rule, sql)


def test_refuses_a_name_twice_in_one_pool_and_takes_it_in_another() -> None:
    pool, other = make_pool(), make_pool("other")
    make_server(pool, "s01")
    make_server(other, "s01")
    make_server(pool, "s02")
    sql = "UPDATE scheduling_server SET name = 's01' WHERE pool_id = %s"
    refuses("server_name_once_per_pool", sql, pool.pk)


@pytest.mark.parametrize("units", [0, -1])
def test_refuses_a_cell_without_units(units: int) -> None:
    server = make_server(make_pool())
    with pytest.raises(IntegrityError, match=r"cell_has_units|cell_units_check"):
        run(*insert_cell(server, make_tenant(), "worker", units))


def test_refuses_a_second_cell_of_the_same_owner_in_the_same_place() -> None:
    server, tenant = make_server(make_pool()), make_tenant()
    make_cells(server, tenant, {"worker": 1})
    refuses("cell_once_per_owner", *insert_cell(server, tenant, "worker", 1))


def test_takes_cells_up_to_the_capacity_and_refuses_one_unit_more() -> None:
    server = make_server(make_pool(), worker=8)
    make_cells(server, make_tenant("lumen"), {"worker": 5})
    refuses("cells take 9 of 8 units", *insert_cell(server, make_tenant("castor"), "worker", 4))
    run(*insert_cell(server, make_tenant("castor"), "worker", 3))


def test_refuses_a_cell_that_grows_above_the_capacity() -> None:
    server = make_server(make_pool(), worker=8)
    make_cells(server, make_tenant("lumen"), {"worker": 5})
    refuses("cells take 9 of 8 units", "UPDATE scheduling_cell SET units = 9")


def test_lets_two_owners_swap_within_one_transaction() -> None:
    server = make_server(make_pool(), worker=8)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    make_cells(server, lumen, {"worker": 6})
    make_cells(server, castor, {"worker": 2})
    with transaction.atomic():
        run_later = "UPDATE scheduling_cell SET units = %s WHERE tenant_id = %s"
        with connection.cursor() as cursor:
            cursor.execute(run_later, (6, castor.pk))  # 12 of 8 for a moment
        run(run_later, 2, lumen.pk)


def test_refuses_a_capacity_below_its_cells() -> None:
    server = make_server(make_pool(), worker=8)
    make_cells(server, make_tenant(), {"worker": 5})
    refuses("cells take 5 of 4 units", "UPDATE scheduling_servercapacity SET units = 4 WHERE units = 8")
    run("UPDATE scheduling_servercapacity SET units = 5 WHERE units = 8")


def test_refuses_to_remove_a_capacity_that_holds_cells() -> None:
    server = make_server(make_pool())
    make_cells(server, make_tenant(), {"worker": 5})
    refuses("cell_on_capacity", "DELETE FROM scheduling_servercapacity")


def test_refuses_a_cell_of_a_resource_that_the_server_does_not_have() -> None:
    pool, other = make_pool(), make_pool("other")
    server = make_server(pool)
    make_server(other)
    refuses("cell_on_capacity", *insert_cell(server, make_tenant(), "worker", 1, pool=other))


@pytest.mark.parametrize("foreign", ["server", "resource"])
def test_refuses_a_capacity_across_two_pools(foreign: str) -> None:
    pool, other = make_pool(), make_pool("other", resources=("worker", "ps", "gpu"))
    server, stranger = make_server(pool), make_server(other)
    sql = "INSERT INTO scheduling_servercapacity (pool_id, server_id, resource_id, units) " + "VALUES (%s, %s, %s, 1)"
    gpu = kind(other, "gpu").pk
    if foreign == "server":
        refuses("capacity_server_in_pool", sql, other.pk, server.pk, gpu)
    else:
        refuses("capacity_server_in_pool", sql, pool.pk, stranger.pk, gpu)
        refuses("capacity_resource_in_pool", sql, pool.pk, server.pk, gpu)


@pytest.mark.parametrize("foreign", ["server", "resource", "pool"])
def test_takes_a_calendar_row_on_a_capacity_and_refuses_one_across_two_pools(foreign: str) -> None:
    pool, other = make_pool(), make_pool("other")
    mine = {"server": make_server(pool).pk, "resource": kind(pool, "worker").pk, "pool": pool.pk}
    strange = {"server": make_server(other).pk, "resource": kind(other, "worker").pk, "pool": other.pk}
    sql = (
        "INSERT INTO scheduling_calendarcell (server_id, resource_id, pool_id, part, slot, capacity, batch, instant)"
        " VALUES (%s, %s, %s, 'home', 1, 8, 2, 0)"
    )
    refuses("calendar_on_capacity", sql, *(mine | {foreign: strange[foreign]}).values())
    run(sql, *mine.values())


def test_refuses_to_move_a_server_with_capacity_to_another_pool() -> None:
    server, other = make_server(make_pool()), make_pool("other")
    refuses(
        "capacity_server_in_pool",
        "UPDATE scheduling_server SET pool_id = %s WHERE id = %s",
        other.pk,
        server.pk,
    )


def test_refuses_to_delete_a_server() -> None:
    server = make_server(make_pool())
    with pytest.raises(DatabaseError, match="foreign key"):
        run("DELETE FROM scheduling_server WHERE id = %s", server.pk)


@pytest.mark.parametrize(("seconds", "slot"), [(-1, -1), (0, 0), (9.999, 0), (10, 1), (86_400, 8_640)])
def test_names_the_slot_that_contains_a_moment(seconds: float, slot: int) -> None:
    pool = Pool(slot_seconds=10, epoch_at=NOON)
    assert pool.slot_at(NOON + timedelta(seconds=seconds)) == slot
    assert pool.slot_start(slot) <= NOON + timedelta(seconds=seconds) < pool.slot_start(slot + 1)
