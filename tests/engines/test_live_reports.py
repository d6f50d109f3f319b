"""Running programs of an elastic pool report: who has less to go is given less, a job ends where its loss has stopped
falling, and a false report gains nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.db import transaction
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.core import records
from scheduling.core.estimates.live import LossTarget, converged_after
from scheduling.engines.base import ENDED
from scheduling.engines.launcher.files import Folder
from scheduling.engines.local.engine import LocalEngine
from scheduling.jobs.read_outlook import OutlookRecord, job_outlook
from scheduling.market.reads import contents_of
from scheduling.models import Interval, JobReport, JobState, Pool, Run, RunState, TrainingJob
from scheduling.reasons import reason_sentence
from scheduling.runs.reports import reports_hear
from scheduling.runs.runs import handle_of, runs_tick
from tenants.scoping import scope, scope_disabled
from tests.catalogue.builders import allow, register
from tests.catalogue.builders import member as brings
from tests.database import as_superuser
from tests.engines.local import ALL, SMALL, engine_in, look, nobody_is_left, until
from tests.engines.market import PARAMETERS
from tests.engines.test_elastic_runs import RecordingEngine
from tests.patience import PATIENCE
from tests.scheduling.clocks import moment
from tests.scheduling.elastic_world import all_is_sound, make_elastic, make_elastic_job, slots_of
from tests.scheduling.live import again, events, money
from tests.scheduling.markets import MICRO, make_waiting
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db

PROGRAM = {"name": "trainer", "parameters": PARAMETERS | {"minibatch_ms": 20.0}}
OPTIMUS = {"name": "optimus", "restart": 0.0}
UNTIL = {"threshold": 0.003, "patience": 3}
MOST = 100
EPOCHS_IN_A_SLOT = 12


def falling(epochs: int) -> list[float]:
    """Converges after epoch 27 by `UNTIL`."""
    return (1.0 / (0.3 * np.arange(1, epochs + 1) + 1.0) + 0.1).tolist()


FLAT = converged_after(falling(MOST), LossTarget(0.003, MOST))
assert FLAT is not None


@dataclass(frozen=True)
class Lived:
    """Units in each slot, and micro-credits for all of them."""

    units: tuple[int, ...]
    paid: int


class World:
    """Two jobs of a renter with the same work, whose gangs only remember what they are told; the first may report."""

    def __init__(self, folder: Path, policy: dict[str, Any] = OPTIMUS, until: dict[str, Any] | None = UNTIL) -> None:
        self.folder = folder
        self.pool, self.owner, self.renter = make_elastic(policy)
        spec = {"slots": 1, "epochs": MOST, "program": PROGRAM, "chunks": 8, "max_workers": 8}
        self.job = make_elastic_job(self.pool, self.renter, **spec | {"until_converged": until})
        self.other = make_elastic_job(self.pool, self.renter, 0.0, **spec)
        self.engine = RecordingEngine()

    def tick(self, slot: float, *, clock: bool = True) -> None:
        at = moment(self.pool, slot)
        if clock:
            pool_advance(pool_id=self.pool.pk, at=at)
        runs_tick(engine=self.engine, at=at)

    def report(self, losses: Sequence[float], seconds: float | None = None) -> None:
        """The first job's program says these losses of epochs 1, 2, ..."""
        run = self.run()
        place = Folder(self.folder, f"job-{self.job.pk}", run.key)
        place.make()
        members = {"workers": run.award.workers, "servers": run.award.ps, "seconds": seconds}
        rows = [{"event": "epoch", "epoch": k, "loss": loss, **members} for k, loss in enumerate(losses, 1)]
        place.progress.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.engine.progress = {"epoch": len(losses), "epochs": MOST, "said": len(losses)}

    def run(self) -> Run:
        with scope_disabled("the test looks at a run"):
            return Run.objects.select_related("award").filter(job=self.job).latest("pk")

    def report_row(self) -> JobReport:
        with scope_disabled("the test looks at what was heard"):
            return JobReport.objects.get(job=self.job)

    def units(self, slot: int, job: TrainingJob | None = None) -> int:
        return sum(each.workers + each.ps for each in slots_of(job or self.job) if each.start == slot)

    def lives(self, losses: Sequence[float], slots: int = 3) -> Lived:
        """It does so many epochs in each slot; their losses are these."""
        for slot in range(slots):
            self.tick(slot)
            self.report(losses[: EPOCHS_IN_A_SLOT * (slot + 1)])
            self.tick(slot + 0.5, clock=False)
        awards = slots_of(self.job)
        units = tuple(self.units(slot) for slot in range(slots))
        return Lived(units, sum(award.paid for award in awards))


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.RUNS_DIR = tmp_path
    return tmp_path


