"""Two at once: cells never exceed the capacity. Each lock stands beside the variant without it, which fails."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing

import pytest
from django.db import Error, IntegrityError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from scheduling.models import Cell, Server
from scheduling.operator import cells as cells_service
from scheduling.operator.cells import AboveCapacity, cells_change_of_tenant
from tenants.access import access_of_system
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.database import overrule
from tests.patience import PATIENCE
from tests.scheduling.builders import NOON, kind, make_pool, make_server, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

UPDATE_OF_NOTHING = """UPDATE scheduling_servercapacity SET units = units
        WHERE server_id = NEW.server_id AND resource_id = NEW.resource_id
        RETURNING units INTO capacity;"""
SELECT_ONLY = """SELECT units INTO capacity FROM scheduling_servercapacity
        WHERE server_id = NEW.server_id AND resource_id = NEW.resource_id;"""
FOR_UPDATE = SELECT_ONLY.replace(";", " FOR UPDATE;")


def units_taken() -> int:
    with scope_disabled("the test looks at all owners"):
        return sum(Cell.objects.filter(resource__name="worker").values_list("units", flat=True))


@pytest.fixture
def trigger_lock() -> Iterator[Callable[[str], None]]:
    """Put another statement in the place of the trigger's lock, until the test ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef('scheduling_cells_within_capacity'::regproc)")
        (source,) = cursor.fetchone()
    assert UPDATE_OF_NOTHING in source

    def put(statement: str) -> None:
        overrule(source.replace(UPDATE_OF_NOTHING, statement))

    yield put
    put(UPDATE_OF_NOTHING)


@pytest.mark.parametrize(
    ("lock", "isolation", "units"),
    [
        (UPDATE_OF_NOTHING, "READ COMMITTED", 5),
        (UPDATE_OF_NOTHING, "REPEATABLE READ", 5),
        (FOR_UPDATE, "READ COMMITTED", 5),
        (FOR_UPDATE, "REPEATABLE READ", 10),  # waits, then counts in a view of the cells from before the wait
        (SELECT_ONLY, "READ COMMITTED", 10),  # does not see what the other one has not committed
        (SELECT_ONLY, "REPEATABLE READ", 10),
    ],
    ids=lambda value: str(value).split()[0] if isinstance(value, str) else str(value),
)
def test_two_owners_who_each_take_five_of_eight_get_both_only_without_the_lock(
    lock: str, isolation: str, units: int, trigger_lock: Callable[[str], None]
) -> None:
    server = make_server(make_pool(), worker=8)
    owners = make_tenant("lumen"), make_tenant("castor")
    trigger_lock(lock)
    second_fails = insert_at_once(server, owners, isolation)
    assert units_taken() == units
    assert second_fails == (units <= 8)


def insert_at_once(server: Server, owners: tuple[Tenant, Tenant], isolation: str) -> bool:
    """The first transaction has been checked and stays open until the second waits for it or is checked too.

    Returns whether the database turned the second one away.
    """
    cells = [(server.pk, kind(server.pool, "worker").pk, owner.pk) for owner in owners]
    with closing(connection.copy()) as first, closing(connection.copy()) as second:
        insert_and_check(first, cells[0], isolation)
        second.ensure_connection()
        assert second.connection is not None
        backend = second.connection.info.backend_pid
        with ThreadPoolExecutor(1) as pool:
            checked = pool.submit(insert_and_check, second, cells[1], isolation)
            wait_until_done_or_waiting(checked, backend)
            first.commit()
            failure = checked.exception(PATIENCE)
            assert failure is None or isinstance(failure, IntegrityError | OperationalError)
            pool.submit(second.rollback if failure else second.commit).result(PATIENCE)
        return failure is not None


def insert_and_check(own: BaseDatabaseWrapper, cell: tuple[int, int, int], isolation: str) -> None:
    own.inc_thread_sharing()
    own.set_autocommit(False)
    with own.cursor() as cursor:
        cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        sql = "INSERT INTO scheduling_cell (server_id, resource_id, tenant_id, units) VALUES (%s, %s, %s, 5)"
        cursor.execute(sql, cell)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what the commit would ask


def wait_until_done_or_waiting(future: Future[None], backend: int) -> None:
    for _ in range(int(PATIENCE / 0.02)):
        done, _ = wait([future], timeout=0.02)
        with connection.cursor() as cursor:
            cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", (backend,))
            if done or cursor.fetchone() == (True,):
                return
    raise AssertionError("the second transaction neither waits nor ends")


def change_at_once(server: Server, tenants: list[Tenant]) -> list[object]:
    """Every tenant's change in a thread of its own, started together: what each was answered."""
    start = threading.Barrier(len(tenants))

    def change(tenant: Tenant) -> object:
        try:
            start.wait(PATIENCE)
            return cells_change_of_tenant(
                pool=server.pool,
                tenant=tenant,
                cells={server.name: {"worker": 3}},
                by=access_of_system("race"),
                reason="all at once",
                at=NOON,
            )
        except Error as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(tenants)) as pool:
        return list(pool.map(change, tenants))


def test_of_eight_changes_at_once_as_many_win_as_fit_and_the_others_are_told_the_numbers() -> None:
    server = make_server(make_pool(), worker=8)
    answers = change_at_once(server, [make_tenant(f"tenant-{number}") for number in range(8)])
    refusals = [answer for answer in answers if isinstance(answer, AboveCapacity)]
    assert Counter(type(answer) for answer in answers) == {list: 2, AboveCapacity: 6}
    assert {(refusal.asked, refusal.capacity) for refusal in refusals} == {(9, 8)}
    assert units_taken() == 6


def test_without_its_locks_the_losers_hear_it_from_the_database_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_server(make_pool(), worker=8)
    tenants = [make_tenant(f"tenant-{number}") for number in range(4)]
    everyone_has_counted = threading.Barrier(len(tenants))
    write = cells_service._write

    def write_after_all_counted(*args: object) -> None:
        everyone_has_counted.wait(PATIENCE)
        write(*args)

    monkeypatch.setattr(cells_service, "pool_lock", lambda pool: None)
    monkeypatch.setattr(cells_service, "lanes_lock", lambda pool: 0)
    monkeypatch.setattr(cells_service, "_write", write_after_all_counted)
    answers = change_at_once(server, tenants)
    assert Counter(type(answer) for answer in answers) == {list: 2, IntegrityError: 2}
    assert units_taken() == 6
