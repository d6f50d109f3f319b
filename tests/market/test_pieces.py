"""Long jobs rent in pieces in a live market: awards, what is left, losses, cancelling, money and proof (D1 to D10)."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.urls import reverse

from scheduling.audit.verification import intervals_verify
from scheduling.engines.base import ENDED, FINISHED, Engine, Status
from scheduling.jobs.arrays import array_submit
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.market.decide.plans import refunds_of
from scheduling.market.elastic.read_slots import epochs_reported
from scheduling.market.reads.intervals import interval_view
from scheduling.market.settle.rents import Closing, RefundTooLarge, rents_close
from scheduling.market.settle.stuck import stuck_awards
from scheduling.market.view.rents import rents_open, values_given_up
from scheduling.models import (
    AlonePlan,
    Award,
    AwardState,
    Event,
    Interval,
    JobFloor,
    JobState,
    Pool,
    RentState,
    Run,
    RunState,
    Server,
    TenantPolicy,
    TrainingJob,
)
from scheduling.quotes.quotes import Quote, job_quote
from scheduling.reasons import reason_sentence
from scheduling.runs.early_ends import job_end_early
from scheduling.runs.ends import run_end
from scheduling.runs.failures import AwardFailed, award_fail, server_lose
from scheduling.runs.runs import awards_due
from tenants.access import access_of_system
from tenants.ledger.amounts import shown
from tenants.ledger.audit import verify
from tenants.ledger.postings import held
from tenants.ledger.selectors import balance
from tenants.ledger.services import hold, post_many
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope, scope_disabled
from tests.scheduling import live
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import member
from tests.scheduling.markets import SPEC, give, make_waiting
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db

# One worker does a mini-batch in a slot.
ONE = {"chunks": 1, "max_workers": 1, "minibatches": 1, "minibatch_seconds": 10.0}
SLOWLY = {"kind": "linear", "slope": -0.1, "base": 100.0}


@dataclass(frozen=True)
class World:
    """Windows of eight slots, an owner with two servers of one worker, and a guest without cells."""

    pool: Pool
    owner: Tenant
    guest: Tenant

    def long_job(self, tenant: Tenant | None = None, arrival: float = 0.0, **fields: Any) -> TrainingJob:
        """Forty slots on one worker, in pieces."""
        settings = {"epochs": 40, "value": SLOWLY, "divisible": True, "save_slots": 0.5} | ONE | fields
        return make_waiting(self.pool, tenant or self.guest, arrival, **settings)

    def job_of_two_awards(self) -> TrainingJob:
        """Other jobs of the owner hold its cells for some slots, so that only the guest's cell is for sale: what begins
        at home later is rented there first."""
        make_cells(make_server(self.pool, "g1", worker=1, ps=1), self.guest, {"worker": 1, "ps": 1})
        for _ in range(2):
            make_waiting(self.pool, self.owner, epochs=4, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
        steep = {"kind": "linear", "slope": -5.0, "base": 200.0}
        return self.long_job(self.owner, epochs=12, value=steep)

    def awards(self, job: TrainingJob) -> list[Award]:
        with scope_disabled("the test looks at what a job got"):
            return list(Award.objects.filter(job=job).order_by("pk"))

    def interval_of(self, award: Award) -> int:
        with scope_disabled("the test looks at what decided an award"):
            return Interval.objects.get(pk=award.interval_id).number

    def row(self, job: TrainingJob) -> TrainingJob:
        with scope_disabled("the test looks at a job"):
            return TrainingJob.objects.get(pk=job.pk)

    def runs(self, award: Award, state: RunState = RunState.RUNNING, **progress: Any) -> Run:
        """The program of a job in one of its awards, as the engine saw it last."""
        start, end = moment(self.pool, award.start), moment(self.pool, award.end)
        facts = {
            "engine": "local",
            "program": "own",
            "ends_at": end,
            "due_at": start,
            "seen_at": end,
            "started_at": start,
        }
        with scope_disabled("the test plays the engine"):
            key = f"{award.pk:032}"
            return Run.objects.create(
                tenant_id=award.tenant_id, job_id=award.job_id, award=award, number=0, key=key, state=state,
                progress={"numbers": progress}, **facts,
            )  # fmt: skip

    def finishes(self, run: Run, slot: float, news_slot: float) -> None:
        """The program of a run is done in a slot, and the engine reports it at another moment."""
        end = Status(ENDED, end=FINISHED, ended_at=moment(self.pool, slot).timestamp(), progress=run.progress)
        with scope_disabled("the test plays the engine"):
            assert run_end(run=Run.objects.get(pk=run.pk), status=end, at=moment(self.pool, news_slot))

    def due(self, slot: float) -> list[Award]:
        """The awards whose programs an engine would start now."""
        engine = SimpleNamespace(name="local", timings=SimpleNamespace(lead=0))
        with scope_disabled("the test plays the engine"):
            return list(awards_due(cast("Engine", engine), moment(self.pool, slot)))

    def floors(self, job: TrainingJob) -> list[JobFloor]:
        with scope_disabled("the test looks at a job's places at home"):
            return list(JobFloor.objects.filter(job=job).order_by("pk"))

    def held(self, tenant: Tenant) -> int:
        """Micro-credits that are set aside for what the tenant rents."""
        with scope_disabled("the test looks at the book"):
            return balance(account=held(tenant.pk))

    @property
    def is_proved(self) -> bool:
        with scope_disabled("the test verifies everything"):
            assert intervals_verify(pool_ids=[self.pool.pk]).findings == ()
            assert verify().is_clean
            assert not stuck_awards()
        return True


@pytest.fixture
def world() -> World:
    return pieces_market()


def pieces_market(**fields: Any) -> World:
    settings = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 2.0, "ps": 2.0}, "price_floor": 0.1}
    pool = make_pool(batch_policy=settings, clock_first=8, clock_cap=8, clock_restart=False, **fields)
    owner, guest = make_tenant("owner"), make_tenant("guest")
    for number in (1, 2):
        make_cells(make_server(pool, f"s{number}", worker=1, ps=1), owner, {"worker": 1, "ps": 1})
    for tenant in (owner, guest):
        give(tenant, 1_000)
    return World(pool, owner, guest)


@pytest.mark.wide
def test_a_program_that_ended_before_its_next_piece_pays_nothing_for_it(world: World) -> None:
    job = world.long_job(epochs=8, program={"name": "x"})
    advance(world.pool, 8.5)
    (first,) = world.awards(job)
    run = world.runs(first, epoch=6, of=8)
    advance(world.pool, 16.0)  # the clock passes the end of the piece before the engine has looked
    first, second = world.awards(job)
    assert (second.start, second.state, second.paid > 0) == (16, AwardState.RUNNING, True)
    world.finishes(run, slot=15.99, news_slot=16.05)
    assert world.row(job).state == JobState.FINISHED
    assert world.due(16.1) == []
    first, second = world.awards(job)
    assert (second.state, second.cut_at, second.returned) == (AwardState.VOID, 16, second.paid)
    advance(world.pool, 30.5)
    assert world.held(world.guest) == 0
    assert world.is_proved
    assert [event.data["cause"] for event in _events(job, "award_cut")] == ["not_needed"]
    page = text_of(
        client_as(OWNER, world.guest).get(reverse("job", args=["guest", job.pk]), secure=True).content.decode()
    )
    assert "The job was over before anything ran in this piece" in page
    assert "; given back" in page
    assert "done again" not in page


@pytest.mark.wide
def test_an_end_that_is_heard_of_when_its_next_piece_is_lost_ends_the_job_too(world: World) -> None:
    job = world.long_job(epochs=10, program={"name": "x"})
    advance(world.pool, 8.5)
    run = world.runs(world.awards(job)[0], epoch=7, of=10)
    advance(world.pool, 16.0)
    advance(world.pool, 17.0)  # nothing ran in the first slot of the second piece, so nobody pays for it
    row, (_, second) = world.row(job), world.awards(job)
    assert (row.state, row.attempt, second.state, second.returned) == (JobState.QUEUED, 1, "void", second.paid)
    world.finishes(run, slot=15.99, news_slot=17.1)
    assert world.row(job).state == JobState.FINISHED
    advance(world.pool, 30.5)
    assert len(world.awards(job)) == 2
    assert world.held(world.guest) == 0
    assert world.is_proved


def test_a_program_that_goes_on_loses_no_piece_while_its_last_one_is_still_saving(world: World) -> None:
    job = world.long_job(program={"name": "x"})
    advance(world.pool, 8.5)
    run = world.runs(world.awards(job)[0], epoch=7, of=40)
    advance(world.pool, 16.0)
    assert world.due(16.01) == []
    with scope_disabled("the test plays the engine"):
        Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)
    assert [award.start for award in world.due(16.02)] == [16]


def test_a_guest_trains_five_windows_long(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 8.5)
    first = world.awards(job)[0]
    assert (first.start, first.end, first.work, first.phase) == (8, 16, 7, "shared")  # half a slot is for saving
    assert world.row(job).state == JobState.RUNNING
    advance(world.pool, 15.9)
    assert world.is_proved
    advance(world.pool, 16.1)
    assert [award.state for award in world.awards(job)] == [AwardState.DONE, AwardState.RUNNING]
    advance(world.pool, 80.5)
    awards = world.awards(job)
    assert [award.work for award in awards] == [7, 7, 7, 7, 7, 5]
    assert [award.end - award.start for award in awards] == [8, 8, 8, 8, 8, 5]
    assert {award.attempt for award in awards} == {0}
    assert world.row(job).state == JobState.FINISHED
    saved = [event.data for event in _events(job, "job_saved")]
    assert [(data["left"], data["work"], data["next"]) for data in saved] == [
        *((40 - 7 * done, 40, None) for done in (1, 2, 3, 4, 5))
    ]
    # By its own words it never paid more than what was done was worth.
    paid = sum(award.paid for award in awards)
    assert 0 < paid < awards[-1].value * 1_000_000
    assert [award.value for award in awards] == sorted(award.value for award in awards)
    assert world.held(world.guest) == 0
    assert world.is_proved


def test_a_job_that_got_no_piece_is_not_told_to_wait_for_a_longer_interval(world: World) -> None:
    jobs = [world.long_job() for _ in range(3)]  # for two servers
    order = {"pool": world.pool, "name": "long", "lane": "batch", "at": moment(world.pool, 8.5)}
    dear = {**SPEC, **ONE, "epochs": 40, "value": SLOWLY | {"base": 6.0}, "divisible": True}
    advance(world.pool, 8.5)
    waiting = world.row(jobs[2])
    assert (waiting.state, waiting.reason_code) == (JobState.QUEUED, "no_piece")
    sentence = (
        "No piece of it was bought yet: there was no room for one, or none was worth its price. "
        "As a whole it needs 40 slots, and the longest interval has 8."
    )
    assert reason_sentence(world.pool, waiting.reason_code, waiting.reason_numbers) == sentence
    with scope(world.guest):
        view = interval_view(tenant=world.guest, pool=world.pool, number=1, money=True, jobs=True)
    assert view is not None
    assert {bid.job_id: bid.text for bid in view.bids}[jobs[2].pk] == sentence
    quote = job_quote(**order, spec=dear, by=member(world.guest))
    assert isinstance(quote, Quote)
    assert quote.terms.reason is not None
    assert quote.terms.reason.code == "no_piece"
    assert world.is_proved


def test_a_job_is_accepted_where_pieces_are_sold_and_refused_by_its_field_elsewhere(world: World) -> None:
    long = {**SPEC, **ONE, "epochs": 40, "value": SLOWLY, "divisible": True}
    order = {"pool": world.pool, "name": "long", "spec": long, "lane": "batch", "at": moment(world.pool, 0.5)}
    answer = job_submit(**order, by=member(world.guest))
    assert isinstance(answer, Submitted)
    paper = make_pool(slug="paper", batch_policy={"name": "astraea", "mode": "paper"})
    make_server(paper, "p1", worker=1, ps=1)
    for refusal in (job_submit(**order | {"pool": paper}, by=member(world.guest)),):
        assert isinstance(refusal, InvalidJob)
        assert (refusal.field, "whole jobs" in refusal.sentence) == ("divisible", True)
    array = array_submit(
        pool=world.pool,
        name="many",
        spec=long,
        count=2,
        by=member(world.guest),
        at=moment(world.pool, 0.5),
        together=True,
    )
    assert isinstance(array, InvalidJob)
    assert array.field == "together"


def test_a_lost_server_is_refunded_and_what_was_lost_is_done_again(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    _, second = world.awards(job)
    failed = award_fail(award_id=second.pk, slot=18, detail="power", at=moment(world.pool, 18.5))
    assert isinstance(failed, AwardFailed)
    row = world.row(job)
    assert (row.state, row.attempt, row.worth, row.reason_code) == (JobState.QUEUED, 1, None, "engine_error")
    assert world.is_proved
    advance(world.pool, 90.5)
    awards = world.awards(job)
    assert [(award.work, award.state) for award in awards[:3]] == [(7, "done"), (7, "void"), (7, "done")]
    assert sum(award.work or 0 for award in awards if award.state == "done") == 40
    second = awards[1]
    assert second.returned == second.paid * 6 // 8
    assert world.row(job).state == JobState.FINISHED
    assert world.is_proved


def test_a_piece_and_the_rest_at_home_in_one_window_are_two_awards(world: World) -> None:
    job = world.job_of_two_awards()
    advance(world.pool, 8.5)
    awards = world.awards(job)
    assert [(award.phase, award.start, award.end, award.work) for award in awards] == [
        ("shared", 8, 12, 3),
        ("own", 12, 21, 9),
    ]
    advance(world.pool, 12.5)
    assert world.row(job).state == JobState.RUNNING
    assert [event.data["next"] for event in _events(job, "job_saved")] == [12]
    assert world.is_proved
    advance(world.pool, 30.5)
    assert world.row(job).state == JobState.FINISHED
    assert world.is_proved
    with scope_disabled("the test looks at its plan"):
        floor = JobFloor.objects.get(job=job)
    assert (floor.start, floor.end) == (12, 24)  # three slots sooner than alone


def test_taking_back_a_job_with_two_awards_frees_both(world: World) -> None:
    job = world.job_of_two_awards()
    advance(world.pool, 9.5)
    cancelled = job_cancel(job_id=job.pk, by=member(world.owner), at=moment(world.pool, 9.5))
    assert isinstance(cancelled, TrainingJob)
    running, planned = world.awards(job)
    assert (running.cut_at, planned.cut_at, planned.state) == (10, 12, AwardState.ENDED)
    assert world.is_proved
    advance(world.pool, 30.5)
    assert world.row(job).state == JobState.CANCELLED
    assert world.held(world.owner) == 0
    assert world.is_proved


@pytest.mark.wide
def test_a_server_that_is_lost_under_one_of_two_awards_takes_both(world: World) -> None:
    job = world.job_of_two_awards()
    advance(world.pool, 9.5)
    running, planned = world.awards(job)
    assert isinstance(award_fail(award_id=running.pk, slot=9, detail="power", at=moment(world.pool, 9.5)), AwardFailed)
    running, planned = world.awards(job)
    assert (running.state, running.cut_at, planned.state, planned.cut_at) == ("void", 9, "void", 12)
    row = world.row(job)
    assert (row.state, row.attempt) == (JobState.QUEUED, 1)
    assert world.is_proved
    advance(world.pool, 60.5)
    assert world.row(job).state == JobState.FINISHED
    assert world.is_proved


@pytest.mark.wide
def test_a_piece_that_a_late_clock_has_still_to_settle_counts_though_what_follows_it_failed(world: World) -> None:
    job = world.job_of_two_awards()
    advance(world.pool, 9.5)
    _, planned = world.awards(job)
    late = moment(world.pool, 12.5)  # the engine goes by the time, the market's clock stands at slot 9
    assert isinstance(award_fail(award_id=planned.pk, slot=12, detail="power", at=late), AwardFailed)
    running, planned = world.awards(job)
    assert (running.state, running.cut_at, planned.state, planned.cut_at) == ("running", None, "void", 12)
    row = world.row(job)
    assert (row.state, row.attempt, row.not_before) == (JobState.QUEUED, 1, 12)
    assert world.is_proved
    advance(world.pool, 12.6)
    assert world.awards(job)[0].state == AwardState.DONE
    assert world.row(job).state == JobState.QUEUED
    advance(world.pool, 60.5)
    awards = world.awards(job)
    assert sum(award.work or 0 for award in awards if award.state == AwardState.DONE) == 12  # and no part twice
    assert world.row(job).state == JobState.FINISHED
    assert world.held(world.owner) == 0
    assert world.is_proved


@pytest.mark.wide
def test_a_place_at_home_that_replaced_a_lost_one_is_kept(world: World) -> None:
    other = make_server(world.pool, "g1", worker=1, ps=1)
    make_cells(other, world.guest, {"worker": 1, "ps": 1})
    for epochs in (24, 28):  # its cells at home are taken until slots 32 and 36
        make_waiting(world.pool, world.owner, epochs=epochs, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    job = world.long_job(world.owner, value={"kind": "linear", "slope": -1.0, "base": 200.0})
    advance(world.pool, 9.5)
    (first,) = world.floors(job)
    with scope_disabled("the test loses a server"):
        server = Server.objects.get(pk=first.allocation[0][0])
    assert world.awards(job)[0].allocation[0][0] != server.pk  # its piece runs elsewhere
    server_lose(server=server, by=access_of_system("the test"), reason="power", at=moment(world.pool, 9.6))
    for slot in range(10, 56):
        advance(world.pool, slot + 0.1)
    assert [floor.attempt for floor in world.floors(job)] == [0, 0]
    assert world.row(job).attempt == 0
    assert _events(job, "job_requeued") == []
    assert world.is_proved


@pytest.mark.wide
def test_a_program_that_lags_when_its_place_at_home_has_passed_is_told_so(world: World) -> None:
    make_cells(make_server(world.pool, "g1", worker=1, ps=1), world.guest, {"worker": 1, "ps": 1})
    for _ in range(2):
        make_waiting(world.pool, world.owner, epochs=4, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    steep = {"kind": "linear", "slope": -10.0, "base": 300.0}
    job = world.long_job(world.owner, epochs=6, value=steep, program={"name": "x"})
    advance(world.pool, 8.5)
    (whole,), (floor,) = world.awards(job), world.floors(job)
    assert (whole.phase, whole.start, whole.end, floor.start) == ("shared", 8, 14, 12)
    world.runs(whole, RunState.STOPPED, epoch=3, of=6)
    for slot in range(9, 17):
        advance(world.pool, slot + 0.1)
    assert [event.data["reason"] for event in _events(job, "job_requeued")] == ["behind_plan"]
    advance(world.pool, 30.1)
    assert world.is_proved


@pytest.mark.wide
def test_pieces_that_are_rented_under_a_draft_stay_held_until_alone_is_known(world: World) -> None:
    job = job_under_a_draft(world)
    advance(world.pool, 25.5)
    awards = world.awards(job)
    assert [(award.phase, award.rent, award.work) for award in awards] == [("shared", "open", 7)] * 3
    assert world.held(world.owner) == sum(award.paid for award in awards)
    assert world.is_proved
    advance(world.pool, 60.5)
    awards = world.awards(job)
    assert [award.rent for award in awards[:3]] == ["closed"] * 3
    assert sum(award.work or 0 for award in awards) == 30
    assert world.row(job).state == JobState.FINISHED
    assert world.held(world.owner) == 0
    assert world.is_proved


@pytest.mark.wide
def test_a_job_that_was_done_before_a_rented_piece_began_pays_what_the_rule_keeps_and_all_is_proved() -> None:
    """The last word of a program comes after the boundary at which its job got another piece."""
    world = pieces_market(cancellation_keep_percent=50)
    job = job_under_a_draft(world)
    advance(world.pool, 15.5)
    make_waiting(world.pool, world.guest, 15.2, epochs=2, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    advance(world.pool, 16.3)
    *_, done, planned = world.awards(job)
    assert (done.state, planned.state, planned.rent) == ("done", "booked", "open")
    assert planned.start > 16
    with scope_disabled("its program was done at the last moment"):
        at = moment(world.pool, 16.4)
        assert job_end_early(award_id=done.pk, state=JobState.FINISHED, code="", numbers={}, at=at)
    *before, given_up = world.awards(job)
    assert (given_up.state, given_up.rent, given_up.adjusted) == ("ended", "closed", 0)
    assert 0 < given_up.returned < given_up.paid
    assert {award.rent for award in before} == {"open"}
    assert world.held(world.owner) == sum(award.paid for award in before)
    assert world.is_proved
    advance(world.pool, 60.5)
    assert {award.rent for award in world.awards(job)} == {"closed"}
    assert world.held(world.owner) == 0
    assert world.is_proved


def job_under_a_draft(world: World) -> TrainingJob:
    """A job of the owner that rents piece after piece from the guest, while its place at home is a draft."""
    with scope(world.owner):
        TenantPolicy.objects.create(pool=world.pool, plan=AlonePlan.RENEW)
    make_cells(make_server(world.pool, "g1", worker=1, ps=1), world.guest, {"worker": 1, "ps": 1})
    for _ in range(2):
        make_waiting(world.pool, world.owner, epochs=30, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    return world.long_job(world.owner, epochs=30, value={"kind": "linear", "slope": -2.0, "base": 200.0})


def two_pieces(**more: int) -> tuple[Pool, Tenant, Award, Award]:
    """Lumen's job was done in its first piece, of two slots at twenty micro-credits each; half of what the second one
    was to pay stays with its owner, Castor. Another award of Lumen's may hold more."""
    pool = live.make_live_pool(cancellation_keep_percent=50)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, worker=4, ps=1)
    make_cells(server, castor, {"worker": 4, "ps": 1})
    live.fund(lumen)
    spec = {**live.SPEC, "epochs": 20, "divisible": True}
    piece: dict[str, Any] = {"charges": [[(castor, 20)]] * 2, "work": 8, "rent": RentState.OPEN}
    one = live.make_award(pool, lumen, allocation=[[server.pk, 0, 2, 4, 1]], spec=spec, **piece)
    live.enter(one)
    live.settle(pool, 0, 1)
    terms = {"workers": 4, "ps": 1, "phase": "shared", "lane": "batch", "paid": 40, "awarded_at": live.moment(2)}
    with scope(lumen):
        two = Award.objects.create(
            **(terms | piece | {"charges": [[[castor.pk, 20]]] * 2, "value": 150.0}),
            **{"tenant": lumen, "job": one.job, "pool": pool, "start": 4, "end": 6},
            allocation=[[server.pk, 4, 6, 4, 1]],
        )
        about = {"subject": f"job:{one.job_id}", "facts": {"award": two.pk}}
        hold(key=f"award:{two.pk}", tenant_id=lumen.pk, amount=40, at=live.moment(2), **about)
        TrainingJob.objects.filter(pk=one.job_id).update(state=JobState.AWARDED)
    live.enter(two)
    for start, amount in enumerate(more.values(), 20):
        live.make_award(pool, lumen, start=start, slots=1, charges=[[(castor, amount)]])
    with scope_disabled("its program was done at the last moment"):
        assert job_end_early(award_id=one.pk, state=JobState.FINISHED, code="", numbers={}, at=live.moment(2.3))
    return pool, lumen, live.again(one), live.again(two)