def test_a_job_whose_loss_flattens_is_given_fewer_units_and_ends_where_it_has_converged(folder: Path) -> None:
    world = World(folder)
    world.tick(0)
    world.report(falling(20))
    world.tick(0.5, clock=False)
    assert world.report_row().source == "fitted"
    assert world.report_row().epochs_left == pytest.approx(FLAT - 20, abs=1)
    world.tick(1)
    assert world.units(1) < world.units(0)
    assert world.units(1, world.other) >= world.units(0, world.other)
    world.report(falling(40))  # it trained on before anybody looked
    world.tick(1.5, clock=False)
    job = again(world.job)
    numbers = {"epoch": FLAT, "epochs": MOST}
    assert (job.state, job.reason_code, job.reason_numbers) == (JobState.FINISHED, "converged", numbers)
    assert reason_sentence(world.pool, job.reason_code, numbers) == (
        f"Converged at epoch {FLAT} of at most {MOST}; paid for what was used."
    )
    assert world.engine.stopped == {world.run().key}
    [row] = [event for event in events("job_finished") if event.subject == f"job:{job.pk}"]
    assert (row.data["reason"], row.data["numbers"]) == ("converged", numbers)
    for slot in range(2, 5):
        world.tick(slot)
    assert [award.start for award in slots_of(world.job)] == [0, 1]
    paid = sum(award.paid for award in slots_of(world.job))
    assert paid > 0
    assert money(world.renter)[0] == 1_000 * MICRO - paid - sum(award.paid for award in slots_of(world.other))
    all_is_sound(world.pool)
    with scope_disabled("the test verifies the jobs' rows"):
        assert jobs_verify(world.pool, list(TrainingJob.objects.order_by("pk"))) == []


def test_the_intervals_stored_view_is_what_was_believed_and_says_the_same_plan_again(folder: Path) -> None:
    world = World(folder)
    world.tick(0)
    world.report(falling(20), seconds=0.5)
    world.tick(0.5, clock=False)
    world.tick(1)
    rest, speed = world.report_row().epochs_left, tuple(world.report_row().speed)
    world.report(falling(24), seconds=0.5)  # what is heard later changes nothing of the interval
    world.tick(1.5, clock=False)
    assert world.report_row().epochs_left != rest
    with scope_disabled("the test looks at an interval"):
        view = records.view_from(contents_of(Interval.objects.get(pool=world.pool, slot=1)).view)
    index = next(place for place, job in enumerate(view.waiting) if job.number == world.job.pk)
    assert view.remaining[index] == pytest.approx(rest * view.waiting[index].work / MOST)
    assert view.waiting[index].samples.speed == speed
    assert len(speed) == 4
    all_is_sound(world.pool)


def test_a_job_that_ended_by_its_loss_is_not_begun_again_in_the_slot_that_it_has_paid(folder: Path) -> None:
    world = World(folder)
    world.tick(0)
    world.report(falling(40))
    world.tick(0.1, clock=False)
    world.engine.ended = {world.run().key: "stopped"}
    for slot in (0.2, 0.3, 0.9):
        world.tick(slot, clock=False)
    with scope_disabled("the test looks at runs"):
        assert [run.state for run in Run.objects.filter(job=world.job)] == [RunState.STOPPED]
    world.engine.ended = {}
    world.tick(1)
    assert (again(world.job).state, len(slots_of(world.job))) == (JobState.FINISHED, 1)
    all_is_sound(world.pool)


def test_reports_that_are_heard_again_change_nothing_and_a_job_ends_once(folder: Path) -> None:
    world = World(folder)
    world.tick(0)
    world.report(falling(40))
    world.tick(0.5, clock=False)
    before = world.report_row().heard_at
    with scope_disabled("the test hears it again"):
        run = Run.objects.select_related("award__pool", "award__job").get(job=world.job)
        assert reports_hear([run], at=moment(world.pool, 0.6)) == []
    assert world.report_row().heard_at == before
    assert len([event for event in events("job_finished") if event.subject == f"job:{world.job.pk}"]) == 1


def in_a_market_of_its_own(folder: Path, losses: Sequence[float]) -> Lived:
    """Nothing of it is left afterwards."""
    with transaction.atomic():
        lived = World(folder).lives(losses)
        transaction.set_rollback(True)
    return lived


