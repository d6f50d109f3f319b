"""The market's clock: every boundary in order, each once, whoever calls it and however late."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from scheduling.app import clock, tasks
from scheduling.app.clock import Advanced, ClockStuck, pool_advance, pools_due
from scheduling.market.calendar.lanes import Busy
from scheduling.models import Award, Event, Interval, LaneClock, StartEstimate, TrainingJob
from scheduling.operator.holds import pool_drain, pool_hold, pool_resume
from tenants.access import NOBODY, Refused, access_of_system
from tenants.ledger import audit
from tenants.models import AuditEntry
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_pool
from tests.scheduling.clocks import advance, contested, everything, moment
from tests.scheduling.live import submitted
from tests.scheduling.markets import again, make_market, make_waiting

pytestmark = pytest.mark.django_db

OPERATOR = access_of_system("the tests")


def every(model: Any) -> list[Any]:
    with scope_disabled("the test looks at all tenants"):
        return list(model.objects.all())


def test_jobs_are_decided_run_and_paid_for_as_time_passes() -> None:
    pool, _ = contested()
    advance(pool, 40)
    with scope_disabled("the test looks at all tenants"):
        assert {job.state for job in TrainingJob.objects.all()} == {"finished"}
        assert Award.objects.filter(paid__gt=0).exists()
    assert audit.verify().is_clean


@pytest.mark.one_case
@pytest.mark.parametrize("ticks", [[40.0], [0.5, 0.7, 0.7, 3.2, 3.3, 17.0, 40.9]], ids=["one", "some"])
def test_late_ticks_give_the_same_market_as_punctual_ones(ticks: list[float]) -> None:
    pool, _ = contested()
    with transaction.atomic():
        for slot in range(41):
            advance(pool, slot)
        punctual = everything()
        transaction.set_rollback(True)
    for tick in ticks:
        advance(pool, tick)
    assert len(punctual["intervals"]) > 2
    assert everything() == punctual


@pytest.mark.one_case
@pytest.mark.parametrize("late", [9, 10, 13])
def test_a_tick_that_is_late_over_the_end_of_an_epoch_leaves_out_no_interval(late: int) -> None:
    """The epoch opened at slot 1 ends at 9, where nobody waits: that is an interval, whoever is how late."""
    pool, _ = contested()
    with transaction.atomic():
        for slot in range(21):
            advance(pool, slot)
        punctual = everything()
        transaction.set_rollback(True)
    assert [interval[1] for interval in punctual["intervals"]] == [1, 2, 3, 5, 9, 10, 11, 12]
    for slot in (*range(7), late, 20):
        advance(pool, slot)
    assert everything() == punctual


def test_tick_that_comes_twice_changes_nothing() -> None:
    pool, _ = contested()
    advance(pool, 7)
    before = everything()
    assert advance(pool, 7.9) == Advanced(0)
    assert everything() == before


def test_catches_up_in_portions_after_a_long_outage() -> None:
    pool, _ = contested()
    assert pool_advance(pool_id=pool.pk, at=moment(pool, 9), most=4) == Advanced(4, behind=6)
    assert pool_advance(pool_id=pool.pk, at=moment(pool, 9), most=6) == Advanced(6)


def test_skips_the_silence_of_a_long_outage() -> None:
    pool, _ = contested()
    advance(pool, 40)
    assert advance(pool, 1_000_000) == Advanced(2)
    batch = LaneClock.objects.get(pool=pool, lane="batch")
    assert (batch.decided_slot, batch.settled_slot) == (1_000_000, 999_999)


@pytest.mark.wide
def test_skips_nothing_while_a_job_waits_or_runs() -> None:
    pool, (lumen, _) = make_market("lumen", "castor")
    make_waiting(pool, lumen, 0.5, epochs=20)  # forty slots of four workers
    late = make_waiting(pool, lumen, 90.5)
    advance(pool, 200)
    with scope_disabled("the test looks at all tenants"):
        assert [award.start for award in Award.objects.order_by("pk")] == [2, 92]
    assert again(late).state == "finished"


def test_clock_that_does_not_restart_is_asked_at_every_boundary() -> None:
    pool, _ = make_market("lumen", clock_restart=False)
    advance(pool, 30)
    assert [interval.window_end for interval in Interval.objects.order_by("number")] == [2, 4, 8, 16, 24, 32]


@pytest.mark.parametrize(
    ("fields", "before"),
    [
        ({}, ()),  # idle; a clock that restarts
        ({"clock_first": 4}, ()),
        ({"clock_first": 4}, (9.5,)),  # an epoch is about to open
        ({"clock_first": 2, "clock_cap": 2}, (7.5,)),  # its interval ends with the slot, and nobody waits
        ({"clock_first": 2, "clock_cap": 2}, (7.5, 9.5)),  # the same, and somebody waits
        ({"clock_restart": False, "clock_first": 5, "clock_cap": 5}, ()),
    ],
)
def test_a_job_that_comes_before_the_tick_of_its_slot_is_told_when_it_will_be_decided_about(
    fields: dict[str, Any], before: tuple[float, ...]
) -> None:
    pool, (lumen, castor) = make_market("lumen", "castor", **fields)
    for arrival in before:
        make_waiting(pool, castor, arrival)
    advance(pool, 9.2)
    job = submitted(pool, lumen, lane="batch", slot=10.05).job
    (estimate,) = every(StartEstimate)
    for slot in range(10, 30):
        advance(pool, slot + 0.2)
    decided = min(interval.slot for interval in every(Interval) if interval.slot > 10 and interval.window_end)
    assert (job.reason_numbers["slot"], estimate.earliest) == (decided, decided)


def test_leaves_a_boundary_to_the_one_who_is_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = contested()
    advance(pool, 2)
    monkeypatch.setattr(clock, "slot_settle", lambda **_: Busy())
    assert advance(pool, 5) == Advanced(0, behind=3, busy=True)


def test_complains_when_a_boundary_does_not_get_done(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = contested()
    monkeypatch.setattr(clock, "interval_run", lambda **_: None)
    with pytest.raises(ClockStuck):
        advance(pool, 3)


def test_pool_is_due_once_a_boundary_has_passed() -> None:
    pool, _ = contested()
    assert pools_due(at=moment(pool, -0.1)) == []
    assert pools_due(at=moment(pool, 0)) == [pool.pk]
    advance(pool, 0)
    assert pools_due(at=moment(pool, 0.9)) == []
    assert pools_due(at=moment(pool, 1)) == [pool.pk]


def test_pools_that_wait_longest_are_due_first() -> None:
    late, _ = make_market("lumen", "castor")
    early = make_pool(slug="early", epoch_at=late.epoch_at - timedelta(seconds=3 * late.slot_seconds))
    same = make_pool(slug="same", epoch_at=late.epoch_at)
    assert pools_due(at=moment(late, 0)) == [early.pk, late.pk, same.pk]
    advance(early, 3)
    assert pools_due(at=moment(late, 1)) == [late.pk, same.pk, early.pk]


def test_a_pool_has_one_message_in_the_queue_until_its_task_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = make_market("lumen")
    messages: list[int] = []
    monkeypatch.setattr(tasks.pool_tick, "apply_async", lambda kwargs, expires: messages.append(kwargs["pool_id"]))
    tasks.pools_tick()
    tasks.pools_tick()
    assert messages == [pool.pk]
    with monkeypatch.context() as broken:
        broken.setattr(tasks, "pool_advance", lambda **_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            tasks.pool_tick(pool_id=pool.pk)
    tasks.pools_tick()
    assert messages == [pool.pk, pool.pk]
    tasks.pool_tick(pool_id=pool.pk)
    tasks.pools_tick()
    assert messages == [pool.pk, pool.pk], "it is up to the present"


def test_task_of_a_pool_brings_it_up_to_the_present() -> None:
    pool, _ = make_market("lumen")
    tasks.pool_tick(pool_id=pool.pk, sent_by="a newer version")
    assert LaneClock.objects.get(pool=pool, lane="batch").decided_slot > 0


def test_held_pool_decides_nothing_while_sold_slots_are_paid_and_delivered() -> None:
    pool, (lumen, _) = make_market("lumen", "castor")
    first, second = make_waiting(pool, lumen, 0.5), make_waiting(pool, lumen, 3.5)
    advance(pool, 2)
    assert pool_hold(pool=pool, by=OPERATOR, reason="a look at the network", at=moment(pool, 2.5)) is None
    advance(pool, 9)
    assert (again(first).state, again(second).state) == ("finished", "queued")
    pool_resume(pool=pool, by=OPERATOR, reason="all is well", at=moment(pool, 9.5))
    advance(pool, 14)
    assert again(second).state == "finished"


def test_hold_and_drain_are_told_and_remembered_with_their_reason() -> None:
    pool, _ = make_market("lumen")
    pool_hold(pool=pool, by=OPERATOR, reason="a look", at=moment(pool, 1))
    pool_hold(pool=pool, by=OPERATOR, reason="a look", at=moment(pool, 1))
    pool_drain(pool=pool, by=OPERATOR, reason="a move", at=moment(pool, 2))
    entries = AuditEntry.objects.filter(action__startswith="pool_").order_by("sequence")
    assert [(entry.action, entry.reason, entry.after["draining"]) for entry in entries] == [
        ("pool_hold", "a look", False),
        ("pool_drain", "a move", True),
    ]
    assert list(Event.objects.order_by("pk").values_list("kind", flat=True)) == ["pool_held", "pool_draining"]
    assert set(LaneClock.objects.values_list("lane", "held", "draining")) == {
        ("batch", True, True),
        ("instant", True, True),
    }


@pytest.mark.parametrize("change", [pool_hold, pool_drain, pool_resume])
def test_only_an_operator_with_a_reason_holds_a_pool(change: Any) -> None:
    pool, _ = make_market("lumen")
    assert isinstance(change(pool=pool, by=NOBODY, reason="why not", at=pool.epoch_at), Refused)
    assert isinstance(change(pool=pool, by=OPERATOR, reason=" ", at=pool.epoch_at), Refused)
    assert not connection.needs_rollback
