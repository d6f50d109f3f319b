"""Servers drain and come back; a job that was refused at once may still wait for an interval."""

from __future__ import annotations

import pytest

from scheduling.app.clock import pool_advance
from scheduling.jobs.second_chance import job_queue
from scheduling.models import PriceTick
from scheduling.operator.server_states import server_drain, server_return
from scheduling.runs.failures import server_lose
from tenants.access import NOBODY, Refused, access_of_system
from tenants.models import AuditEntry
from tenants.roles import VIEWER
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import again, events, fund, make_live_pool, member, moment, submit, submitted

pytestmark = pytest.mark.django_db

CHANGE = {"by": access_of_system("the tests"), "reason": "new disks", "at": moment(1)}


def market():
    pool, lumen = make_live_pool(), make_tenant("lumen")
    server = make_server(pool, worker=4, ps=1)
    fund(lumen)
    return pool, lumen, server


def test_a_draining_server_delivers_what_is_promised_and_takes_nothing_new() -> None:
    pool, lumen, server = market()
    first = submitted(pool, lumen, slot=0.5).award
    assert server_drain(server=server, **CHANGE) is None
    assert submitted(pool, lumen, slot=1.5).award is None
    assert again(first).state == "booked"
    entry = AuditEntry.objects.get(action="server_drain")
    assert (entry.reason, entry.before, entry.after) == ("new disks", {"state": "in_service"}, {"state": "draining"})
    assert events("server_changed")[0].data == {"server": "s01", "state": "draining"}


@pytest.mark.parametrize("away", [server_drain, server_lose])
def test_a_server_that_returns_is_sold_again(away) -> None:
    pool, lumen, server = market()
    away(server=server, **CHANGE)
    assert server_return(server=server, **CHANGE) is None
    assert submitted(pool, lumen, slot=1.5).award is not None


def test_refuses_to_return_what_was_never_away() -> None:
    _, _, server = market()
    answer = server_return(server=server, **CHANGE)
    assert isinstance(answer, Refused)
    assert answer.code == "wrong_state"


def test_refuses_whoever_may_not_change_servers() -> None:
    _, _, server = market()
    assert isinstance(server_drain(server=server, **(CHANGE | {"by": NOBODY})), Refused)
    assert again(server).state == "in_service"


def test_a_refused_instant_job_waits_for_an_interval_from_now_on() -> None:
    pool, lumen, _ = market()
    job = submitted(pool, lumen, max_price=0.0).job
    assert again(job).state == "rejected"
    for _ in range(2):  # asking twice is asking once
        assert not isinstance(job_queue(job_id=job.pk, by=member(lumen), at=moment(2.5)), Refused)
    row = again(job)
    assert (row.state, row.lane, row.arrival, row.ended_at) == ("queued", "batch", 2.5, None)
    assert row.reason_code == "waiting_for_interval"
    assert len(events("job_queued")) == 1


def test_a_job_that_was_admitted_does_not_wait_too() -> None:
    pool, lumen, _ = market()
    job = submitted(pool, lumen).job
    answer = job_queue(job_id=job.pk, by=member(lumen), at=moment(2))
    assert isinstance(answer, Refused)
    assert answer.code == "not_refused"


def test_another_tenant_or_a_viewer_queues_nothing() -> None:
    pool, lumen, _ = market()
    answer = submit(pool, lumen, max_price=0.0)
    assert not isinstance(answer, Refused)
    for by in (member(make_tenant("castor")), member(lumen, VIEWER)):
        assert isinstance(job_queue(job_id=answer.job.pk, by=by, at=moment(2)), Refused)
    assert again(answer.job).state == "rejected"


def test_cells_of_a_draining_server_are_not_counted_as_for_sale() -> None:
    """Castor's two servers are alike; on the one that drains it still runs a job, and nothing there is offered."""
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    first, second = make_server(pool, "s01", worker=4, ps=1), make_server(pool, "s02", worker=4, ps=1)
    for server in (first, second):
        make_cells(server, castor, {"worker": 4, "ps": 1})
    fund(lumen)
    submitted(pool, castor, lane="batch", max_workers=2, chunks=2, epochs=4)
    pool_advance(pool_id=pool.pk, at=moment(1.5))
    assert server_drain(server=first, **CHANGE) is None
    submitted(pool, lumen, lane="batch", slot=1.6)
    pool_advance(pool_id=pool.pk, at=moment(4))
    offered = dict(
        PriceTick.objects.filter(lane="batch", slot=3, resource__name="worker").values_list("slot", "offered")
    )
    assert offered == {3: 4.0}