LIES = {
    "still falls": [1000.0 - 10.0 * epoch for epoch in range(MOST)],
    "rises": [10.0 * epoch for epoch in range(1, MOST)],
    "falls slowly": (1.0 / (0.01 * np.arange(1, MOST) + 1.0) + 0.1).tolist(),
    "by chance": np.random.default_rng(1).uniform(0.0, 9.0, MOST).tolist(),
    "huge": [1e300 / epoch for epoch in range(1, MOST)],
}


WIDE = ("rises", "falls slowly", "by chance")


@pytest.mark.parametrize("lie", [pytest.param(lie, marks=[pytest.mark.wide] if lie in WIDE else []) for lie in LIES])
def test_a_program_that_reports_false_losses_is_given_no_more_than_one_that_reports_none(
    folder: Path, lie: str
) -> None:
    """Slot by slot, live, with the same work done; and each unit of each slot has its price all the same."""
    silent, liar = (in_a_market_of_its_own(folder, losses) for losses in ([np.nan] * MOST, LIES[lie]))
    assert liar.units[0] == silent.units[0] > 0
    assert all(one <= other for one, other in zip(liar.units, silent.units, strict=True))
    assert liar.paid <= silent.paid


def test_a_policy_that_could_be_gamed_is_told_nothing_and_a_job_ends_by_its_loss_all_the_same(folder: Path) -> None:
    """The shortest job goes first there: to seem nearly done would be a gain."""
    world = World(folder, {"name": "srtf", "workers": 4})
    world.tick(0)
    world.report([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.04], seconds=0.01)
    world.tick(0.5, clock=False)
    world.tick(1)
    with scope_disabled("the test looks at an interval"):
        view = records.view_from(contents_of(Interval.objects.get(pool=world.pool, slot=1)).view)
    assert all(not job.samples.speed for job in view.waiting)
    world.report(falling(40))
    world.tick(1.5, clock=False)
    assert again(world.job).reason_code == "converged"


def test_a_job_without_a_target_is_ended_by_nobody_and_its_speed_counts(folder: Path) -> None:
    world = World(folder, until=None)
    world.tick(0)
    world.report([1.0] * 40, seconds=0.5)
    world.tick(0.5, clock=False)
    report = world.report_row()
    assert (report.losses, report.source, report.epochs_left) == ([], "", None)
    assert len(report.speed) == 4
    assert again(world.job).state == JobState.RUNNING


