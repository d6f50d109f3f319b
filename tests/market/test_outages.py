"""The market stopped: what passed meanwhile is not paid for, jobs wait again, and all of it happens once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import charge_verify, intervals_verify
from scheduling.audit.verification.charges import ChargeVerified
from scheduling.books import charge_account
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.read_page import job_page
from scheduling.jobs.read_slots import slot_table
from scheduling.market.settle import slots as settlement
from scheduling.market.settle.deliveries import pulse, silent_slots
from scheduling.market.settle.slots import slot_settle
from scheduling.market.settle.stuck import stuck_awards
from scheduling.models import Award, AwardState, Event, Interval, LaneClock, Outage, Pool, Server, TrainingJob
from scheduling.runs.failures import AwardFailed, award_fail, awards_on
from tenants.access import Refused
from tenants.ledger.selectors import transactions_about
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.scheduling.builders import NOON, make_cells, make_server, make_tenant
from tests.scheduling.clocks import advance, contested, everything, moment
from tests.scheduling.live import (
    again,
    book_is_sound,
    enter,
    events,
    fund,
    holdings,
    make_award,
    make_live_pool,
    member,
    money,
    publish,
    submitted,
)
from tests.scheduling.markets import make_market, make_waiting
from tests.soak.invariants import violations
from tests.tenants.builders import done

pytestmark = pytest.mark.django_db

GRACE = 20  # seconds, two slots


def market(*, start: int = 0, slots: int = 6, **fields: Any) -> tuple[Pool, Tenant, Tenant, Award]:
    """Lumen's job runs on castor's server at ten micro-credits a slot; the clock has ticked in slot 1.

    The market is held, so that a job that waits again is seen waiting.
    """
    pool, lumen, castor = make_live_pool(outage_grace_seconds=GRACE), make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, worker=4, ps=1)
    make_cells(server, castor, {"worker": 4, "ps": 1})
    fund(lumen)
    allocation = [[server.pk, start, start + slots, 4, 1]]
    charges = [[(castor, 10)]] * slots
    award = make_award(pool, lumen, start=start, slots=slots, charges=charges, allocation=allocation, **fields)
    enter(award)
    advance(pool, 0.2)
    advance(pool, 1.2)
    LaneClock.objects.filter(pool=pool).update(held=True)
    return pool, lumen, castor, award


def money_is_right(pool: Pool) -> bool:
    """Every charge against the book, and the book against itself."""
    with scope_disabled("the test looks at every charge"):
        jobs = list(TrainingJob.objects.filter(pool=pool).values_list("pk", flat=True))
    charges = [charge_verify(job_id=job) for job in jobs]
    findings = [charge.findings for charge in charges if isinstance(charge, ChargeVerified) and charge.findings]
    assert not findings, findings
    return book_is_sound()


def all_is_right(pool: Pool) -> bool:
    """And every interval decided again."""
    verified = intervals_verify(pool_ids=[pool.pk])
    assert not verified.findings, verified.findings
    return money_is_right(pool)


# --- what an outage is


def at(slot: float) -> datetime:
    return moment(Pool(epoch_at=NOON, slot_seconds=10), slot)


@pytest.mark.parametrize(
    ("grace", "last", "now", "silent"),
    [
        (20, 1.2, 2.9, range(0)),  # the next slot
        (20, 1.2, 4.99, range(0)),  # within the grace after slot 2
        (20, 1.2, 5.0, range(2, 5)),
        (20, 1.2, 9.4, range(2, 9)),
        (20, 2.0, 9.4, range(3, 9)),  # alive when slot 2 began
        (0, 1.2, 3.0, range(2, 3)),
        (0, 1.2, 2.99, range(0)),
        (0, -5.0, 3.0, range(0, 3)),  # before the epoch there are no slots
        (0, -5.0, -1.0, range(0)),
        (None, 1.2, 1_000.0, range(0)),
    ],
)
def test_slots_that_passed_wholly_in_silence_are_an_outage_once_it_outlasts_the_grace(
    grace: int | None, last: float, now: float, silent: range
) -> None:
    pool = Pool(epoch_at=NOON, slot_seconds=10, outage_grace_seconds=grace)
    assert silent_slots(pool, at(last), at(now)) == silent


def test_pulse_writes_an_outage_down_once() -> None:
    pool = make_live_pool(outage_grace_seconds=GRACE)
    assert pulse(pool=pool, at=at(1.2)) is None
    outage = pulse(pool=pool, at=at(9.4))
    assert outage is not None
    assert (outage.start, outage.end) == (2, 9)
    for again_at in (9.4, 9.5, 3.0, 10.1):  # twice, a moment later, a clock that was set back, the next slot
        assert pulse(pool=pool, at=at(again_at)) is None
    assert Outage.objects.count() == 1


def test_an_outage_stays_as_it_was_written() -> None:
    pool = make_live_pool(outage_grace_seconds=GRACE)
    pulse(pool=pool, at=at(1.2))
    pulse(pool=pool, at=at(9.4))
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), as_superuser():
        Outage.objects.update(end=20)


# --- what follows for money and jobs


def test_slots_in_an_outage_are_refunded_with_the_cause_and_earned_by_nobody() -> None:
    pool, lumen, castor, award = market()
    advance(pool, 9.4)  # silent from slot 2 to slot 8; the award would have run to slot 5
    assert (money(lumen), money(castor)) == ((1_000_000_000 - 20, 0, 0), (0, 0, 20))
    row = again(award)
    assert (row.state, row.cut_at, row.returned) == (AwardState.VOID, 2, 40)
    with scope_disabled("the test looks at the refund"):
        (refund,) = [t for t in transactions_about(subject=f"job:{award.job_id}") if t.kind == "refund"]
    assert refund.facts == {"award": award.pk, "cause": "market_stopped", "start": 2, "end": 9, "from_slot": 2}
    assert money_is_right(pool)


def test_its_job_waits_again_with_its_first_arrival_and_the_reason() -> None:
    pool, _, _, award = market()
    advance(pool, 9.4)
    job = again(award.job)
    assert (job.lane, job.attempt, job.arrival) == ("batch", 1, 0.0)
    assert (job.reason_code, job.reason_numbers) == ("market_stopped", {"start": 2, "end": 9, "refunded": 40})
    (event,) = events("job_requeued")
    cut = {"award": award.pk, "cut_at": 2, "from_slot": 2, "freed": None}
    assert event.data == {"job": job.pk, "cause": "market_stopped", "start": 2, "end": 9, "refunded": 40, **cut}
    assert {slot for *_, slot in holdings(pool, "batch")} == {0, 1}
    (public,) = events("market_stopped")
    assert (public.tenant_id, public.data["start"], public.data["end"], public.data["refunded"]) == (None, 2, 9, 40)


def test_an_award_that_begins_after_the_outage_goes_on() -> None:
    pool, _, castor, award = market(start=9, slots=2)
    advance(pool, 9.4)
    assert (again(award).state, again(award.job).state) == ("running", "running")
    advance(pool, 10.4)
    advance(pool, 11.4)
    assert (again(award).state, money(castor)) == ("done", (0, 0, 20))
    assert money_is_right(pool)


def test_an_award_that_would_have_begun_in_the_outage_costs_nothing_and_never_starts() -> None:
    pool, lumen, _, award = market(start=2, slots=2)
    advance(pool, 9.4)
    assert (again(award).state, again(award).cut_at, again(award).returned) == ("void", 2, 20)
    assert money(lumen) == (1_000_000_000, 0, 0)
    assert not events("job_started")
    assert money_is_right(pool)


def test_a_clock_late_within_the_grace_delivers_and_pays() -> None:
    pool, _, castor, award = market()
    advance(pool, 4.9)
    assert (again(award).state, money(castor)) == ("running", (0, 0, 40))
    assert not Outage.objects.exists()


def test_an_instant_job_sold_while_nobody_ticked_is_refunded() -> None:
    pool, lumen, _, _ = market(start=20, slots=1)
    LaneClock.objects.filter(pool=pool).update(held=False)
    make_server(pool, "s02", worker=8, ps=2)
    job = submitted(pool, lumen, slot=3.5).job
    assert again(job).state == "awarded"
    advance(pool, 9.4)
    with scope_disabled("the test looks at the award"):
        award = Award.objects.get(job=job, attempt=0)
    assert (award.state, award.returned, award.paid > 0) == ("void", award.paid, True)
    assert (again(job).lane, again(job).attempt) == ("batch", 1)
    assert money_is_right(pool)


def test_a_run_that_was_given_up_is_refunded_too_and_its_job_stays_cancelled() -> None:
    pool, lumen, _, award = market()
    with scope_disabled("the test gives it up"):
        Award.objects.filter(pk=award.pk).update(state="running")
        TrainingJob.objects.filter(pk=award.job_id).update(state="cancelled", reason_code="cancelled_by")
    advance(pool, 9.4)
    assert (again(award).state, again(award.job).state, money(lumen)[1]) == ("void", "cancelled", 0)


def rented_and_given_up(now: float) -> tuple[Pool, Tenant, Tenant, Award]:
    """Lumen's instant job runs on castor's server from slot 0 to slot 11, and is given up at this moment; slot 2 has
    begun."""
    pool, lumen, castor = make_live_pool(outage_grace_seconds=GRACE), make_tenant("lumen"), make_tenant("castor")
    make_cells(make_server(pool, worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    publish(pool, frontier=12)
    fund(lumen)
    bought = submitted(pool, lumen, epochs=12)
    for slot in range(3):
        advance(pool, slot + 0.2)
    done(job_cancel(job_id=bought.job.pk, by=member(lumen, OWNER), at=at(now)))
    assert isinstance(bought.award, Award)
    return pool, lumen, castor, again(bought.award)


@pytest.mark.one_case
@pytest.mark.parametrize(("given_up_at", "cut"), [(1.5, 3), (2.5, 3), (3.5, 3)])
def test_what_was_given_up_pays_on_after_an_outage_and_only_slots_of_the_outage_come_back(
    given_up_at: float, cut: int
) -> None:
    """It also holds while the clock is silent already: the last case is given up in slot 3, within the outage."""
    pool, lumen, castor, award = rented_and_given_up(given_up_at)
    price, before = award.paid // 12, award.cut_at
    buyer = make_tenant("pictor")
    fund(buyer)
    resold = [submitted(pool, buyer, slot=given_up_at + 0.1).award for _ in range(7)]
    LaneClock.objects.filter(pool=pool).update(held=True)  # so that buyers whose awards are void stay waiting
    advance(pool, 6.2)  # silent in slots 3, 4 and 5
    row = again(award)
    assert (row.state, row.cut_at, row.returned) == ("running", cut, 3 * price)
    assert row.cut_at <= before
    assert all_is_right(pool)
    for slot in range(7, 14):
        advance(pool, slot + 0.2)
    assert (again(award).state, again(award).used_until) == ("ended", cut)
    sales = [again(each) for each in resold if again(each).state == "done"]
    assert sales
    assert all(each.start >= 6 or each.end <= 3 for each in sales)
    assert money(lumen) == (1_000_000_000 - 9 * price, 0, sum(each.paid for each in sales))
    assert money(castor) == (0, 0, 9 * price)
    assert all_is_right(pool)
    assert not violations()
    table = slot_table(pool, again(award), at(14))
    assert (table.settled, table.returned, table.held, table.kept) == (9 * price, 3 * price, 0, 0)
    with scope_disabled("the test looks at what the job pays"):
        (account,) = charge_account(again(award.job))
    assert [slot.slot for slot in account.slots if slot.state == "returned"] == [3, 4, 5]


def test_an_outage_leaves_the_end_of_use_of_what_was_given_up_before_as_it_was() -> None:
    pool, _, _, award = rented_and_given_up(1.5)
    before = holdings(pool)
    advance(pool, 3.2)
    advance(pool, 7.2)  # silent in slots 4, 5 and 6
    assert holdings(pool) == before
    assert {slot for *_, slot in before} == {0, 1, 2}
    assert again(award).used_until == 3


def test_what_was_given_up_gets_the_slots_of_each_outage_back() -> None:
    pool, lumen, castor, award = rented_and_given_up(2.5)
    for moment_ in (6.2, 7.2, 8.2, 12.2):  # silent in slots 3 to 5, and in 9 to 11
        advance(pool, moment_)
    assert (again(award).state, again(award).returned) == ("ended", award.paid // 2)
    assert (money(lumen)[1], money(castor)[2]) == (0, award.paid // 2)
    assert not stuck_awards()
    assert all_is_right(pool)


def test_the_page_of_a_job_that_ended_early_leaves_out_what_came_back_of_what_it_pays() -> None:
    """Castor and Lumen itself own the units; the owners' share of the gain comes back as the price does."""
    pool, lumen, castor = make_live_pool(outage_grace_seconds=GRACE), make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, worker=4, ps=1)
    for owner in (lumen, castor):
        make_cells(server, owner, {"worker": 2})
    fund(lumen)
    charges = [[(lumen, 4), (castor, 6)]] * 12
    allocation = [[server.pk, 0, 12, 4, 0]]
    award = make_award(pool, lumen, slots=12, charges=charges, allocation=allocation, dividend=24)
    enter(award)
    advance(pool, 0.2)
    advance(pool, 1.2)
    LaneClock.objects.filter(pool=pool).update(held=True)
    with scope_disabled("the test ends its program"):
        Award.objects.filter(pk=award.pk).update(state="running", cut_at=2)
        TrainingJob.objects.filter(pk=award.job_id).update(state="finished", ended_at=moment(pool, 1.3))
    for slot in (6.2, 7.2, 12.2):  # silent in slots 2 to 5, and in 8 to 11
        advance(pool, slot)
    row = again(award)
    assert (row.paid, row.returned) == (120, 80)
    with scope(lumen):
        job = TrainingJob.objects.select_related("pool", "tenant", "submitted_by").get(pk=row.job_id)
        world = job_page(job, at=at(13), money=True).in_market
    assert world is not None
    assert (world.pays, world.own_part, world.dividend) == (40, 16, 8)
    assert world.surplus == world.worth - 24


