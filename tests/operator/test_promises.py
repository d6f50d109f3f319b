"""A change to the cluster never takes away what was promised there."""

from __future__ import annotations

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.market.decide.promises import BelowPromise
from scheduling.models import CalendarCell, Cell, Server
from scheduling.operator.cells import cells_change_on_server
from scheduling.operator.servers import server_capacity_change
from scheduling.runs.failures import ServerLost, server_lose
from tenants.access import access_of_system
from tenants.models import AuditEntry
from tenants.scoping import scope_disabled
from tests.database import overwrite
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.markets import award_of, make_market, make_renting, make_waiting, run_slots

pytestmark = pytest.mark.django_db

CHANGE = {"by": access_of_system("test"), "reason": "move", "at": NOON}


def broken(outcome) -> BelowPromise:
    assert isinstance(outcome, BelowPromise), outcome
    return outcome


def workers_of(server: Server) -> int:
    with scope_disabled("the test looks at all owners"):
        return sum(Cell.objects.filter(server=server, resource__name="worker").values_list("units", flat=True))


def test_cells_under_a_running_job_stay() -> None:
    pool, (lumen,) = make_market("lumen")
    job = make_waiting(pool, lumen)
    run_slots(pool, 0, 1)
    assert award_of(job).workers == 4
    server = Server.objects.get(pool=pool)
    refusal = broken(cells_change_on_server(server=server, cells={"lumen": {"worker": 3, "ps": 2}}, **CHANGE))
    assert (refusal.code, refusal.resource, refusal.left, refusal.promised) == ("below_promise", "worker", 3.0, 4.0)
    assert workers_of(server) == 4
    assert not AuditEntry.objects.filter(action="cells_change").exists()


def test_cells_under_a_floor_stay_though_the_job_only_waits_for_it() -> None:
    pool, (lumen,) = make_market("lumen", clock_first=2)
    make_waiting(pool, lumen)
    make_waiting(pool, lumen, epochs=4)
    run_slots(pool, 0, 2)
    server = Server.objects.get(pool=pool)
    broken(cells_change_on_server(server=server, cells={}, **CHANGE))
    make_tenant("castor")
    broken(cells_change_on_server(server=server, cells={"castor": {"worker": 4, "ps": 2}}, **CHANGE))


def test_cells_are_free_to_go_once_the_promise_is_over() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    run_slots(pool, 0, 6)
    server = Server.objects.get(pool=pool)
    assert not isinstance(cells_change_on_server(server=server, cells={}, **CHANGE), BelowPromise)
    assert workers_of(server) == 0


def test_a_lost_server_keeps_the_cells_of_what_a_late_clock_has_still_to_come_to() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen, epochs=4)
    run_slots(pool, 0, 1)  # it runs from slot 1 to 8
    server, other = Server.objects.get(pool=pool), {"cells": {}, **CHANGE}
    assert isinstance(server_lose(server=server, by=CHANGE["by"], reason="power", at=pool.slot_start(5)), ServerLost)
    broken(cells_change_on_server(server=server, **other))  # slots 2, 3 and 4 were delivered there
    run_slots(pool, 2, 5)
    assert not isinstance(cells_change_on_server(server=server, **other), BelowPromise)


def test_cells_that_somebody_rents_stay() -> None:
    pool, _, renter = make_renting()
    job = make_waiting(pool, renter, epochs=2)
    run_slots(pool, 0, 7)
    server = Server.objects.get(pk=award_of(job).allocation[0][0])
    outcome = server_capacity_change(server=server, capacity={"worker": 4, "ps": 2}, **CHANGE)
    assert outcome is None
    pool.refresh_from_db()
    pool.instant_policy = {"name": "oasis"}  # then renters of the batch lane stand on cells alone
    overwrite(pool)
    server = Server.objects.get(pk=server.pk)
    broken(cells_change_on_server(server=server, cells={"owner": {"ps": 2}}, **CHANGE))


def test_more_cells_are_known_to_the_calendar_at_once() -> None:
    pool, (lumen,) = make_market("lumen")
    server = Server.objects.get(pool=pool)
    make_waiting(pool, lumen, epochs=8)
    run_slots(pool, 0, 1)
    assert server_capacity_change(server=server, capacity={"worker": 9}, **CHANGE) is None
    rows = CalendarCell.objects.filter(resource__name="worker")
    assert set(rows.filter(slot__gte=1).values_list("capacity", flat=True)) == {9.0}


def test_market_goes_on_after_cells_moved() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    run_slots(pool, 0, 4)
    castor = make_tenant("castor")
    server = Server.objects.get(pool=pool)
    cells = {"castor": {"worker": 4, "ps": 2}}
    assert not isinstance(cells_change_on_server(server=server, cells=cells, **CHANGE), BelowPromise)
    job = make_waiting(pool, castor, arrival=4.5)
    run_slots(pool, 5, 10)
    assert award_of(job).phase == "own"
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