class Own(World):
    """The first job's program is of people's own: workers alone, and what it says are numbers by name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.engine = folder, RecordingEngine()
        self.pool, self.owner, self.renter = make_elastic(OPTIMUS)
        allow(self.renter)
        version = register(brings(self.renter), name="script", shape="independent", command=None, script="true")
        program = {"name": "script", "version": version.version, "parameters": {}}
        spec = {"slots": 1, "epochs": MOST, "program": program, "ps_demand": [], "until_converged": UNTIL}
        self.job = make_elastic_job(self.pool, self.renter, **spec)

    def report(self, losses: Sequence[float], seconds: float | None = None) -> None:
        place = Folder(self.folder, f"job-{self.job.pk}", self.run().key)
        place.make()
        about = {"event": "numbers", "role": "worker", "rank": 0, "at": 0.0}
        rows = [about | {"numbers": {"epoch": epoch, "loss": loss}} for epoch, loss in enumerate(losses)]
        place.progress.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.engine.progress = {"numbers": {"epoch": len(losses) - 1}}


def test_a_program_of_peoples_own_ends_the_job_by_its_numbers_too(folder: Path) -> None:
    world = Own(folder)
    world.tick(0)
    world.report(falling(FLAT))
    world.tick(0.5, clock=False)
    assert again(world.job).state == JobState.RUNNING  # its last epoch has begun, and nobody says that it is over
    world.report(falling(FLAT + 1))
    world.tick(0.6, clock=False)
    assert (again(world.job).reason_code, again(world.job).reason_numbers["epoch"]) == ("converged", FLAT)
    world.tick(1)
    assert len(slots_of(world.job)) == 1
    all_is_sound(world.pool)


def test_a_program_of_peoples_own_that_goes_on_beyond_its_most_epochs_is_ended(folder: Path) -> None:
    world = Own(folder)
    world.tick(0)
    world.report([1.0 - 0.005 * epoch for epoch in range(MOST + 1)])
    world.tick(0.5, clock=False)
    job = again(world.job)
    assert (job.state, job.reason_code, job.reason_numbers) == (JobState.FINISHED, "epochs_done", {"epochs": MOST})
    assert reason_sentence(world.pool, job.reason_code, job.reason_numbers).startswith(f"It has done its {MOST} epochs")
    assert world.engine.stopped == {world.run().key}
    with scope(world.renter):
        outlook = job_outlook(job)
    assert outlook is not None
    assert (outlook.ended_after, outlook.converged, outlook.rest) == (MOST, False, None)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[LocalEngine]:
    monkeypatch.setattr("scheduling.market.decide.programs.PROGRAMS", ALL)
    with engine_in(limits=replace(SMALL, memory_mb=1_000)) as own_engine:
        settings.RUNS_DIR = own_engine.root
        yield own_engine


@pytest.mark.wide
def test_a_real_gang_ends_where_its_loss_has_converged_and_its_rival_trains_on(engine: LocalEngine) -> None:
    """Both are real processes that train.

    Who is given how many units meanwhile follows from speeds that are measured, so it differs from machine to machine;
    the tests above say it with losses that are given.
    """
    pool, _, renter = make_elastic({"name": "optimus", "restart": 0.0})
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(slot_seconds=5, epoch_at=timezone.now() - timedelta(milliseconds=100))
    pool.refresh_from_db()
    program = PROGRAM | {"parameters": PROGRAM["parameters"] | {"minibatch_ms": 60.0}}
    spec = {"epochs": 1000, "chunks": 8, "max_workers": 8, "minibatches": 5, "minibatch_seconds": 0.06}
    spec |= {"program": program}
    job = make_waiting(pool, renter, 0.0, **spec, until_converged={"threshold": 0.002, "patience": 3})
    rival = make_waiting(pool, renter, 0.0, **spec)

    def passes(number: TrainingJob) -> TrainingJob:
        now = timezone.now()
        pool_advance(pool_id=pool.pk, at=now)
        runs_tick(engine=engine, at=now)
        return again(number)

    def newest_report() -> JobReport | None:
        passes(job)
        with scope_disabled("the test looks at what was heard"):
            return JobReport.objects.filter(job=job).first()

    until(lambda: (row := newest_report()) is not None and row.source in ("fitted", "converged"), patience=PATIENCE)
    until(lambda: passes(job).state == JobState.FINISHED, patience=PATIENCE)
    ended, awards = again(job), slots_of(job)
    assert ended.reason_code == "converged"
    assert ended.reason_numbers["epoch"] < 1000
    assert again(rival).state == JobState.RUNNING
    with scope(renter):
        run = Run.objects.filter(job=job).latest("pk")
        outlook = job_outlook(ended)
    until(lambda: look(engine, handle_of(run)).state == ENDED, patience=PATIENCE)
    nobody_is_left(run.key)
    assert outlook is not None
    assert (outlook.ended_after, outlook.converged) == (ended.reason_numbers["epoch"], True)
    assert outlook.record.jobs == 1
    last = pool.slot_at(timezone.now())
    until(lambda: passes(rival) is not None and pool.slot_at(timezone.now()) > last + 1, patience=PATIENCE)
    assert len(slots_of(job)) == len(awards)  # nothing more is paid
    all_is_sound(pool)
    with scope_disabled("the test ends the rival"):
        handles = [handle_of(run) for run in Run.objects.filter(job=rival, state__in=("starting", "running"))]
    for handle in handles:
        engine.stop(handle)
    until(lambda: all(look(engine, handle).state == ENDED for handle in handles), patience=PATIENCE)


def test_whoever_opens_the_page_sees_curve_estimate_and_end(folder: Path) -> None:
    world = World(folder)
    world.tick(0)
    with scope(world.renter):
        before = job_outlook(again(world.job))
    assert before is not None
    assert (before.done, before.rest, before.reported, before.record) == (0, None, (), OutlookRecord())
    world.report(falling(20))
    world.tick(0.5, clock=False)
    client = client_as("owner", world.renter)
    page = " ".join(client.get(f"/t/{world.renter.slug}/jobs/{world.job.pk}/").content.decode().split())
    assert f"<b>{FLAT} epochs in all</b>" in page
    assert "less than 0.3 % of its largest" in page
    assert 'class="line estimated"' in page
    assert "nobody can say how well estimates hold" in page
    world.report(falling(40))
    world.tick(0.6, clock=False)
    page = " ".join(client.get(f"/t/{world.renter.slug}/jobs/{world.job.pk}/").content.decode().split())
    assert f"It converged at epoch {FLAT}, and paid for what was used." in page
    assert f"Converged at epoch {FLAT} of at most {MOST}; paid for what was used." in page
    assert "Of your last 1 job that ended so after an estimate, 1 ended within the first one" in page