def test_an_open_rent_whose_program_ended_early_pays_for_what_was_delivered_before_the_outage() -> None:
    pool, lumen, castor, award = market(slots=12, rent="open")
    with scope_disabled("the test ends its program"):
        Award.objects.filter(pk=award.pk).update(state="running", cut_at=2)
        TrainingJob.objects.filter(pk=award.job_id).update(state="finished")
    advance(pool, 9.4)
    assert (again(award).rent, again(award).returned) == ("closed", 70)
    assert (money(lumen), money(castor)) == ((1_000_000_000 - 50, 30, 0), (0, 0, 20))
    assert [event.data["arrears"] for event in events("market_stopped")] == [20]
    for slot in range(10, 13):
        advance(pool, slot + 0.2)
    assert (money(lumen)[1], money(castor)) == (0, (0, 0, 50))
    assert money_is_right(pool)


def test_a_verification_holds_while_an_outage_is_noticed_and_not_passed_yet() -> None:
    pool, _, _, award = rented_and_given_up(2.5)
    pulse(pool=pool, at=at(6.2))
    assert not stuck_awards()
    assert money_is_right(pool)
    assert again(award).returned == 0


def test_nothing_is_decided_about_slots_that_have_passed_and_then_the_market_goes_on() -> None:
    pool, (lumen, _) = make_market("lumen", "castor", outage_grace_seconds=GRACE)
    advance(pool, 0)
    jobs = [make_waiting(pool, lumen, arrival) for arrival in (0.5, 1.5)]
    advance(pool, 1)
    advance(pool, 60.5)
    for slot in range(61, 80):
        advance(pool, slot + 0.1)
    assert {again(job).state for job in jobs} == {"finished"}
    with scope_disabled("the test looks at all tenants"):
        assert not Interval.objects.filter(slot__gt=1, slot__lt=60).exists()
        delivered = Award.objects.exclude(state="void")
        assert all(award.start >= 60 or award.end <= 2 for award in delivered)
    assert all_is_right(pool)


