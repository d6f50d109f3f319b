"""A gang of an elastic pool goes on from slot to slot, and is sized anew while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.engines.base import ENDED, FAILED, FINISHED, PAUSED, RUNNING, STOPPED, Gang, Generation, Handle, Status
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.local.engine import TIMINGS, LocalEngine
from scheduling.engines.local.ports import Ports
from scheduling.engines.plans import Phase, continued
from scheduling.jobs.cancellation import job_cancel
from scheduling.market.elastic.read_slots import slots_so_far
from scheduling.market.settle.slots import slot_settle
from scheduling.models import JobState, Pool, Run, RunState, Server, TrainingJob
from scheduling.operator.server_states import server_drain, server_return
from scheduling.runs import runs as following
from scheduling.runs import slots
from scheduling.runs.failures import server_lose
from scheduling.runs.runs import handle_of, runs_tick
from tenants.access import access_of_system
from tenants.scoping import scope_disabled
from tests.catalogue.builders import allow, register
from tests.catalogue.builders import member as program_member
from tests.database import as_superuser
from tests.engines.local import ALL, SMALL, engine_in, look, nobody_is_left, until
from tests.engines.logs import log_lines
from tests.engines.market import PARAMETERS
from tests.patience import PATIENCE
from tests.scheduling.builders import make_cells, make_server
from tests.scheduling.clocks import advance, moment
from tests.scheduling.elastic_world import make_elastic, make_elastic_job, slots_of
from tests.scheduling.live import again, book_is_sound, events, explained, member, money
from tests.scheduling.markets import MICRO, make_waiting

pytestmark = pytest.mark.django_db
OPERATOR = access_of_system("the tests")
PROGRAM = {"name": "trainer", "parameters": PARAMETERS | {"minibatch_ms": 20.0}}


class RecordingEngine:
    """An engine that only remembers what it was told."""

    name = "local"
    timings = TIMINGS

    def __init__(self) -> None:
        self.gangs: dict[str, tuple[float, list[Phase]]] = {}
        self.stopped: set[str] = set()
        self.progress: Mapping[str, Any] = {}
        self.ended: dict[str, str] = {}

    def touch(self) -> None: ...

    def submit(self, gangs: Sequence[Gang]) -> dict[str, Handle]:
        for gang in gangs:
            assert gang.open_ended
            self.gangs[gang.key] = (gang.end_at, continued([], gang.generations, 0.0))
        return {gang.key: Handle(gang.key, gang.home, {"number": 1}) for gang in gangs}

    def change(self, handle: Handle, end_at: float, generations: Sequence[Generation] = (), *, why: str = "") -> None:
        phases = self.gangs[handle.key][1]
        self.gangs[handle.key] = (end_at, continued(phases, generations, 0.0) if generations else phases)

    def stop(self, handle: Handle, *, pause: bool = False, why: str = "") -> None:
        self.stopped.add(handle.key)

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        return {handle.key: self._observe(handle) for handle in handles}

    def _observe(self, handle: Handle) -> Status:
        if how := self.ended.get(handle.key):
            return Status(ENDED, started_at=1.0, end=how, progress=self.progress)
        return Status(RUNNING, started_at=1.0, progress=self.progress)

    def members(self) -> set[str]:
        ((_, phases),) = self.gangs.values()
        return {f"{role[0]}{rank}@{server}" for role, rank, server in phases[-1]["members"]}


def make_running(policy: dict[str, Any], **spec: Any) -> tuple[Pool, Any, TrainingJob]:
    pool, _, renter = make_elastic(policy)
    job = make_elastic_job(pool, renter, **({"slots": 30, "program": PROGRAM} | spec))
    return pool, renter, job


def tick(pool: Pool, engine: Any, slot: float) -> None:
    advance(pool, slot)
    runs_tick(engine=engine, at=moment(pool, slot))


def runs() -> list[Run]:
    with scope_disabled("the test looks at runs"):
        return list(Run.objects.order_by("pk"))


def test_one_gang_lives_through_the_slots_and_who_stays_keeps_its_rank() -> None:
    pool, renter, job = make_running({"name": "dominant_resource_fairness"})
    engine = RecordingEngine()
    tick(pool, engine, 0)
    alone, (end, _) = engine.members(), next(iter(engine.gangs.values()))
    assert end == (moment(pool, 1) + timedelta(seconds=8)).timestamp()
    for _ in range(2):
        make_elastic_job(pool, renter, 0.5, slots=1)
    tick(pool, engine, 1)
    crowded = engine.members()
    assert crowded != alone
    assert crowded & alone
    (run,) = runs()
    assert (run.award_id, run.state) == (slots_of(job)[1].pk, RunState.RUNNING)
    tick(pool, engine, 1.5)
    assert engine.members() == crowded
    assert not engine.stopped


def test_a_gang_whose_boundary_is_decided_while_it_is_looked_at_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of the boundary takes two questions; the decision may be committed after the first one."""
    pool, _, job = make_running({"name": "srtf", "workers": 4})
    engine, questions = RecordingEngine(), list[str]()
    tick(pool, engine, 0)
    slot_settle(pool_id=pool.pk, slot=0, at=moment(pool, 1))  # the first half of a boundary

    def then_decided(question: Callable[[Run], Any]) -> Callable[[Run], Any]:
        def answer(run: Run) -> Any:
            answered = question(run)
            questions.append(question.__name__)
            if len(questions) == 1:
                advance(pool, 1.1)
            return answered

        return answer

    for question in (slots.next_slot, slots.still_open):
        monkeypatch.setattr(following, question.__name__, then_decided(question))
    for at in (1.2, 1.3):
        runs_tick(engine=engine, at=moment(pool, at))
    assert set(questions) == {"next_slot", "still_open"}
    assert not engine.stopped
    assert [run.award_id for run in runs()] == [slots_of(job)[1].pk]