@pytest.mark.parametrize("more", [{}, {"another": 1_000}])
def test_nothing_comes_back_twice_of_a_rented_piece_that_was_given_up_before_its_start(more: dict[str, int]) -> None:
    pool, lumen, one, two = two_pieces(**more)
    assert (two.state, two.rent, two.returned, two.adjusted) == ("ended", "closed", 20, 0)
    live.settle(pool, 2, 3)
    with scope_disabled("an interval settles the rent"):
        rents = rents_open(pool, 4)
        assert {number: [award.pk for award in awards] for number, awards in rents.items()} == {one.job_id: [one.pk]}
        assert values_given_up(rents) == {one.job_id: 150.0}  # the job was done earlier than that, so not worth less
        (part,) = refunds_of(30e-6, [award.paid - award.returned for award in rents[one.job_id]])
        postings, _ = rents_close(pool, [Closing(rents[one.job_id][0], part)], 3, live.moment(4))
        assert isinstance(post_many(postings=postings), tuple)
        assert stuck_awards() == []
    assert live.money(lumen)[1] == sum(more.values())
    assert live.book_is_sound()


def test_a_rent_that_an_older_version_left_open_is_closed_with_the_next_slot_and_has_no_refund() -> None:
    pool, _, one, two = two_pieces()
    with scope_disabled("as it was left"):
        Award.objects.filter(pk=two.pk).update(rent=RentState.OPEN)
        assert [award.pk for award in rents_open(pool, 4)[one.job_id]] == [one.pk]
        live.settle(pool, 2)
        assert (live.again(two).rent, live.again(two).adjusted) == ("closed", 0)
        assert stuck_awards() == []


