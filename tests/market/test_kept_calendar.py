"""A process reads of the calendar what was written since it last did, and sees what one sees that never read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import psycopg
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduling.market.calendar.units import CalendarUnit, units_release
from scheduling.market.view import kept
from scheduling.market.view.instant_rows import InstantRows, instant_rows
from scheduling.models import (
    CalendarCell,
    Cell,
    Lane,
    Part,
    Pool,
    ResourceKind,
    Server,
    ServerCapacity,
    ServerState,
    TenantPolicy,
)
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.database import overrule, run, serving_addresses, without_triggers
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import enter, fund, make_award, make_live_pool, publish, settle, submitted

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    kept._readings.clear()


@pytest.fixture
def other() -> Iterator[psycopg.Connection]:
    """Somebody else at the same database, whose transaction ends when the test says so."""
    with psycopg.connect(serving_addresses()["DATABASE_URL"]) as there:
        yield there


def small_market() -> tuple[Pool, Tenant, Tenant]:
    """Two servers, each half its owner's and half the operator's; home cells are for sale before slot 8."""
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    for name, owner in (("s01", lumen), ("s02", castor)):
        make_cells(make_server(pool, name, worker=8, ps=2), owner, {"worker": 4, "ps": 1})
        fund(owner)
    publish(pool, frontier=8)
    return pool, lumen, castor


def read_pool(pool: Pool, slot: int = 0) -> tuple[InstantRows, bool]:
    """What is read from a slot on, and whether all of it was."""
    with scope_disabled("the test asks what the lane sees"), CaptureQueriesContext(connection) as captured:
        rows = instant_rows(pool, slot)
    return rows, any("scheduling_pool_text" in query["sql"] for query in captured)


def words(rows: InstantRows) -> tuple[object, ...]:
    held = {part: (amounts.shape, amounts.tobytes()) for part, amounts in rows.held.items()}
    return rows.settled_slot, rows.frontier, rows.slot, rows.text, rows.windows, rows.any_freed, held


def as_if_new(pool: Pool, slot: int = 0) -> tuple[object, ...]:
    before = dict(kept._readings)
    kept._readings.clear()
    rows, whole = read_pool(pool, slot)
    assert whole
    kept._readings.clear()
    kept._readings.update(before)
    return words(rows)


def only_new_is_read(pool: Pool, slot: int = 0) -> InstantRows:
    rows, whole = read_pool(pool, slot)
    assert not whole
    assert words(rows) == as_if_new(pool, slot)
    return rows


def take(there: psycopg.Connection | None, slot: int, amount: float = 1.0) -> None:
    """Units of the first server's operator part, by whose connection? None: the test's own."""
    server, kind = Server.objects.order_by("pk")[0], ResourceKind.objects.order_by("pk")[0]
    sql = (
        "INSERT INTO scheduling_calendarcell (server_id, resource_id, part, slot, pool_id, capacity, batch, instant)"
        " VALUES (%s, %s, 'operator', %s, %s, 8, 0, %s)"
        " ON CONFLICT (server_id, resource_id, part, slot) DO UPDATE SET instant = EXCLUDED.instant"
    )
    values = [server.pk, kind.pk, slot, server.pool_id, amount]
    if there is None:
        run(sql, values)
    else:
        there.execute(sql, values)


def test_what_both_lanes_write_and_give_back_is_read_and_nothing_else() -> None:
    pool, lumen, castor = small_market()
    assert read_pool(pool)[1]
    nothing = only_new_is_read(pool)
    assert {part: amounts.shape[1] for part, amounts in nothing.held.items()} == {"home": 0, "operator": 0}
    answers = [submitted(pool, tenant, epochs=epochs) for tenant in (lumen, castor) for epochs in (1, 5, 2)]
    rows = only_new_is_read(pool)
    assert all(amounts.any() for amounts in rows.held.values())
    far = make_award(pool, lumen, start=9, slots=13, allocation=[[Server.objects.order_by("pk")[0].pk, 9, 22, 1, 0]])
    enter(far)
    assert only_new_is_read(pool).held["home"].shape[1] == 22
    cells = CalendarCell.objects.filter(part=Part.HOME, slot__gte=15)
    back = {CalendarUnit(c.server_id, c.resource_id, c.part, c.slot): c.batch for c in cells if c.batch}
    units_release(Lane.BATCH, back)
    assert only_new_is_read(pool).held["home"].shape[1] == 15  # up to the last that is held
    settle(pool, 0, 1)
    assert only_new_is_read(pool, 2).slot == 2
    assert only_new_is_read(pool, 5).held["home"].shape[1] == 10
    assert read_pool(pool, 2)[1]  # from 5 on is what was kept
    assert all(answer.award for answer in answers)


def server_lost() -> None:
    Server.objects.filter(name="s01").update(state=ServerState.LOST)


def smaller() -> None:
    ServerCapacity.objects.filter(server__name="s02", resource__name="worker").update(units=7)


def cell_given() -> None:
    with scope_disabled("the test speaks for an operator"):
        Cell.objects.filter(server__name="s02", resource__name="worker").update(units=3)


def cell_gone() -> None:
    with scope_disabled("the test speaks for an operator"):
        Cell.objects.filter(server__name="s02", resource__name="worker").delete()


def server_new() -> None:
    make_server(Pool.objects.get(), "s03")


def kind_new() -> None:
    ResourceKind.objects.create(pool=Pool.objects.get(), name="disk", label="Disk")


def owner_keeps() -> None:
    with scope_disabled("the test speaks for an owner"):
        TenantPolicy.objects.create(tenant=Tenant.objects.order_by("pk")[0], pool=Pool.objects.get(), lend="keep")


def row_gone() -> None:
    overrule("DELETE FROM scheduling_calendarcell WHERE slot = 1")


def rows_gone() -> None:
    overrule("TRUNCATE scheduling_calendarcell")


@pytest.mark.parametrize(
    "change",
    [server_lost, smaller, cell_given, cell_gone, server_new, kind_new, owner_keeps, row_gone, rows_gone],
    ids=lambda change: change.__name__,
)
def test_whoever_changes_the_pool_has_all_of_it_read_again(change: Callable[[], None]) -> None:
    pool, lumen, castor = small_market()
    for tenant in (lumen, castor):
        submitted(pool, tenant, epochs=5)
    read_pool(pool)
    before = words(only_new_is_read(pool))
    change()
    rows, whole = read_pool(pool)
    assert whole
    assert words(rows) == as_if_new(pool) != before
    only_new_is_read(pool)


def test_a_transaction_that_was_at_work_as_the_calendar_was_read_is_seen_once_it_ends(
    other: psycopg.Connection,
) -> None:
    pool, _, _ = small_market()
    take(other, 3)
    read_pool(pool)
    take(None, 1)  # by a later transaction, which ends earlier
    assert only_new_is_read(pool).held["operator"].shape[1] == 2
    other.commit()
    assert only_new_is_read(pool).held["operator"].shape[1] == 4
    other.execute("UPDATE scheduling_server SET state = 'draining' WHERE name = 's02'")
    only_new_is_read(pool)
    other.commit()
    assert read_pool(pool)[1]


def test_what_the_reading_transaction_writes_afterwards_is_seen_by_the_next(other: psycopg.Connection) -> None:
    pool, _, _ = small_market()
    with transaction.atomic():
        run("SELECT pg_current_xact_id()")  # as the lane's lock does
        take(other, 3)
        other.commit()  # a later one, over before the calendar is read: to PostgreSQL, this one is at work no more
        assert read_pool(pool)[1]
        take(None, 5)
    assert only_new_is_read(pool).held["operator"].shape[1] == 6


def test_what_is_taken_back_is_not_kept() -> None:
    pool, _, _ = small_market()
    read_pool(pool)
    with transaction.atomic():
        take(None, 5)
        assert only_new_is_read(pool).held["operator"].shape[1] == 6
        transaction.set_rollback(True)
    assert only_new_is_read(pool).held["operator"].shape[1] == 0
    with transaction.atomic():
        server_lost()
        assert read_pool(pool)[1]
        take(None, 2)
        transaction.set_rollback(True)
    assert only_new_is_read(pool).held["operator"].shape[1] == 0


def test_numbers_of_another_databases_transactions_say_nothing() -> None:
    """Rows that were restored have them; the database that they come from may have been at work for longer."""
    pool, lumen, _ = small_market()
    submitted(pool, lumen, epochs=5)
    with transaction.atomic(), without_triggers():
        run("UPDATE scheduling_calendarcell SET written_by = '99999999999'")
        run("INSERT INTO scheduling_shapechange (pool_id, written_by) VALUES (%s, '99999999999')", [pool.pk])
    kept._readings.clear()
    assert read_pool(pool)[1]
    before = kept._readings[pool.pk].held["operator"]
    only_new_is_read(pool)
    assert kept._readings[pool.pk].held["operator"] is before  # nothing of it was read again


def test_of_many_pools_those_that_were_read_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "CACHE_SIZE", 2)
    pools = [make_live_pool(slug=slug) for slug in ("lumen", "castor", "orrin")]
    for pool in pools:
        assert read_pool(pool)[1]
    only_new_is_read(pools[1])
    assert read_pool(pools[0])[1]
    assert list(kept._readings) == [pools[1].pk, pools[0].pk]


def test_a_reading_is_never_written_to() -> None:
    pool, lumen, _ = small_market()
    submitted(pool, lumen)
    first, _ = read_pool(pool)
    copies = {part: amounts.copy() for part, amounts in first.held.items()}
    submitted(pool, lumen, epochs=5)
    only_new_is_read(pool)
    for part, amounts in first.held.items():
        np.testing.assert_array_equal(amounts, copies[part])
