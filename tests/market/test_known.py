"""A process reads of a pool only what is new to it, and sees what a process sees that never read it before."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.core import records
from scheduling.market.view import known
from scheduling.market.view.batch import BatchSnapshot, batch_view
from scheduling.models import JobFloor, LaneClock, Pool, TrainingJob
from tenants.scoping import scope_disabled
from tests.database import as_superuser
from tests.scheduling.markets import at, make_market, make_waiting, run_slots

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    known._pools.clear()


def snapshot_at(pool: Pool, slot: int) -> tuple[BatchSnapshot, list[str]]:
    """The pool at a slot, and the statements that it took."""
    with scope_disabled("the test asks what the lane sees"), CaptureQueriesContext(connection) as captured:
        clock, _ = LaneClock.objects.get_or_create(pool=pool, lane="batch")
        snapshot = batch_view(pool, slot, clock, at(pool, slot))
    return snapshot, [query["sql"] for query in captured]


def specs_read(statements: list[str]) -> list[str]:
    return [sql for sql in statements if '"scheduling_trainingjob"."spec" ' in sql or '"spec" FROM' in sql]


def floors_read(statements: list[str]) -> list[str]:
    return [sql for sql in statements if '"scheduling_jobfloor"."allocation"' in sql]


def as_if_new(pool: Pool, slot: int) -> bytes:
    known._pools.clear()
    return records.view_bytes(snapshot_at(pool, slot)[0].view)


def test_what_did_not_change_is_not_read_again() -> None:
    pool, (lumen,) = make_market("lumen")
    for _ in range(3):
        make_waiting(pool, lumen, epochs=8)
    run_slots(pool, 0, 1)  # one of them has begun, two have floors that begin later
    known._pools.clear()
    first, statements = snapshot_at(pool, 2)
    assert first.view.floors
    assert (len(specs_read(statements)), len(floors_read(statements))) == (1, 1)
    second, statements = snapshot_at(pool, 2)
    assert (specs_read(statements), floors_read(statements)) == ([], [])
    assert all(second.view.jobs[number] is job for number, job in first.view.jobs.items())
    assert all(second.view.floors[number] is floor for number, floor in first.view.floors.items())
    assert records.view_bytes(second.view) == records.view_bytes(first.view) == as_if_new(pool, 2)


def test_only_a_new_job_is_read() -> None:
    pool, (lumen,) = make_market("lumen")
    old = make_waiting(pool, lumen)
    first, _ = snapshot_at(pool, 1)
    new = make_waiting(pool, lumen, epochs=3)
    second, statements = snapshot_at(pool, 1)
    assert len(specs_read(statements)) == 1
    assert second.view.jobs[old.pk] is first.view.jobs[old.pk]
    assert second.view.jobs[new.pk].epochs == 3
    assert second.waiting[old.pk].spec == old.spec
    assert records.view_bytes(second.view) == as_if_new(pool, 1)


def test_a_job_whose_words_changed_is_read_again() -> None:
    pool, (lumen,) = make_market("lumen")
    job = make_waiting(pool, lumen)
    first, _ = snapshot_at(pool, 1)
    with scope_disabled("the test changes what the product never does"), as_superuser():
        TrainingJob.objects.filter(pk=job.pk).update(spec=job.spec | {"epochs": 5})
    assert snapshot_at(pool, 1)[0].view.jobs[job.pk].epochs == 5
    with scope_disabled("the test changes what the product seldom does"), as_superuser():
        TrainingJob.objects.filter(pk=job.pk).update(arrival=0.5)
    assert snapshot_at(pool, 1)[0].view.jobs[job.pk].arrival == 0.5
    assert first.view.jobs[job.pk].arrival == 0.0


def test_floors_of_another_past_are_not_believed() -> None:
    pool, (lumen,) = make_market("lumen")
    for _ in range(3):
        make_waiting(pool, lumen, epochs=8)
    run_slots(pool, 0, 1)
    snapshot_at(pool, 2)
    knows = known._pools[pool.pk]
    assert knows._last is not None
    number, _ = knows._last
    knows._last = (number, "0" * 64)  # a database that was restored has other intervals, with rows of the same numbers
    with scope_disabled("the test compares rows"):
        rows = dict(JobFloor.objects.values_list("pk", "value"))
    knows.floor_rows = {row: floor._replace(value=floor.value + 1) for row, floor in knows.floor_rows.items()}
    knows.floors = {}
    floors = snapshot_at(pool, 2)[0].view.floors
    assert floors
    assert {floor.value for floor in floors.values()} <= set(rows.values())


def test_of_many_pools_those_read_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST", 2)
    pools = []
    for name in ("lumen", "castor", "iris"):
        pool, (tenant,) = make_market(name, slug=f"pool-{name}")
        make_waiting(pool, tenant)
        snapshot_at(pool, 1)
        pools.append(pool.pk)
    assert list(known._pools) == pools[1:]