def test_floors_that_should_have_begun_in_the_outage_are_planned_anew() -> None:
    pool, tenants = make_market("lumen", "castor", outage_grace_seconds=GRACE)
    jobs = [make_waiting(pool, tenant, 0.1, epochs=2) for tenant in tenants for _ in range(3)]  # in turn at home
    for slot in range(4):
        advance(pool, slot + 0.1)
    advance(pool, 20.5)
    for slot in range(21, 50):
        advance(pool, slot + 0.1)
    assert any(event.data.get("reason") == "floor_missed" for event in events("job_requeued"))
    assert {again(job).state for job in jobs} == {"finished"}
    assert all_is_right(pool)


# --- once, whenever and however often


def test_a_tick_that_comes_twice_changes_nothing() -> None:
    pool, _, _, _ = market()
    advance(pool, 9.4)
    before = everything()
    advance(pool, 9.4)
    advance(pool, 9.6)
    assert everything() == before


def test_caught_up_in_portions_or_at_once_it_is_the_same() -> None:
    pool, _ = contested()
    with as_superuser():
        Pool.objects.update(outage_grace_seconds=GRACE)
    for slot in range(7):
        advance(pool, slot)
    with transaction.atomic():
        advance(pool, 90)
        at_once = everything()
        transaction.set_rollback(True)
    for _ in range(200):
        if not pool_advance(pool_id=pool.pk, at=moment(pool, 90), most=1).behind:
            break
    assert everything() == at_once
    assert Event.objects.filter(kind="market_stopped").count() == 1