def test_a_gang_that_cannot_go_on_elsewhere_keeps_its_members_when_others_come() -> None:
    pool, renter, _ = make_running({"name": "dominant_resource_fairness"}, unbroken=True)
    engine = RecordingEngine()
    tick(pool, engine, 0)
    alone = engine.members()
    for _ in range(2):
        make_elastic_job(pool, renter, 0.5, slots=1)
    for slot in (1, 2, 3):
        tick(pool, engine, slot)
        assert engine.members() == alone
    assert len(runs()) == 1
    assert not engine.stopped


def test_a_gang_waits_for_the_decision_and_is_stopped_when_its_job_is_paused() -> None:
    pool, renter, job = make_running({"name": "srtf", "workers": 4})
    engine = RecordingEngine()
    tick(pool, engine, 0)
    runs_tick(engine=engine, at=moment(pool, 1.1))  # the clock has not come to the boundary yet
    assert not engine.stopped
    job_cancel(job_id=job.pk, by=member(renter), at=moment(pool, 1.2))
    tick(pool, engine, 1.3)
    assert engine.stopped == set(engine.gangs)


def test_a_gang_whose_job_is_cancelled_is_gone_at_the_end_of_the_slot_that_is_paid() -> None:
    pool, renter, job = make_running({"name": "srtf", "workers": 4})
    engine = RecordingEngine()
    tick(pool, engine, 0)
    job_cancel(job_id=job.pk, by=member(renter), at=moment(pool, 0.4))
    tick(pool, engine, 0.5)
    ((end, _),) = engine.gangs.values()
    assert end == moment(pool, 1).timestamp()
    assert not engine.stopped


