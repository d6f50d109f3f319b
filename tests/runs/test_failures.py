"""A server is lost: what it did not deliver is refunded, and its jobs wait again as if they had just arrived."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import IntegrityError

from scheduling.app.clock import pool_advance
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.engines.base import ENDED, FAILED, FINISHED, Status
from scheduling.market.settle.stuck import stuck_awards
from scheduling.models import Award, Interval, JobFloor, LaneClock, Run, TrainingJob
from scheduling.operator.loss_preview import server_loss_preview
from scheduling.reasons import reason_sentence
from scheduling.runs.ends import run_end
from scheduling.runs.failures import ServerLost, server_lose
from tenants import history
from tenants.access import NOBODY, Refused, access_of_system
from tenants.models import AuditEntry
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser, run
from tests.scheduling.builders import NOON, make_cells, make_server, make_tenant
from tests.scheduling.clocks import advance
from tests.scheduling.live import (
    SPEC,
    again,
    book_is_sound,
    enter,
    events,
    fund,
    holdings,
    make_award,
    make_live_pool,
    member,
    moment,
    money,
    publish,
    settle,
    submitted,
)

pytestmark = pytest.mark.django_db

PROGRAM = {**SPEC, "program": {"name": "x"}}
OPERATOR = access_of_system("the tests")


def lose(server, slot: float = 1.5):
    answer = server_lose(server=server, by=OPERATOR, reason="smoke", at=moment(slot))
    assert isinstance(answer, ServerLost), answer
    return answer


def market():
    """Lumen's job runs on both of castor's servers for three slots, at ten micro-credits each."""
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    servers = [make_server(pool, name, worker=2, ps=1) for name in ("s01", "s02")]
    for server in servers:
        make_cells(server, castor, {"worker": 2, "ps": 1})
    fund(lumen)
    allocation = [[servers[0].pk, 0, 3, 2, 1], [servers[1].pk, 0, 3, 2, 0]]
    award = make_award(pool, lumen, slots=3, charges=[[(castor, 10)]] * 3, allocation=allocation)
    enter(award)
    settle(pool, 0)
    return pool, lumen, castor, servers, award


def test_undelivered_slots_are_refunded_and_delivered_ones_stay_earned() -> None:
    pool, lumen, castor, servers, award = market()
    lost = lose(servers[1])
    assert (lost.awards, lost.refunded, lost.jobs) == (1, 20, 1)
    assert (money(lumen), money(castor)) == ((999_999_990, 0, 0), (0, 0, 10))
    row = again(award)
    assert (row.state, row.cut_at, row.returned) == ("void", 1, 20)
    settle(pool, 1, 2)
    assert money(castor) == (0, 0, 10)
    assert book_is_sound()


def test_the_job_waits_again_with_its_first_arrival_and_the_cause() -> None:
    _, _, _, servers, award = market()
    lose(servers[1])
    job = again(award.job)
    assert (job.state, job.lane, job.attempt, job.arrival) == ("queued", "batch", 1, 0.0)
    assert (job.reason_code, job.reason_numbers) == ("server_lost", {"server": "s02", "refunded": 20})
    (event,) = events("job_requeued")
    assert (event.tenant_id, event.data["server"]) == (award.tenant_id, "s02")


def test_every_unit_of_the_gang_is_free_again_from_the_running_slot_on() -> None:
    pool, _, _, servers, _ = market()
    lose(servers[1])
    assert {slot for *_, slot in holdings(pool, "batch")} == {0}


def test_a_job_that_never_started_costs_nothing() -> None:
    pool, lumen, castor, servers, _ = market()
    later = make_award(
        pool, lumen, start=5, slots=1, charges=[[(castor, 40)]], allocation=[[servers[1].pk, 5, 6, 2, 1]]
    )
    enter(later)
    lose(servers[1])
    assert (again(later).returned, again(later).cut_at, money(lumen)[1]) == (40, 5, 0)


@pytest.mark.wide
def test_awards_elsewhere_go_on() -> None:
    pool, lumen, castor, servers, _ = market()
    third = make_server(pool, "s03", worker=2, ps=1)
    award = make_award(
        pool,
        lumen,
        start=1,
        slots=servers[1].pk + 2,
        charges=[[(castor, 1)]] * (servers[1].pk + 2),
        allocation=[[third.pk, 1, servers[1].pk + 3, 2, 1]],
    )
    enter(award)
    lose(servers[1])
    assert again(award).state == "booked"


def test_what_the_server_was_for_before_the_running_slot_does_not_matter() -> None:
    pool, lumen, castor, servers, _ = market()
    third = make_server(pool, "s03", worker=2, ps=1)
    rows = [[servers[1].pk, 0, 1, 0, 1], [third.pk, 1, 3, 2, 1]]
    award = make_award(pool, lumen, slots=3, charges=[[(castor, 1)]] * 3, allocation=rows)
    lose(servers[1])
    assert again(award).state == "booked"


def test_an_instant_award_is_refunded_too() -> None:
    pool, lumen = make_live_pool(), make_tenant("lumen")
    server = make_server(pool, worker=4, ps=1)
    fund(lumen)
    job = submitted(pool, lumen, slot=0.5).job
    lose(server, slot=0.7)
    assert (money(lumen), holdings(pool)) == ((1_000_000_000, 0, 0), {})
    assert (again(job).state, again(job).lane, again(job).arrival) == ("queued", "batch", 0.5)


def test_a_reservation_that_is_lost_before_it_begins_does_not_wait_for_its_old_slots() -> None:
    """Nothing of it runs before them, so its job may be decided about from the loss on."""
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, "s01", worker=4, ps=1)  # the operator's
    make_cells(make_server(pool, "h01", worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    fund(lumen)
    advance(pool, 0)
    awards = [again(submitted(pool, lumen).award) for _ in range(12)]
    last = max(awards, key=lambda award: award.start)
    assert last.start > 5
    lose(server, 1)
    with scope(lumen):
        waiting = again(last).job
    assert (waiting.state, waiting.not_before) == ("queued", 1)  # the slot of the loss is the first not delivered
    assert again(last).cut_at == last.start
    for slot in range(1, 20):
        advance(pool, slot)
    with scope(lumen):
        newest = Award.objects.filter(job=last.job_id).latest("pk")
        first = Award.objects.filter(job__in=[award.job_id for award in awards], attempt=1).earliest("start")
    assert first.start == 2
    assert newest.attempt == 1
    assert again(newest).state == "done"
    with scope_disabled("the test verifies everything"):
        assert jobs_verify(pool, list(TrainingJob.objects.all())) == []
    assert book_is_sound()


def test_floors_of_waiting_jobs_on_the_server_are_void() -> None:
    pool, lumen, _, servers, _ = market()
    interval = Interval.objects.create(
        pool=pool,
        number=1,
        slot=0,
        decided_at=NOON,
        code_version="",
        policy=b"",
        view=b"",
        plan=b"",
        windows=b"",
        previous="0" * 64,
        digest="1" * 64,
    )
    jobs = [submitted(pool, lumen, lane="batch").job for _ in servers]
    with scope(lumen):
        for job, server in zip(jobs, servers, strict=True):
            JobFloor.objects.create(
                tenant=lumen,
                job=job,
                interval=interval,
                value=5.0,
                start=2,
                end=4,
                allocation=[[server.pk, 2, 4, 1, 1]],
            )
    assert lose(servers[1]).floors == 1
    assert [again(job).attempt for job in jobs] == [0, 1]
    assert again(jobs[1]).reason_code == "waiting_for_interval"


def test_is_written_into_the_history_with_before_and_after() -> None:
    _, _, _, servers, _ = market()
    lose(servers[1])
    entry = AuditEntry.objects.get(action="server_lose")
    assert (entry.reason, entry.before, entry.after["refunded"]) == ("smoke", {"state": "in_service"}, 20)
    assert isinstance(history.verify(), history.VerifiedHistory)


def test_a_server_is_lost_once() -> None:
    _, _, _, servers, _ = market()
    lose(servers[1])
    answer = server_lose(server=servers[1], by=OPERATOR, reason="smoke", at=moment(2))
    assert isinstance(answer, Refused)
    assert answer.code == "already_lost"


@pytest.mark.parametrize(("by", "reason"), [(NOBODY, "smoke"), (OPERATOR, " ")])
def test_refuses_whoever_may_not_or_gives_no_reason(by, reason) -> None:
    _, lumen, _, servers, award = market()
    assert isinstance(server_lose(server=servers[1], by=by, reason=reason, at=NOON), Refused)
    assert isinstance(server_lose(server=servers[1], by=member(lumen), reason="smoke", at=NOON), Refused)
    assert again(award).state == "running"


def test_what_a_loss_would_refund_is_said_before_and_is_what_it_then_refunds() -> None:
    pool, lumen, _, servers, _ = market()
    rows = [[servers[1].pk, 3, 5, 1, 0]]
    enter(make_award(pool, lumen, start=3, slots=2, charges=[[(None, 7)], [(None, 5)]], allocation=rows))
    before = money(lumen)
    forecast = server_loss_preview(server=servers[1], at=moment(1.5))
    assert (forecast.awards, forecast.refunded, forecast.jobs) == (2, 32, 2)
    assert money(lumen) == before
    assert server_loss_preview(server=servers[0], at=moment(1.5)).refunded == 20
    assert lose(servers[1]) == forecast


def ended_in_the_lead(end: str, slots: int = 4, price: int = 10):
    """Lumen's job has slots from 3 on, each at `price` micro-credits; its engine opens the gang in slot 2: it ends."""
    pool = make_live_pool(outage_grace_seconds=20)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, worker=4, ps=1)
    make_cells(server, castor, {"worker": 4, "ps": 1})
    fund(lumen)
    publish(pool, frontier=20)
    allocation, charges = [[server.pk, 3, 3 + slots, 4, 1]], [[(castor, price)] if price else []] * slots
    award = make_award(pool, lumen, start=3, slots=slots, charges=charges, allocation=allocation, spec=PROGRAM)
    enter(award)
    LaneClock.objects.filter(pool=pool).update(held=True)  # the test decides alone
    pool_advance(pool_id=pool.pk, at=moment(2.2))
    due = {"ends_at": moment(3 + slots), "due_at": moment(3), "seen_at": moment(2.8)}
    with scope_disabled("the gang is opened before its slot"):
        gang = Run.objects.create(
            tenant=lumen, job=award.job, award=award, number=0, engine="local", key="k" * 32, program="x", **due
        )
        assert run_end(run=gang, status=Status(ENDED, end=end, detail="boom"), at=moment(2.8))
    assert again(award.job).state == end
    return pool, lumen, castor, award