@pytest.mark.wide
def test_two_outages_one_after_the_other_are_each_passed() -> None:
    pool, _ = contested()
    with as_superuser():
        Pool.objects.update(outage_grace_seconds=0)
    for slot in (0, 1, 2, 30.5, 31.5, 60.5, 61.5):
        advance(pool, slot)
    assert list(Outage.objects.values_list("start", "end")) == [(3, 30), (32, 60)]
    for slot in range(62, 100):
        advance(pool, slot)
    with scope_disabled("the test looks at all tenants"):
        assert {job.state for job in TrainingJob.objects.all()} == {"finished"}
        lost = {*range(3, 30), *range(32, 60)}
        for award in Award.objects.all():
            end = award.end if award.cut_at is None else award.cut_at
            assert lost.isdisjoint(range(award.start, end))
    assert all_is_right(pool)


def test_a_slot_of_an_outage_is_never_paid_for() -> None:
    pool, _, _, _ = market()
    Outage.objects.create(pool=pool, start=1, end=3, alive_at=at(0.5), noticed_at=at(9))
    with pytest.raises(settlement.NotDelivered):
        slot_settle(pool_id=pool.pk, slot=1, at=at(9))


@pytest.mark.wide
@settings(max_examples=4, deadline=None)
@given(st.lists(st.floats(0.05, 6.0), min_size=4, max_size=8))
def test_however_it_ticks_slots_are_paid_or_refunded_and_nothing_is_left(gaps: list[float]) -> None:
    with transaction.atomic():
        pool, tenants = contested()
        with as_superuser():
            Pool.objects.update(outage_grace_seconds=GRACE)
        now = 0.0
        for gap in gaps:
            advance(pool, now)
            now += gap
        for _ in range(24):
            now += 1.3
            advance(pool, now)
        assert all(money(tenant)[1] == 0 for tenant in tenants)
        with scope_disabled("the test looks at all tenants"):
            assert {job.state for job in TrainingJob.objects.all()} == {"finished"}
        assert all_is_right(pool)
        transaction.set_rollback(True)


