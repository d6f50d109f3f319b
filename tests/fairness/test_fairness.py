"""The fairness of an interval is worked out once after it closed, kept, and found again by verification."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from django.core.cache import cache
from django.db import DatabaseError, transaction

from scheduling.app.tasks import fairness_tick
from scheduling.fairness.intervals import LOCK, fairness_catch_up, fairness_store
from scheduling.market.settle.slots import slot_settle
from scheduling.models import Interval, IntervalFairness, TenantFairness
from tenants.scoping import scope, scope_disabled
from tests.audit.test_verification import History, change_interval, findings, make_history
from tests.database import as_superuser, overwrite
from tests.ledger.builders import tamper
from tests.scheduling.builders import make_cells, make_pool, make_server
from tests.scheduling.markets import MICRO, at, award_of, make_market, make_renting, make_waiting, run_slots
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

built = built_once(make_history)


@pytest.fixture
def history(built: History) -> History:
    return copy.deepcopy(built)


def tenant_rows() -> list[TenantFairness]:
    with scope_disabled("the test looks at all rows"):
        return list(TenantFairness.objects.order_by("number", "tenant"))


def test_every_interval_gets_its_figures_once_whoever_asks_and_however_often(history: History) -> None:
    assert IntervalFairness.objects.count() == 0  # nothing of it happens while an interval is decided
    assert fairness_catch_up() == Interval.objects.count()
    before = len(tenant_rows())
    assert fairness_catch_up() == 0
    with scope_disabled("the test stores one again"):
        assert not any(fairness_store(interval) for interval in Interval.objects.all())
    assert IntervalFairness.objects.count() == Interval.objects.count()
    assert len(tenant_rows()) == before > 0


def test_pools_with_nothing_to_work_out_cost_no_statement_each(
    history: History, django_assert_num_queries: Callable[..., AbstractContextManager[object]]
) -> None:
    for number in range(5):
        make_pool(slug=f"idle{number}")
    assert fairness_catch_up() == Interval.objects.count()
    with django_assert_num_queries(1):
        assert fairness_catch_up() == 0


def test_a_backlog_is_worked_off_in_portions_oldest_first(history: History) -> None:
    assert fairness_catch_up(most=2) == 2
    assert list(IntervalFairness.objects.values_list("number", flat=True)) == [1, 2]
    cache.add(LOCK, 1)
    fairness_tick()  # somebody is at it
    assert IntervalFairness.objects.count() == 2
    cache.delete(LOCK)
    fairness_tick()
    assert IntervalFairness.objects.count() == Interval.objects.count()


def test_gains_are_values_less_payments_and_what_was_earned(history: History) -> None:
    _, (rented, own, later) = history
    fairness_catch_up()
    awards = [award_of(job) for job in (rented, own, later)]
    rows = tenant_rows()
    assert sum(row.rented_value for row in rows) == pytest.approx(awards[0].value + awards[2].value)
    assert sum(row.own_value for row in rows) == pytest.approx(awards[1].value)
    paid = sum(award.paid for award in awards) / MICRO
    assert sum(row.paid for row in rows) == sum(row.received for row in rows) == pytest.approx(paid, abs=1e-5)
    assert sum(row.gain for row in rows) == pytest.approx(sum(award.value for award in awards), abs=1e-5)
    assert sum(row.earned for row in rows if row.tenant_id == own.tenant_id) == pytest.approx(paid, abs=1e-5)
    assert all(row.alone == 0 for row in rows if row.tenant_id == rented.tenant_id)
    assert sum(row.alone for row in rows if row.tenant_id == own.tenant_id) > 0
    with scope(own.tenant):
        assert {row.tenant_id for row in TenantFairness.objects.all()} == {own.tenant_id}


def test_every_promise_of_the_history_is_kept(history: History) -> None:
    fairness_catch_up()
    assert sum(row.certificates for row in IntervalFairness.objects.all()) == 3
    assert not any(row.broken for row in IntervalFairness.objects.all())


def make_paper_market():
    """The two jobs of S3 with their owners' two servers each; one boundary, at slot 4."""
    pool, (first, second) = make_market("first", "second", worker=2, ps=1, clock_first=4)
    for number, tenant in enumerate((first, second)):
        make_cells(make_server(pool, f"s1{number}", worker=2, ps=1), tenant, {"worker": 2, "ps": 1})
    clock = {"first": 4, "cap": 4, "restart": False}
    pool.batch_policy = {"name": "astraea", "mode": "paper", "clock": clock, "theta": {"worker": 16, "ps": 16}}
    overwrite(pool)
    job = {"epochs": 2, "chunks": 2, "minibatches": 1, "minibatch_seconds": 10.0, "max_workers": 2}
    value = {"kind": "linear", "slope": -2.0, "base": 100.0}
    return pool, [make_waiting(pool, tenant, arrival=3.0, **job, value=value) for tenant in (first, second)]