@pytest.mark.parametrize(("slot", "waits"), [(5, 5), (10, 8), (80, 8), (300, 30), (600, 60), (3_600, 60)])
def test_a_gang_waits_a_tenth_of_a_slot_for_its_decision_and_no_longer_than_a_minute(slot: int, waits: int) -> None:
    """No longer than a slot, and eight seconds where slots are short."""
    pool, _, _ = make_running({"name": "srtf", "workers": 4})
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(slot_seconds=slot)
    pool.refresh_from_db()
    engine = RecordingEngine()
    tick(pool, engine, 0)
    ((end, _),) = engine.gangs.values()
    assert end == moment(pool, 1).timestamp() + waits


def test_a_gang_that_ended_for_want_of_a_decision_is_begun_again() -> None:
    pool, _, job = make_running({"name": "srtf", "workers": 4})
    engine = RecordingEngine()
    tick(pool, engine, 0)
    (first,) = engine.gangs
    engine.ended[first] = STOPPED
    runs_tick(engine=engine, at=moment(pool, 1.9))
    tick(pool, engine, 2)
    assert [run.state for run in runs()] == [RunState.STOPPED, RunState.STARTING]
    assert [award.start for award in slots_of(job)] == [0, 2] or [award.start for award in slots_of(job)] == [0, 1, 2]


def test_a_gang_on_a_lost_server_is_stopped_at_once_and_begun_again_elsewhere_with_the_next_slot() -> None:
    pool, _, job = make_running({"name": "gandiva_fair", "workers": 4})
    engine = RecordingEngine()
    tick(pool, engine, 0)
    (first,) = engine.gangs
    assert {member.partition("@")[2] for member in engine.members()} == {"s01"}
    by = access_of_system("the tests")
    server_lose(server=Server.objects.get(name="s01"), by=by, reason="smoke", at=moment(pool, 0.3))
    runs_tick(engine=engine, at=moment(pool, 0.4))
    assert engine.stopped == {first}
    engine.ended[first] = STOPPED
    runs_tick(engine=engine, at=moment(pool, 0.6))
    assert again(job).state == JobState.QUEUED
    tick(pool, engine, 1)
    second = next(key for key in engine.gangs if key != first)
    assert {server for phase in engine.gangs[second][1] for _, _, server in phase["members"]} == {"s02"}
    assert [(award.start, award.state, award.returned) for award in slots_of(job)] == [
        (0, "void", slots_of(job)[0].paid),
        (1, "running", 0),
    ]
    assert book_is_sound()


@pytest.mark.parametrize("is_free", [False, True])
def test_a_job_that_has_begun_outlasts_the_loss_of_the_only_server_that_holds_it(is_free: bool) -> None:
    """No other server has six units for its worker. Its program has reported nothing, so what it did is unknown."""
    pool, owner, renter = make_elastic({"name": "srtf", "workers": 4})
    large = make_server(pool, "s03", worker=6, ps=4)
    make_cells(large, owner, {"worker": 6, "ps": 4})
    demand = {"worker_demand": {"worker": 6}, "ps_demand": [], "max_workers": 1, "unbroken": True}
    job = make_elastic_job(pool, owner if is_free else renter, slots=30, program=PROGRAM, **demand)
    engine = RecordingEngine()
    for slot in (0, 1):
        tick(pool, engine, slot)
    server_lose(server=large, by=OPERATOR, reason="smoke", at=moment(pool, 1.5))
    tick(pool, engine, 2)
    assert [(award.state, award.paid > 0) for award in slots_of(job)] == [("done", not is_free), ("void", not is_free)]
    assert (again(job).state, again(job).reason_code) == (JobState.QUEUED, "no_room")
    server_return(server=large, by=OPERATOR, reason="repaired", at=moment(pool, 2.5))
    tick(pool, engine, 3)
    assert again(job).state == JobState.RUNNING
    assert book_is_sound()
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_a_program_that_keeps_its_size_is_begun_anew_where_its_server_hosts_nothing_new() -> None:
    """Told another size it would end as lost, and its slot would be given back."""
    pool, _, renter = make_elastic({"name": "dominant_resource_fairness"})
    allow(renter)
    script = {"name": "script", "shape": "independent", "command": None, "script": "sleep 60", "parameters": []}
    row = register(program_member(renter), **script)
    program = {"name": "script", "version": row.version, "parameters": {}}
    job = make_elastic_job(pool, renter, slots=30, program=program, ps_demand=[], unbroken=True)
    engine = RecordingEngine()
    tick(pool, engine, 0)
    (first,) = engine.gangs
    alone = engine.members()
    make_elastic_job(pool, renter, 0.5, ps_demand=[])
    server_drain(server=Server.objects.get(name="s02"), by=OPERATOR, reason="smoke", at=moment(pool, 0.5))
    tick(pool, engine, 1)
    assert [award.workers for award in slots_of(job)] == [4, 2]
    assert (engine.members(), engine.stopped) == (alone, {first})
    engine.ended[first] = STOPPED
    runs_tick(engine=engine, at=moment(pool, 1.2))
    second = next(key for key in engine.gangs if key != first)
    assert {(role, server) for role, _, server in engine.gangs[second][1][-1]["members"]} == {("worker", "s01")}
    tick(pool, engine, 2)
    assert [run.award_id for run in runs()] == [award.pk for award in slots_of(job) if award.start in (0, 2)]
    assert {award.returned for award in slots_of(job)} == {0}
    assert book_is_sound()