@pytest.mark.parametrize(("price", "paid"), [(10, " What was reserved is paid."), (0, "")])
def test_a_program_that_fails_is_told_of_payment_only_where_it_costs_something(price: int, paid: str) -> None:
    pool, _, _, award = ended_in_the_lead(FAILED, price=price)
    job = again(award.job)
    assert reason_sentence(pool, job.reason_code, job.reason_numbers) == f"Its program failed: boom.{paid}"
    assert job.reason_numbers == {"detail": "boom", "reserved": 4 * price}


@pytest.mark.parametrize("end", [FAILED, FINISHED])
def test_a_program_that_ends_before_its_slot_pays_all_that_it_reserved(end: str) -> None:
    pool, lumen, castor, award = ended_in_the_lead(end)
    row = again(award)
    assert (row.state, row.cut_at, row.paid_until, row.owed_after(2), row.used_until) == ("booked", 4, 7, 40, 4)
    assert {slot for *_, slot in holdings(pool, "batch")} == {3}  # what follows its first slot is on sale again
    (event,) = events(f"job_{end}")
    assert (event.data["cut_at"], event.data["freed"]) == (4, [4, 7])
    assert stuck_awards() == []
    for slot in range(3, 8):
        pool_advance(pool_id=pool.pk, at=moment(slot + 0.2))
    assert (again(award).state, again(award).paid_until) == ("ended", 7)
    assert (money(lumen), money(castor)) == ((999_999_960, 0, 0), (0, 0, 40))
    assert again(award.job).state == end
    assert stuck_awards() == []
    assert book_is_sound()


