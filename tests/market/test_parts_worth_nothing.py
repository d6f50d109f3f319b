"""A live pool in which parts of a job are worth nothing before it is done: who pays when, who has all back (D16)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from pytest_django.fixtures import Settings

from scheduling.app.retention import retention_apply, retention_preview
from scheduling.audit.verification import intervals_verify
from scheduling.core.records import view_from
from scheduling.jobs.cancellation import job_cancel
from scheduling.market.reads import contents_of
from scheduling.market.settle.stuck import stuck_awards
from scheduling.models import AlonePlan, Award, Event, Interval, JobState, Pool, TenantPolicy, TrainingJob
from scheduling.runs.early_ends import job_end_early
from scheduling.runs.failures import MOST_LOSSES, AwardFailed, award_fail
from tenants.ledger.amounts import MICRO
from tenants.ledger.audit import verify
from tenants.ledger.postings import available, earned, held
from tenants.ledger.selectors import balance
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import member
from tests.scheduling.markets import give, make_waiting
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db

ONE = {"chunks": 1, "max_workers": 1, "minibatches": 1, "minibatch_seconds": 10.0}  # one worker does one in a slot
SLOWLY = {"kind": "linear", "slope": -0.1, "base": 100.0}
SOON = {"kind": "deadline", "base": 100.0, "deadline": 60.0}
GRANT = 1_000


@dataclass(frozen=True)
class World:
    """Windows of eight slots, an owner with two servers of one worker, and a guest without cells."""

    pool: Pool
    owner: Tenant
    guest: Tenant

    def long_job(self, tenant: Tenant | None = None, **fields: Any) -> TrainingJob:
        """Forty slots on one worker, in pieces of seven, a save of half a slot and half a slot that is left over."""
        settings = {"epochs": 40, "value": SLOWLY, "divisible": True, "save_slots": 0.5} | ONE | fields
        return make_waiting(self.pool, tenant or self.guest, **settings)

    def needs_its_cells(self, arrival: float) -> None:
        """The owner has jobs for both of its workers, for longer than anybody waits."""
        settings = {"epochs": 200, "rent": "never", "value": {**SLOWLY, "base": 900.0}} | ONE
        for _ in range(2):
            make_waiting(self.pool, self.owner, arrival, **settings)

    def awards(self, job: TrainingJob) -> list[Award]:
        with scope_disabled("the test looks at what a job got"):
            return list(Award.objects.filter(job=job).order_by("pk"))

    def rents(self, job: TrainingJob) -> list[tuple[str, bool, bool]]:
        """Of each award: its rent, whether anything came back, and whether everything did."""
        awards = self.awards(job)
        return [(award.rent, award.adjusted > 0, award.returned == award.paid) for award in awards]

    def row(self, job: TrainingJob) -> TrainingJob:
        with scope_disabled("the test looks at a job"):
            return TrainingJob.objects.get(pk=job.pk)

    def credits(self) -> tuple[int, int, int]:
        """Micro-credits: what the guest may spend, what is held of it, and what the owner earned."""
        with scope_disabled("the test looks at the book"):
            accounts = available(self.guest.pk), held(self.guest.pk), earned(self.owner.pk)
            free, on_hold, income = (balance(account=account) for account in accounts)
        return free, on_hold, income

    def adjusted(self, job: TrainingJob) -> list[Event]:
        with scope_disabled("the test looks at a job's story"):
            return list(Event.objects.filter(subject=f"job:{job.pk}", kind="award_adjusted").order_by("pk"))

    @property
    def is_proved(self) -> bool:
        with scope_disabled("the test verifies everything"):
            assert intervals_verify(pool_ids=[self.pool.pk]).findings == ()
            assert verify().is_clean
            assert not stuck_awards()
        return True


@pytest.fixture
def world() -> World:
    return world_of(clock_restart=False)


def world_of(*, clock_restart: bool) -> World:
    settings = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 2.0, "ps": 2.0}, "price_floor": 0.1}
    pool = make_pool(
        batch_policy=settings | {"parts": "nothing"}, clock_first=8, clock_cap=8, clock_restart=clock_restart
    )
    owner, guest = make_tenant("owner"), make_tenant("guest")
    for number in (1, 2):
        make_cells(make_server(pool, f"s{number}", worker=1, ps=1), owner, {"worker": 1, "ps": 1})
    give(guest, GRANT)
    return World(pool, owner, guest)


def test_nobody_is_paid_before_the_job_is_done_and_then_everybody_is(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    paid = sum(award.paid for award in world.awards(job))
    assert world.rents(job) == [("open", False, False)] * 2
    assert world.credits() == (GRANT * MICRO - paid, paid, 0)
    assert world.is_proved
    advance(world.pool, 53.5)
    assert world.row(job).state == JobState.FINISHED
    assert world.rents(job) == [("open", False, False)] * 6
    assert world.is_proved
    advance(world.pool, 56.5)  # the boundary that follows
    paid = sum(award.paid for award in world.awards(job))
    assert world.rents(job) == [("closed", False, False)] * 6
    assert world.credits() == (GRANT * MICRO - paid, 0, paid)
    assert 0 < paid < world.awards(job)[-1].value * MICRO
    assert world.adjusted(job) == []
    assert world.is_proved


def test_who_expires_has_everything_back_and_the_owner_has_nothing(world: World) -> None:
    job = world.long_job(value=SOON)
    world.needs_its_cells(arrival=9.0)
    advance(world.pool, 31.5)
    assert (world.row(job).state, len(world.awards(job))) == (JobState.QUEUED, 1)
    assert world.rents(job) == [("open", False, False)]
    assert world.is_proved
    advance(world.pool, 32.5)  # 33 slots are left, and the 60th is too near
    row = world.row(job)
    assert (row.state, row.worth) == (JobState.EXPIRED, None)
    assert world.rents(job) == [("closed", True, True)]
    assert world.credits() == (GRANT * MICRO, 0, 0)
    [event] = world.adjusted(job)
    assert (event.data["cause"], event.data["refunded"]) == ("not_done", world.awards(job)[0].paid)
    assert world.is_proved
    page = text_of(_get(world, "job", world.guest.slug, job.pk))
    assert "everything that it had paid came back" in page
    assert "The job was never done, and its parts are worth nothing" in page


def test_who_takes_its_job_back_pays_for_all_that_was_delivered(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    assert isinstance(job_cancel(job_id=job.pk, by=member(world.guest), at=moment(world.pool, 18.5)), TrainingJob)
    assert world.is_proved
    advance(world.pool, 24.5)
    paid = sum(award.paid for award in world.awards(job))
    assert world.rents(job) == [("closed", False, False)] * 2
    assert world.credits() == (GRANT * MICRO - paid, 0, paid)
    assert world.is_proved


def test_who_takes_its_job_back_between_two_pieces_has_nothing_back_either(world: World) -> None:
    job = world.long_job()
    world.needs_its_cells(arrival=9.0)
    advance(world.pool, 18.5)
    [piece] = world.awards(job)
    assert isinstance(job_cancel(job_id=job.pk, by=member(world.guest), at=moment(world.pool, 18.5)), TrainingJob)
    advance(world.pool, 20.5)
    assert world.rents(job) == [("closed", False, False)]
    assert world.credits() == (GRANT * MICRO - piece.paid, 0, piece.paid)
    assert world.is_proved


def test_a_program_that_fails_by_itself_has_nothing_back(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    at, piece = moment(world.pool, 18.5), world.awards(job)[1]
    with scope_disabled("an engine tells of it"):
        failed = job_end_early(award_id=piece.pk, state=JobState.FAILED, code="program_failed", numbers={}, at=at)
    assert failed is not None
    advance(world.pool, 24.5)
    paid = sum(award.paid for award in world.awards(job))
    assert world.rents(job) == [("closed", False, False)] * 2
    assert world.credits() == (GRANT * MICRO - paid, 0, paid)
    assert world.is_proved


def fail(world: World, award: Award, slot: int, losses: int = 0) -> None:
    at = moment(world.pool, slot + 0.5)
    failed = award_fail(award_id=award.pk, slot=slot, detail="power", at=at, losses=losses)
    assert isinstance(failed, AwardFailed)


@pytest.mark.wide
def test_a_lost_piece_is_paid_as_far_as_it_came_and_those_before_it_wait_on(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    fail(world, world.awards(job)[1], 18)
    advance(world.pool, 19.5)
    first, lost = world.awards(job)
    assert (first.rent, lost.rent, lost.returned) == ("open", "closed", lost.paid * 6 // 8)
    assert world.credits()[1:] == (first.paid, lost.paid - lost.returned)
    assert world.is_proved
    advance(world.pool, 88.5)
    assert world.row(job).state == JobState.FINISHED
    assert {(rent, back) for rent, back, _ in world.rents(job)} == {("closed", False)}
    paid = sum(award.paid - award.returned for award in world.awards(job))
    assert world.credits() == (GRANT * MICRO - paid, 0, paid)
    assert world.is_proved


@pytest.mark.wide
def test_whose_job_expires_after_a_loss_has_all_back_but_for_what_the_lost_piece_delivered(world: World) -> None:
    job = world.long_job(value={**SOON, "deadline": 66.0})
    advance(world.pool, 17.5)
    world.needs_its_cells(arrival=17.0)
    fail(world, world.awards(job)[1], 18)
    advance(world.pool, 56.5)
    assert world.row(job).state == JobState.EXPIRED
    first, lost = world.awards(job)
    assert (first.returned, first.adjusted) == (first.paid, first.paid)
    assert (lost.adjusted, lost.returned) == (0, lost.paid * 6 // 8)
    owed = lost.paid - lost.returned
    assert world.credits() == (GRANT * MICRO - owed, 0, owed)
    assert world.is_proved


def test_a_job_that_rests_after_losses_is_not_taken_for_one_that_is_done(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    fail(world, world.awards(job)[1], 18, losses=MOST_LOSSES - 1)  # it rests for eight slots, over the next boundary
    advance(world.pool, 25.5)
    row = world.row(job)
    assert (row.state, row.not_before) == (JobState.QUEUED, 26)
    assert [rent for rent, _, _ in world.rents(job)] == ["open", "closed"]
    assert world.is_proved
    advance(world.pool, 33.5)
    assert [rent for rent, _, _ in world.rents(job)] == ["open", "closed", "open"]
    assert world.is_proved


def test_whom_the_platform_gives_up_has_everything_back_that_was_not_lost(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    fail(world, world.awards(job)[1], 18, losses=MOST_LOSSES)
    assert world.row(job).state == JobState.FAILED
    assert world.is_proved
    advance(world.pool, 24.5)
    first, lost = world.awards(job)
    assert (first.rent, first.adjusted) == ("closed", first.paid)
    owed = lost.paid - lost.returned
    assert world.credits() == (GRANT * MICRO - owed, 0, owed)
    with scope_disabled("the test looks at what was decided"):
        stored = Interval.objects.filter(pool=world.pool).order_by("-number")[0]
        assert view_from(contents_of(stored).view).undone == {job.pk}
    assert world.is_proved


@pytest.mark.wide
def test_an_owner_with_a_draft_is_settled_when_it_starts_alone(world: World) -> None:
    """As ever, and its home makes the end sure: what was provisional is due though the job has not ended."""
    with scope(world.owner):
        TenantPolicy.objects.create(pool=world.pool, plan=AlonePlan.RENEW)
    make_cells(make_server(world.pool, "g1", worker=1, ps=1), world.guest, {"worker": 1, "ps": 1})
    give(world.owner, GRANT)
    for _ in range(2):
        make_waiting(world.pool, world.owner, epochs=30, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    job = world.long_job(world.owner, epochs=40, value={"kind": "linear", "slope": -2.0, "base": 200.0})
    advance(world.pool, 25.5)
    assert [rent for rent, _, _ in world.rents(job)] == ["open"] * 3
    assert world.is_proved
    advance(world.pool, 40.5)
    assert {rent for rent, _, _ in world.rents(job)[:3]} == {"closed"}
    advance(world.pool, 70.5)
    assert world.row(job).state == JobState.FINISHED
    assert world.is_proved


def test_a_place_that_is_kept_at_home_makes_payments_final_slot_by_slot(world: World) -> None:
    make_cells(make_server(world.pool, "g1", worker=1, ps=1), world.guest, {"worker": 1, "ps": 1})
    give(world.owner, GRANT)
    for _ in range(2):
        make_waiting(world.pool, world.owner, epochs=30, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    job = world.long_job(world.owner, epochs=30, value={"kind": "linear", "slope": -2.0, "base": 200.0})
    advance(world.pool, 12.5)
    assert [award.rent for award in world.awards(job)] == [""]
    assert world.is_proved


@pytest.mark.wide
def test_while_the_market_is_held_over_the_boundary_a_payment_waits_and_comes_afterwards() -> None:
    """Also where nothing else waits, and the clock begins anew with each arrival."""
    world = world_of(clock_restart=True)
    job = world.long_job(epochs=5)
    advance(world.pool, 12.5)
    [award] = world.awards(job)
    assert award.rent == "open"
    _hold(world.pool, held=True)
    advance(world.pool, award.end + 9.5)
    assert world.rents(job) == [("open", False, False)]
    _hold(world.pool, held=False)
    advance(world.pool, award.end + 30.5)
    assert world.rents(job) == [("closed", False, False)]
    assert world.credits()[1:] == (0, award.paid)
    assert world.is_proved


def _hold(pool: Pool, *, held: bool) -> None:
    pool.clocks.filter(lane="batch").update(held=held)


# -- what is saved, and what pages say ---------------------------------------------------------------------------------


@pytest.fixture
def _own_folder(settings: Settings, tmp_path: Path) -> None:
    settings.RUNS_DIR = tmp_path / "runs"


@pytest.mark.usefixtures("_own_folder")
@pytest.mark.django_db(transaction=True)
def test_what_is_saved_of_a_job_that_expired_is_deleted_and_its_log_stays(world: World, settings: Settings) -> None:
    expired, waiting = world.long_job(value=SOON), world.long_job(value={**SLOWLY, "base": 90.0})
    world.needs_its_cells(arrival=9.0)
    for job in (expired, waiting):
        for place in ("work", "1"):
            (settings.RUNS_DIR / f"job-{job.pk}" / place).mkdir(parents=True)
            (settings.RUNS_DIR / f"job-{job.pk}" / place / "file").write_text("kept")
    advance(world.pool, 31.5)
    assert "worthless_states" not in retention_preview(at=moment(world.pool, 31.5))
    advance(world.pool, 32.5)
    assert world.row(expired).state == JobState.EXPIRED
    at = moment(world.pool, 33.0)
    assert retention_preview(at=at)["worthless_states"] == 1
    applied = retention_apply(clock=lambda: at)
    assert applied is not None
    assert applied["worthless_states"] == 1
    files = {str(file.relative_to(settings.RUNS_DIR)) for file in settings.RUNS_DIR.rglob("file")}
    assert files == {f"job-{expired.pk}/1/file", f"job-{waiting.pk}/work/file", f"job-{waiting.pk}/1/file"}
    assert "worthless_states" not in (retention_apply(clock=lambda: at) or {})


def test_a_quote_says_when_parts_are_paid(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at = moment(world.pool, 0.5)
    monkeypatch.setattr("django.utils.timezone.now", lambda: at)
    by = (at + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%S")
    fields = {
        "key": "b" * 32,
        "pool": world.pool.slug,
        "source": "hours",
        "name": "long",
        "wanted": "batch",
        "runs": "",
    }
    fields |= {"gpus": "1", "hours": "0.1", "scaling": "good", "by": by, "by_worth": "100", "later": "half"}
    client, address = client_as(OWNER, world.guest), reverse("job_quote", args=[world.guest.slug])
    text = text_of(client.post(address, fields | {"divisible": "yes"}, secure=True).content.decode())
    assert "That is its first piece" in text
    assert "they are paid when it ends" in text
    assert "they are paid when it ends" not in text_of(client.post(address, fields, secure=True).content.decode())


def test_the_page_of_a_job_says_when_its_parts_are_paid(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    assert "paid when it is done" in text_of(_get(world, "job", world.guest.slug, job.pk))


def test_the_owner_s_page_says_what_its_provisional_income_waits_for(world: World) -> None:
    world.long_job()
    advance(world.pool, 18.5)
    share = client_as(OWNER, world.owner).get(reverse("tenant_share", args=[world.owner.slug]), secure=True)
    assert "Others pay for the parts of a job only once it is done" in text_of(share.content.decode())


def _get(world: World, name: str, *place: object) -> str:
    return client_as(OWNER, world.guest).get(reverse(name, args=place), secure=True).content.decode()