def test_what_the_program_tells_counts_and_its_end_ends_the_job() -> None:
    pool, _, job = make_running({"name": "srtf", "workers": 4}, slots=1, epochs=4)  # by its estimates: four slots
    engine = RecordingEngine()
    engine.progress = {"epoch": 2, "epochs": 4}
    tick(pool, engine, 0)
    tick(pool, engine, 0.5)
    with scope_disabled("the test looks at what is left"):
        assert slots_so_far([again(job)])[job.pk].epochs_left == 0.5
    engine.progress = {"epoch": 4, "epochs": 4}
    tick(pool, engine, 1)
    assert [award.work_left for award in slots_of(job)] == [24.0, 8.0]  # by the estimates, then half of it, less a slot
    engine.ended = dict.fromkeys(engine.gangs, "finished")
    runs_tick(engine=engine, at=moment(pool, 1.5))
    assert again(job).state == JobState.FINISHED
    with scope_disabled("the test looks at why"):
        sentence = explained(again(job)).reason.sentence
    assert f"{moment(pool, 1.5):%H:%M:%S}, at last on " in sentence
    tick(pool, engine, 2)
    assert len(slots_of(job)) == 2
    assert book_is_sound()


@pytest.mark.parametrize("end", [FINISHED, FAILED])
def test_a_slot_that_was_bought_after_the_programs_end_comes_back_at_once(end: str) -> None:
    """The boundary was decided before the engine had looked. The platform did not fail, so nobody is told that."""
    pool, renter, job = make_running({"name": "srtf", "workers": 4})
    engine = RecordingEngine()
    tick(pool, engine, 0)
    tick(pool, engine, 0.5)
    advance(pool, 1.1)
    engine.ended = dict.fromkeys(engine.gangs, end)
    runs_tick(engine=engine, at=moment(pool, 1.2))
    assert again(job).state == end
    assert [(award.state, award.returned) for award in slots_of(job)] == [("done", 0), ("void", slots_of(job)[1].paid)]
    spent = slots_of(job)[0].paid
    assert money(renter)[:2] == (1_000 * MICRO - spent, 0)
    for slot in (2, 3):
        tick(pool, engine, slot)
    assert [event.data["cause"] for event in events("award_cut")] == ["not_needed"]
    assert len(runs()) == 1
    assert book_is_sound()
    with scope_disabled("the test verifies everything"):
        assert jobs_verify(pool, list(TrainingJob.objects.all())) == []
        assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_more_ports_are_taken_and_those_in_use_are_kept() -> None:
    ports = Ports()
    has = ports.take("00ff00", {"coordinator": 1, "ps": 1, "worker": 2})
    more = ports.more("00ff00", has, {"coordinator": 1, "ps": 2, "worker": 1})
    assert (more["worker"], more["ps"][:1], len(more["ps"])) == (has["worker"], has["ps"], 2)
    all_ports = [port for role in more.values() for port in role]
    assert len(set(all_ports)) == len(all_ports)
    assert not set(all_ports) & {port for role in ports.take("00ff01", {"worker": 9}).values() for port in role}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalEngine]:
    monkeypatch.setattr("scheduling.market.decide.programs.PROGRAMS", ALL)
    with engine_in(limits=replace(SMALL, memory_mb=1_000)) as own_engine:
        yield own_engine