def test_a_refund_of_more_than_is_held_for_a_rent_is_refused_aloud() -> None:
    pool, _, one, two = two_pieces(another=1_000)
    with scope_disabled("a plan is wrong"):
        for award in (one, two):
            rent = Award.objects.select_related("job").get(pk=award.pk)
            with pytest.raises(RefundTooLarge, match=f"of award {award.pk}"):
                rents_close(pool, [Closing(rent, 41)], 3, live.moment(4))


def test_the_page_of_a_job_tells_its_story_in_pieces(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    award_fail(award_id=world.awards(job)[1].pk, slot=18, detail="power", at=moment(world.pool, 18.5))
    advance(world.pool, 26.5)
    client = client_as(OWNER, world.guest)
    addresses = reverse("job", args=["guest", job.pk]), reverse("tenant_jobs", args=["guest"])
    page, rows = [text_of(client.get(address, secure=True).content.decode()) for address in addresses]
    first, lost, running = world.awards(job)
    paid = sum(award.paid - award.returned for award in (first, lost, running))
    assert "35.0&nbsp;% of its work is done or booked, in 3 parts" in page
    assert "lost, done again" in page
    assert f"interval {world.interval_of(first)}, rented from the pool" in page  # that decided the first piece
    assert world.interval_of(first) != world.interval_of(running)
    assert "None of your own cells has a place for it, so nobody promises that it ends" in page
    assert "its pieces never cost more than what they were bought to do is worth by what the job says" in page
    assert shown(paid) in page
    assert shown(paid) in rows


def test_a_quote_tells_the_first_piece_and_a_likely_course(world: World) -> None:
    long = {**SPEC, **ONE, "epochs": 40, "value": SLOWLY, "divisible": True, "save_slots": 0.5}
    order = {"pool": world.pool, "name": "long", "spec": long, "lane": "batch", "at": moment(world.pool, 0.5)}
    quote = job_quote(**order, by=member(world.guest))
    assert isinstance(quote, Quote)
    assert quote.terms.course is not None
    assert (quote.terms.start, quote.terms.end, quote.terms.course.share) == (8, 16, 7 / 40)
    assert (quote.terms.course.pieces, quote.terms.course.end) == (6, 8 + 6 * 8)
    assert quote.terms.course.price == pytest.approx(quote.terms.price * 40 / 7, abs=1)
    whole = job_quote(**order | {"spec": long | {"epochs": 6}}, by=member(world.guest))
    assert isinstance(whole, Quote)
    assert whole.terms.course is None


@pytest.mark.parametrize(
    ("progress", "epochs"),
    [
        ({"epoch": 3, "epochs": 8}, (3.0, 8.0)),
        ({"epoch": 9, "epochs": 8}, (8.0, 8.0)),
        ({"epoch": "three", "epochs": 8}, (0.0, 8.0)),
        ({"epoch": 3, "epochs": "eight"}, None),
        ({"epoch": 3, "epochs": 10**400}, None),
        ({"epoch": float("nan"), "epochs": 8}, (0.0, 8.0)),
        ({"epochs": True}, None),
        ({"epochs": None}, None),
        (["epochs"], None),
    ],
)
def test_what_a_stranger_reports_never_stops_a_market(progress: object, epochs: object) -> None:
    assert epochs_reported(progress) == epochs


def _events(job: TrainingJob, kind: str) -> list[Event]:
    with scope_disabled("the test looks at a job's story"):
        return list(Event.objects.filter(subject=f"job:{job.pk}", kind=kind).order_by("pk"))
