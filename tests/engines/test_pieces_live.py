"""A training of forty slots in windows of eight, with real gangs: saved and begun again on other servers, one lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings as installed
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.engines.local.engine import LocalEngine
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.jobs.read_run import curve, job_runs
from scheduling.models import Award, IntervalFairness, JobState, Run, RunState, Server, TrainingJob
from scheduling.operator.server_states import server_drain
from scheduling.runs.failures import ServerLost, server_lose
from scheduling.runs.runs import runs_tick
from tenants.access import access_of_system
from tenants.scoping import scope_disabled
from tests.engines.gang import Gang
from tests.engines.local import ALL, SMALL, engine_in, kill_people_of, until
from tests.engines.market import PARAMETERS
from tests.patience import PATIENCE
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.clocks import moment
from tests.scheduling.live import book_is_sound
from tests.scheduling.markets import give, make_waiting
from tests.soak.invariants import violations

pytestmark = [pytest.mark.django_db, pytest.mark.wide]

SECONDS, WINDOW, SLOTS = 2, 8, 40
BY = {"by": access_of_system("the tests"), "reason": "smoke"}
# Ten mini-batches of a tenth of a second in an epoch: forty slots of two seconds are eighty epochs.
EPOCHS, UNITS = 80, {"chunks": 2, "minibatches": 5}
PACE = {"minibatch_ms": 70.0}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalEngine]:
    monkeypatch.setattr("scheduling.market.decide.programs.PROGRAMS", ALL)
    with engine_in(limits=replace(SMALL, memory_mb=1_000)) as own_engine:
        monkeypatch.setattr(installed, "RUNS_DIR", own_engine.root)
        yield own_engine


def test_a_long_training_rents_in_pieces_and_its_loss_curve_goes_on(engine: LocalEngine, tmp_path: Path) -> None:
    guarantee = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 2.0, "ps": 2.0}, "price_floor": 0.1}
    clock = {"clock_first": WINDOW, "clock_cap": WINDOW, "clock_restart": False}
    epoch_at = timezone.now() - timedelta(seconds=SECONDS * (WINDOW - 1))
    pool = make_pool(batch_policy=guarantee, slot_seconds=SECONDS, epoch_at=epoch_at, **clock)
    owner, guest = make_tenant("owner"), make_tenant("guest")
    for number in (1, 2, 3):
        make_cells(make_server(pool, f"s{number}", worker=1, ps=1), owner, {"worker": 1, "ps": 1})
    give(guest, 1_000)
    job = make_waiting(
        pool, guest, epochs=EPOCHS, max_workers=1, minibatch_seconds=0.1, divisible=True, save_slots=1.0,
        value={"kind": "linear", "slope": -0.01, "base": 500.0},
        program={"name": "trainer", "parameters": PARAMETERS | PACE}, **UNITS,
    )  # fmt: skip
    make_waiting(pool, owner, 2.5 * WINDOW, epochs=4, max_workers=1, minibatch_seconds=0.1, **UNITS)  # at home

    def passes() -> list[Run]:
        now = timezone.now()
        pool_advance(pool_id=pool.pk, at=now)
        runs_tick(engine=engine, at=now)
        with scope_disabled("the test looks at runs"):
            return list(Run.objects.filter(job=job).select_related("award").order_by("pk"))

    def trains(number: int) -> bool:
        """The run of this place has come farther than where it began."""
        runs = passes()
        return len(runs) > number and runs[number].state == RunState.RUNNING and runs[number].progress.get("epoch", 0)

    def server_of(number: int) -> Server:
        return Server.objects.get(pk=passes()[number].award.allocation[0][0])

    until(lambda: trains(1), patience=PATIENCE)
    lost = passes()[1]
    kill_people_of(lost.key)  # the whole machine is gone
    assert isinstance(server_lose(server=server_of(1), at=timezone.now(), **BY), ServerLost)
    until(lambda: trains(2), patience=PATIENCE)
    assert server_drain(server=server_of(2), at=timezone.now(), **BY) is None
    until(lambda: trains(3), patience=PATIENCE)

    def state() -> str:
        passes()
        with scope_disabled("the test looks at the job"):
            return TrainingJob.objects.get(pk=job.pk).state

    until(lambda: state() == JobState.FINISHED, patience=PATIENCE)
    pool_advance(pool_id=pool.pk, at=moment(pool, pool.slot_at(timezone.now()) + WINDOW))

    with scope_disabled("the test looks at what a job got"):
        awards = list(Award.objects.filter(job=job).order_by("start"))
        runs = job_runs(job)
        points = curve(runs)
    assert [award.state for award in awards].count("void") == 1
    assert len([award for award in awards if award.state in ("done", "ended")]) >= 3
    assert all(award.end - award.start <= WINDOW for award in awards)
    assert len({award.allocation[0][0] for award in awards}) == 3
    assert sum(run.state == RunState.FINISHED for run in runs) == 1

    # The curve goes on: each epoch once, and where an undisturbed run ends.
    assert [point.epoch for point in points] == list(range(1, EPOCHS + 1))
    undisturbed = {**PARAMETERS, **UNITS, "epochs": EPOCHS}
    with Gang(tmp_path, **undisturbed) as gang:
        finished = gang.wait("finished")
    assert points[-1].loss == pytest.approx(finished["loss"], rel=0.05)

    # Every slot is paid once, every certificate is kept, and every interval replays.
    assert violations() == []
    assert book_is_sound()
    with scope_disabled("the test verifies everything"):
        assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    fairness_catch_up()
    rows = IntervalFairness.objects.filter(pool=pool)
    assert sum(rows.values_list("certificates", flat=True)) > 0
    assert sum(rows.values_list("broken_count", flat=True)) == 0