def test_real_processes_leave_at_the_boundary_of_a_slot_and_the_job_goes_on(engine: LocalEngine) -> None:
    pool, _, renter = make_elastic({"name": "dominant_resource_fairness"})
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(slot_seconds=5, epoch_at=timezone.now() - timedelta(milliseconds=100))
    pool.refresh_from_db()
    job = make_waiting(pool, renter, epochs=1000, chunks=2, max_workers=2, minibatches=5, program=PROGRAM)

    def passes() -> Run | None:
        now = timezone.now()
        pool_advance(pool_id=pool.pk, at=now)
        runs_tick(engine=engine, at=now)
        return next(iter(runs()), None)

    def epoch() -> int:
        run = passes()
        return int(run.progress.get("epoch", 0)) if run else 0

    def workers() -> int:
        run = passes()
        state = files.read(Folder(engine.root, f"job-{job.pk}", run.key).state) if run else None
        return sum(row[0] == "worker" for row in (state or {"members": []})["members"])

    until(lambda: epoch() >= 2, patience=PATIENCE)
    assert workers() == 2
    now = pool.slot_at(timezone.now())
    for _ in range(8):
        make_elastic_job(pool, renter, now + 0.01, slots=50)
    until(lambda: workers() == 1, patience=PATIENCE)
    before = epoch()
    until(lambda: epoch() > before + 1, patience=PATIENCE)
    (run,) = runs()
    texts = [line.text for line in log_lines(engine.root, f"job-{job.pk}", run.key)]
    assert any(line.endswith("is asked to leave.") for line in texts)
    assert not any(line.startswith("Its work is saved") for line in texts)
    assert slots_of(job)[-1].workers == 1
    engine.stop(handle := handle_of(run))
    until(lambda: look(engine, handle).state == ENDED)
    nobody_is_left(run.key)


def test_a_gang_that_its_cluster_would_end_soon_goes_on_in_another_run_of_its_slot() -> None:
    """Its engine paused it (0357): that is no loss, so nothing comes back, and the slot is paid once."""
    pool, renter, job = make_running({"name": "srtf", "workers": 4})
    engine = RecordingEngine()
    for slot in (0, 1, 1.2):
        tick(pool, engine, slot)
    (first,) = engine.gangs
    engine.ended[first] = PAUSED
    tick(pool, engine, 1.4)
    before, following_run = runs()
    assert (before.key, before.state) == (first, RunState.PAUSED)
    assert following_run.award_id == before.award_id == slots_of(job)[1].pk
    tick(pool, engine, 1.6)
    tick(pool, engine, 2)
    assert [run.state for run in runs()] == [RunState.PAUSED, RunState.RUNNING]
    assert [(award.state, award.returned) for award in slots_of(job)] == [("done", 0), ("done", 0), ("running", 0)]
    assert (again(job).state, again(job).attempt) == (JobState.RUNNING, 0)
    assert sum(money(renter)[:2]) == 1_000 * MICRO - sum(award.paid for award in slots_of(job)[:2])
    assert book_is_sound()