# --- the engine fails for one award


def fail(award: Award, slot: int, now: float = 2.5) -> AwardFailed:
    answer = award_fail(award_id=award.pk, slot=slot, detail="out of disk", at=at(now))
    assert isinstance(answer, AwardFailed), answer
    return answer


def test_an_award_that_the_engine_fails_is_refunded_from_that_slot_on() -> None:
    pool, lumen, castor, award = market()
    advance(pool, 2.2)
    failed = fail(award, slot=2)
    assert (failed.slot, failed.refunded, failed.waits, failed.repeated) == (2, 40, True, False)
    assert (money(lumen), money(castor)) == ((1_000_000_000 - 20, 0, 0), (0, 0, 20))
    job = again(award.job)
    assert (job.state, job.lane, job.attempt, job.arrival) == ("queued", "batch", 1, 0.0)
    assert (job.reason_code, job.reason_numbers) == ("engine_error", {"detail": "out of disk", "refunded": 40})
    assert money_is_right(pool)


def test_what_is_settled_stays_settled_when_the_engine_tells_late() -> None:
    pool, _, castor, award = market()
    advance(pool, 2.2)
    advance(pool, 3.2)
    assert fail(award, slot=1).slot == 3
    assert (again(award).returned, money(castor)) == (30, (0, 0, 30))
    assert money_is_right(pool)


