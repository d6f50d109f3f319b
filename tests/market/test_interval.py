"""The batch lane's step at a slot boundary, with real rows and a real book."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from scheduling.audit.verification import intervals_verify
from scheduling.market.decide.interval import interval_run
from scheduling.market.reads import job_view
from scheduling.market.view.frame import pool_frame
from scheduling.market.view.windows import published_windows
from scheduling.models import (
    Award,
    AwardState,
    CalendarCell,
    Event,
    Interval,
    JobFloor,
    JobState,
    LaneClock,
    PriceTick,
    Server,
    TenantPolicy,
    TrainingJob,
)
from scheduling.runs.failures import ServerLost, server_lose
from tenants.access import access_of_system
from tenants.ledger.selectors import balances_of_tenant, transactions_about
from tenants.scoping import scope, scope_disabled
from tests.ledger.builders import commit_checks
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.markets import MICRO, again, at, award_of, make_market, make_renting, make_waiting, run_slots

pytestmark = pytest.mark.django_db


def balances(tenant):
    with scope(tenant):
        return balances_of_tenant(tenant_id=tenant.pk)


def clock_of(pool) -> LaneClock:
    return LaneClock.objects.get(pool=pool, lane="batch")


def test_job_at_home_is_awarded_its_floor_free() -> None:
    pool, (lumen,) = make_market("lumen")
    job = make_waiting(pool, lumen)
    (opened, interval) = run_slots(pool, 0, 1)
    assert (opened.window_start, interval.window_start, interval.window_end) == (None, 1, 2)
    award = award_of(job)
    assert (award.phase, award.start, award.end, award.workers, award.paid) == ("own", 1, 3, 4, 0)
    assert award.charges == []
    with scope(lumen):
        floor = JobFloor.objects.get(job=job)
    assert (floor.value, floor.start, floor.end) == (award.value, 1, 3)
    assert balances(lumen).held == 0


def test_an_interval_reads_its_pool_once() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    with CaptureQueriesContext(connection) as captured:
        run_slots(pool, 0, 1)
    readings = [query for query in captured if "scheduling_pool_text(" in query["sql"]]
    assert len(readings) == 2  # of two slots, in each of which something is decided


def test_window_opens_one_slot_after_the_first_arrival_and_says_so() -> None:
    pool, (lumen,) = make_market("lumen")
    job = make_waiting(pool, lumen, arrival=2.5)
    intervals = run_slots(pool, 0, 4)
    assert [(i.number, i.slot, i.window_start) for i in intervals] == [(1, 3, None), (2, 4, 4)]
    assert again(job).state == JobState.RUNNING


def test_rent_is_set_aside_and_split_among_the_owners_slot_by_slot() -> None:
    pool, owner, renter = make_renting()
    job = make_waiting(pool, renter)
    run_slots(pool, 0, 3)
    award = award_of(job)
    assert award.phase == "shared"
    assert award.paid > 0
    assert len(award.charges) == award.end - award.start
    assert sum(amount for slot in award.charges for _, amount in slot) == award.paid
    assert {owner_id for slot in award.charges for owner_id, _ in slot} == {owner.pk}
    assert balances(renter).held == award.paid
    assert balances(renter).available == 1_000 * MICRO - award.paid
    with scope(renter):
        (hold,) = transactions_about(subject=f"job:{job.pk}")
    assert (hold.key, hold.kind) == (f"award:{award.pk}", "hold")
    commit_checks()


def test_calendar_holds_what_the_awards_take() -> None:
    pool, (lumen,) = make_market("lumen")
    job = make_waiting(pool, lumen)
    run_slots(pool, 0, 1)
    award = award_of(job)
    workers_by_slot = dict(CalendarCell.objects.filter(resource__name="worker").values_list("slot", "batch"))
    assert workers_by_slot == dict.fromkeys(range(award.start, award.end), float(award.workers))
    assert set(CalendarCell.objects.values_list("part", flat=True)) == {"home"}


def test_next_interval_sees_what_is_taken() -> None:
    pool, (lumen,) = make_market("lumen")
    first = make_waiting(pool, lumen, epochs=8)
    run_slots(pool, 0, 1)
    second = make_waiting(pool, lumen, arrival=1.0)
    run_slots(pool, 2, 40)
    assert award_of(second).start >= award_of(first).end
    assert all(cell.batch <= cell.capacity for cell in CalendarCell.objects.all())


def test_slot_is_decided_once() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    run_slots(pool, 0, 1)
    before = Interval.objects.count(), Event.objects.count()
    assert interval_run(pool_id=pool.pk, slot=1, at=at(pool, 1)) is None
    assert (Interval.objects.count(), Event.objects.count()) == before


def test_slot_is_not_decided_before_its_turn() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    assert interval_run(pool_id=pool.pk, slot=1, at=at(pool, 1)) is None
    assert clock_of(pool).decided_slot == -1


def test_idle_market_leaves_no_interval() -> None:
    pool, _ = make_market("lumen")
    assert run_slots(pool, 0, 20) == []
    clock = clock_of(pool)
    assert (clock.decided_slot, clock.frontier) == (20, 22)


def test_held_lane_decides_nothing_while_its_clock_goes_on() -> None:
    pool, (lumen,) = make_market("lumen")
    job = make_waiting(pool, lumen)
    run_slots(pool, 0, 0)
    LaneClock.objects.update(held=True)
    assert run_slots(pool, 1, 5) == []
    LaneClock.objects.update(held=False)
    assert clock_of(pool).decided_slot == 5
    run_slots(pool, 6, 8)
    assert again(job).state == JobState.RUNNING


def test_floor_that_passed_while_the_lane_was_held_is_planned_anew() -> None:
    pool, (lumen,) = make_market("lumen")
    first, second = make_waiting(pool, lumen), make_waiting(pool, lumen)
    run_slots(pool, 0, 1)
    assert again(second).state == JobState.QUEUED
    LaneClock.objects.update(held=True)
    run_slots(pool, 2, 10)
    LaneClock.objects.update(held=False)
    run_slots(pool, 11, 14)
    with scope(lumen):
        missed, latest = JobFloor.objects.filter(job=second).order_by("attempt")
    assert missed.start < 11 <= latest.start == award_of(second).start
    assert (again(first).attempt, again(second).attempt) == (0, 1)
    (requeued,) = Event.objects.filter(kind="job_requeued")
    assert (requeued.tenant_id, requeued.data["start"]) == (lumen.pk, missed.start)
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_market_goes_on_beside_a_lost_server() -> None:
    pool, owner, _ = make_renting(clock_first=2)
    for _ in range(4):
        make_waiting(pool, owner, epochs=2)
    run_slots(pool, 0, 2)
    lost = Server.objects.filter(pool=pool).order_by("pk")[0]
    outcome = server_lose(server=lost, by=access_of_system("test"), reason="power", at=at(pool, 2))
    assert isinstance(outcome, ServerLost)
    late = make_waiting(pool, owner, arrival=2.5)
    run_slots(pool, 3, 40)
    assert {row[0] for row in award_of(late).allocation} == {Server.objects.get(name="s99").pk}
    with scope(owner):
        assert {job.state for job in TrainingJob.objects.all()} <= {JobState.RUNNING, JobState.AWARDED}
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_intervals_are_chained_and_numbered() -> None:
    pool, (lumen,) = make_market("lumen")
    for arrival in (0.0, 4.0, 11.5):
        make_waiting(pool, lumen, arrival=arrival)
    intervals = run_slots(pool, 0, 20)
    assert [interval.number for interval in intervals] == list(range(1, len(intervals) + 1))
    assert intervals[0].previous == "0" * 64
    assert [i.previous for i in intervals[1:]] == [i.digest for i in intervals[:-1]]
    assert clock_of(pool).head == intervals[-1].digest


def test_tenant_without_credits_rents_nothing_and_is_told_why() -> None:
    pool, _, renter = make_renting(credits=0)
    job = make_waiting(pool, renter)
    run_slots(pool, 0, 4)
    job = again(job)
    assert (job.state, job.reason_code) == (JobState.QUEUED, "low_balance")
    assert job.reason_numbers["price"] > 0


def test_tenant_rents_no_more_than_its_credits_cover() -> None:
    pool, _, renter = make_renting(credits=1)
    for _ in range(6):
        make_waiting(pool, renter, value={"kind": "linear", "slope": -0.01, "base": 1000.0})
    run_slots(pool, 0, 30)
    with scope(renter):
        paid = Award.objects.aggregate(Sum("paid"))["paid__sum"]
    assert balances(renter).held == paid
    assert balances(renter).available == MICRO - paid >= 0


def test_tenant_that_never_rents_is_told_so() -> None:
    pool, _, renter = make_renting()
    job = make_waiting(pool, renter)
    with scope(renter):
        TenantPolicy.objects.create(pool=pool, rent="never")
    run_slots(pool, 0, 2)
    assert again(job).reason_code == "rent_never"


def test_budget_counts_what_was_rented_before() -> None:
    pool, _, renter = make_renting()
    worth = {"value": {"kind": "linear", "slope": -0.01, "base": 1000.0}}
    first = make_waiting(pool, renter, **worth)
    run_slots(pool, 0, 2)
    with scope(renter):
        TenantPolicy.objects.create(pool=pool, rent="budget", budget=award_of(first).paid + 1)
    second = make_waiting(pool, renter, arrival=2.0, **worth)
    run_slots(pool, 3, 8)
    second = again(second)
    assert second.reason_code == "over_budget"
    assert second.reason_numbers["left"] == pytest.approx(1e-6)


def test_hopeless_job_expires_with_its_reason() -> None:
    pool, (lumen,) = make_market("lumen")
    job = make_waiting(pool, lumen, value={"kind": "linear", "slope": -1.0, "base": 1.0})
    run_slots(pool, 0, 2)
    job = again(job)
    assert job.state == JobState.EXPIRED
    assert job.reason_code == "not_worth_it"
    assert job.ended_at is not None
    assert Event.objects.filter(tenant=lumen, kind="job_expired").count() == 1


def test_prices_of_the_window_are_posted() -> None:
    pool, _, renter = make_renting()
    make_waiting(pool, renter)
    intervals = run_slots(pool, 0, 3)
    ticks = PriceTick.objects.filter(pool=pool, lane="batch", resource__name="worker").order_by("slot")
    covered = [slot for i in intervals if i.window_start for slot in range(i.window_start, i.window_end)]
    assert [tick.slot for tick in ticks] == covered
    assert max(tick.sold for tick in ticks) > 0
    assert all(tick.price >= 0.01 for tick in ticks)


def test_events_tell_the_tenant_and_everybody() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    run_slots(pool, 0, 1)
    kinds = list(Event.objects.filter(tenant=lumen).values_list("kind", flat=True))
    assert kinds == ["job_submitted", "job_awarded", "job_started"]
    closed = Event.objects.filter(tenant=None, kind="interval_closed").last()
    assert closed is not None
    assert (closed.data["number"], closed.data["window"], closed.data["awarded"]) == (2, [1, 2], 1)


def test_reason_that_stays_the_same_is_told_once() -> None:
    pool, _, renter = make_renting(credits=0)
    make_waiting(pool, renter)
    run_slots(pool, 0, 12)
    rows = Event.objects.filter(tenant=renter, kind="job_waiting").order_by("pk")
    assert [event.data["reason"] for event in rows] == ["larger_than_window", "low_balance"]


def test_award_that_begins_later_is_not_running_yet() -> None:
    pool, (lumen,) = make_market("lumen", clock_first=4)
    first = make_waiting(pool, lumen)
    second = make_waiting(pool, lumen)
    run_slots(pool, 0, 4)
    assert (again(first).state, award_of(first).state) == (JobState.RUNNING, AwardState.RUNNING)
    assert award_of(second).start > 4
    assert (again(second).state, award_of(second).state) == (JobState.AWARDED, AwardState.BOOKED)


def test_where_an_instant_lane_sells_operator_units_the_batch_lane_plans_cells_only() -> None:
    pool, (lumen,) = make_market("lumen", instant=True)
    make_server(pool, "operators", worker=40, ps=8)
    job = make_waiting(pool, lumen, epochs=8)
    other = make_waiting(pool, lumen, epochs=8)
    run_slots(pool, 0, 20)
    with scope(lumen):
        used = {row[0] for award in Award.objects.all() for row in award.allocation}
    assert {award_of(job).phase, award_of(other).phase} == {"own"}
    assert len(used) == 1


def test_pool_without_constants_gets_those_that_do_not_depend_on_its_jobs() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen, value={"kind": "linear", "slope": -1.0, "base": 1e6})
    (opened, _) = run_slots(pool, 0, 1)
    assert b'"theta":{"ps":2.0,"worker":2.0}' in bytes(opened.policy)
    assert b'"price_floor":{"ps":0.01,"worker":0.01}' in bytes(opened.policy)
    assert b'"clock":{"cap":8,"first":1,"restart":true}' in bytes(opened.policy)


def test_tenants_may_come_and_windows_keep_their_owners() -> None:
    pool, (lumen,) = make_market("lumen", clock_first=8)
    make_waiting(pool, lumen)
    run_slots(pool, 0, 8)
    earlier = make_tenant("aaa")
    make_cells(make_server(pool, "s50"), earlier, {"worker": 8, "ps": 2})
    make_waiting(pool, earlier, arrival=8.5)
    run_slots(pool, 9, 16)
    frame = pool_frame(pool)
    with scope_disabled("windows of all"):
        (window, *_) = published_windows(frame, 15)
    assert window.idle.shape[1] == len(frame.owner_ids)
    assert window.idle[0, frame.tenant_index[lumen.pk]].max() == 4


def test_empty_pool_can_be_decided() -> None:
    pool = make_pool()
    assert run_slots(pool, 0, 3) == []


def test_between_boundaries_the_queue_is_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who is new is told when the interval closes; nothing else about those who wait is read."""
    pool, tenants = make_market("owner", clock_first=8, clock_cap=8)
    job = make_waiting(pool, tenants[0])
    run_slots(pool, 0, 0)
    monkeypatch.setattr("scheduling.market.decide.interval.batch_view", None)
    late = make_waiting(pool, tenants[0], arrival=0.5)
    assert run_slots(pool, 1, 7) == []
    reasons = [(again(row).reason_code, again(row).reason_numbers) for row in (job, late)]
    assert reasons == [("waiting_for_interval", {"closes_at": 8})] * 2
    with scope_disabled("jobs of all"):
        reason = job_view(pool, again(late), None, at(pool, 2)).reason
    assert reason.numbers == {"slot": 8, "closes_at": at(pool, 8).isoformat()}, "as a submission has it"
    monkeypatch.undo()
    assert len(run_slots(pool, 8, 8)) == 1


@pytest.mark.parametrize("first", [1, 2])
def test_job_that_comes_late_is_decided_behind_the_slots_promised_to_the_instant_lane(first: int) -> None:
    pool, (owner,) = make_market("owner", clock_first=first)
    assert run_slots(pool, 0, 4) == []
    promised = LaneClock.objects.get(pool=pool, lane="batch").frontier
    job = make_waiting(pool, owner, arrival=1.5)  # as after a failure of the platform, or a submission that took long
    interval = next(one for one in run_slots(pool, 5, 5 + 2 * first) if one.window_start is not None)
    assert interval.window_start == promised
    assert award_of(job).start >= promised
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