@pytest.mark.usefixtures("nothing_built")
def test_paper_mode_shows_what_its_mechanism_breaks() -> None:
    """S3: alone the second tenant would not have waited for a price to fall that it does not pay."""
    _, (one, other) = make_paper_market()
    run_slots(one.pool, 0, 4)
    assert [(award_of(job).start, award_of(job).end, award_of(job).paid) for job in (one, other)] == [
        (4, 6, 0),
        (6, 8, 0),
    ]
    fairness_catch_up()
    [whole] = IntervalFairness.objects.filter(broken_count__gt=0)
    assert not whole.with_floors
    certificate = {"job": other.pk, "tenant": other.tenant_id, "got": 90.0, "alone": 94.0, "broken": "below_alone"}
    assert (whole.certificates, whole.broken) == (2, [certificate])


def test_keeps_what_was_written(history: History) -> None:
    fairness_catch_up()
    for model in (IntervalFairness, TenantFairness):
        refused = pytest.raises(DatabaseError, match="append-only")
        with refused, transaction.atomic(), as_superuser(), scope_disabled("a test"):
            model.objects.update(number=99)


def test_verification_finds_nothing_in_figures_that_nobody_touched(history: History) -> None:
    pool, _ = history
    fairness_catch_up()
    assert findings(pool) == []


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("intervalfairness", "revenue", 1.5),
        ("intervalfairness", "certificates", 77),
        ("intervalfairness", "broken", json.dumps([{"job": 1}])),
        ("tenantfairness", "gain", 1.5),
        ("tenantfairness", "alone", 1.5),
        ("tenantfairness", "sold", json.dumps({"worker": 7})),
    ],
)
def test_verification_finds_a_changed_figure(table: str, column: str, value: object, history: History) -> None:
    pool, _ = history
    fairness_catch_up()
    tamper(f'UPDATE scheduling_{table} SET "{column}" = %s', [value])  # noqa: S608
    assert any(finding.startswith("fairness of interval") and f"{column} is" in finding for finding in findings(pool))


def test_verification_finds_a_removed_row(history: History) -> None:
    pool, jobs = history
    fairness_catch_up()
    tamper("DELETE FROM scheduling_tenantfairness WHERE tenant_id = %s", [jobs[1].tenant_id])
    assert any(f"tenant {jobs[1].tenant_id}: its row is missing" in finding for finding in findings(pool))


def test_bytes_that_cannot_be_read_hold_up_nothing(history: History) -> None:
    first = Interval.objects.order_by("number")[0]
    change_interval(first, view=b"nonsense")
    assert fairness_catch_up() == Interval.objects.count() - 1


@pytest.mark.usefixtures("nothing_built")
def test_an_owner_that_keeps_its_cells_forgoes_what_they_would_have_brought() -> None:
    pool, owner, renter = make_renting()
    make_waiting(pool, renter)
    for slot in range(6):
        slot_settle(pool_id=pool.pk, slot=slot - 1, at=at(pool, slot))
        run_slots(pool, slot, slot)
    fairness_catch_up()
    mine = [row for row in tenant_rows() if row.tenant_id == owner.pk and row.contributed]
    assert mine
    assert all(row.sold["worker"] <= row.offered["worker"] and row.kept["worker"] == 0 for row in mine)
    assert all(row.reward == pytest.approx(row.earned / row.contributed) for row in mine)