def test_an_award_fails_once() -> None:
    _, lumen, _, award = market()
    fail(award, slot=2)
    before = money(lumen)
    again_told = fail(award, slot=4)
    assert (again_told.repeated, again_told.slot, again_told.refunded) == (True, 2, 40)
    assert money(lumen) == before
    assert again(award.job).attempt == 1


def test_what_its_tenant_gave_up_cannot_fail_any_more_and_a_loss_before_that_takes_slots_until_then() -> None:
    """The clock is late: nothing is settled from slot 1 on, and the engine tells of slots after the cut first."""
    pool, lumen, castor, award = market()
    done(job_cancel(job_id=award.job_id, by=member(lumen, OWNER), at=at(2.5)))
    assert (again(award).cut_at, again(award).state) == (3, "running")
    answer = award_fail(award_id=award.pk, slot=4, detail="silent", at=at(4.5))
    assert isinstance(answer, Refused)
    assert answer.code == "already_over"
    with scope_disabled("a lost server held units of several tenants"):
        assert not awards_on(Server.objects.get(pool=pool), slot=3)
    assert (again(award).cut_at, again(award).state) == (3, "running")
    assert fail(award, slot=2, now=4.6).slot == 2
    assert (again(award).state, again(award).cut_at, again(award).returned) == ("running", 2, 10)
    advance(pool, 7.2)  # silent from slot 2 on: an outage takes the rest
    assert (again(award).returned, money(castor)) == (40, (0, 0, 20))
    assert money_is_right(pool)


def test_an_award_that_is_over_cannot_fail() -> None:
    pool, _, _, award = market(slots=2)
    advance(pool, 2.2)
    answer = award_fail(award_id=award.pk, slot=1, detail="", at=at(3))
    assert isinstance(answer, Refused)
    assert answer.code == "already_over"
    unknown = award_fail(award_id=10**9, slot=1, detail="", at=at(3))
    assert isinstance(unknown, Refused)


def test_what_began_and_was_given_up_in_an_outage_pays_on_after_it_as_what_is_sold_of_it_is_its_tenants() -> None:
    """Slots 3, 4 and 5 are silent. An instant job begins in slot 4, and is given up there; a buyer takes slot 6."""
    pool, lumen, pictor = make_live_pool(outage_grace_seconds=GRACE), make_tenant("lumen"), make_tenant("pictor")
    make_server(pool, worker=4, ps=1)
    for tenant in (lumen, pictor):
        fund(tenant)
    for slot in range(3):
        advance(pool, slot + 0.2)
    award = again(submitted(pool, lumen, slot=3.9, epochs=4).award)
    assert (award.start, award.end) == (4, 8)
    done(job_cancel(job_id=award.job_id, by=member(lumen, OWNER), at=at(4.5)))
    bought = [again(submitted(pool, pictor, slot=4.6).award) for _ in range(3)]
    assert [each.start for each in bought] == [5, 6, 7]
    LaneClock.objects.filter(pool=pool).update(held=True)  # so that the buyer whose award is void stays waiting
    price = award.paid // 4
    advance(pool, 6.2)
    row = again(award)
    assert (row.state, row.cut_at, row.returned) == ("running", 4, 2 * price)
    assert all_is_right(pool)
    for slot in (7, 8, 9):
        advance(pool, slot + 0.2)
    sales = [each for each in map(again, bought) if each.state == "done"]
    assert [each.start for each in sales] == [6, 7]
    assert money(lumen) == (1_000_000_000 - 2 * price, 0, sum(each.paid for each in sales))
    assert not stuck_awards()
    assert all_is_right(pool)
    assert not violations()