def test_a_program_of_one_slot_that_ends_before_it_pays_it() -> None:
    pool, lumen, castor, award = ended_in_the_lead(FAILED, slots=1)
    assert again(award).cut_at is None
    for slot in (3, 4):
        pool_advance(pool_id=pool.pk, at=moment(slot + 0.2))
    assert (money(lumen), money(castor)) == ((999_999_990, 0, 0), (0, 0, 10))
    assert again(award.job).state == "failed"
    assert book_is_sound()


def test_an_outage_after_a_program_ended_before_its_slot_refunds_all_of_it() -> None:
    pool, lumen, castor, award = ended_in_the_lead(FAILED)
    pool_advance(pool_id=pool.pk, at=moment(9.2))
    assert (again(award).state, again(award).returned) == ("ended", 40)  # the outage has all of its slots
    assert (money(lumen), money(castor)) == ((1_000_000_000, 0, 0), (0, 0, 0))
    assert again(award.job).state == "failed"
    assert stuck_awards() == []
    assert book_is_sound()


def test_the_database_refuses_an_award_that_is_alive_and_cut_at_its_start() -> None:
    award = market()[-1]
    with scope_disabled("a broken service"), pytest.raises(IntegrityError, match="award_alive_is_cut_after_its_start"):
        Award.objects.filter(pk=award.pk).update(cut_at=award.start)


@pytest.mark.parametrize(("slots", "cut_at"), [(4, 4), (1, None)])
def test_an_upgrade_mends_an_award_that_an_older_version_cut_at_its_start(slots: int, cut_at: int | None) -> None:
    pool, lumen, castor, award = ended_in_the_lead(FAILED, slots)
    with as_superuser():
        run("SET CONSTRAINTS ALL IMMEDIATE")
        run("ALTER TABLE scheduling_award DROP CONSTRAINT award_alive_is_cut_after_its_start")
        run("UPDATE scheduling_award SET cut_at = start WHERE id = %s", [award.pk])
        run(import_module("scheduling.migrations.0065_cut_after_start").MENDED)
    assert again(award).cut_at == cut_at
    for slot in range(3, 4 + slots):
        pool_advance(pool_id=pool.pk, at=moment(slot + 0.2))
    assert (money(lumen)[1], money(castor)[2]) == (0, 10 * slots)
    assert stuck_awards() == []
