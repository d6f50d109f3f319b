"""An array of jobs that really run: a batch script of five lines, ten of them, bought together and told their index."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.jobs.arrays import SubmittedArray, array_describe
from scheduling.jobs.describing import JobWording
from scheduling.models import Award, JobState, RunState, TrainingJob
from tenants.scoping import scope, scope_disabled
from tests.catalogue.builders import allow, member
from tests.engines.local import engine_in
from tests.engines.market import drive, jobs_of
from tests.engines.test_own_runs import log_of
from tests.scheduling.builders import make_tenant
from tests.scheduling.clocks import advance
from tests.scheduling.live import book_is_sound
from tests.scheduling.markets import give, make_market

pytestmark = pytest.mark.django_db
SLOT, TEN = 60, 10
SCRIPT = """\
#!/bin/bash -eu
#SBATCH --job-name=sweep --gpus=1 --time=0:00:50 --array=0-9
square=$((SLURM_ARRAY_TASK_ID * SLURM_ARRAY_TASK_ID))
echo "$SLURM_ARRAY_TASK_ID times itself is $square"
exit 0
"""


def test_a_bash_script_of_five_lines_runs_as_an_array_of_ten(settings: Any) -> None:
    pool, _ = make_market(
        "owner", worker=TEN, ps=1, slot_seconds=SLOT, epoch_at=timezone.now() - timedelta(seconds=2 * SLOT)
    )
    give(renter := make_tenant("renter"), 1_000)
    allow(renter)
    assert len(SCRIPT.splitlines()) == 5
    wording = JobWording(script=SCRIPT, worth={"credits": "50", "within_seconds": 900, "later": "nothing"})
    at = pool.epoch_at + timedelta(seconds=0.9 * SLOT)
    outcome = array_describe(pool=pool, wording=wording, count=None, by=member(renter), at=at, together=True)
    assert isinstance(outcome, SubmittedArray), outcome
    for slot in (0.95, 1, 2):
        advance(pool, slot)
    with scope(renter):
        awards = list(Award.objects.select_related("job", "pool").order_by("job__array_place"))
        assert len(awards) == TrainingJob.objects.filter(array=outcome.array).count() == TEN
    assert len({(award.interval_id, award.start) for award in awards}) == 1
    with engine_in() as engine:
        settings.RUNS_DIR = engine.root
        for index, award in enumerate(awards):
            run = drive(engine, award, RunState.FINISHED, RunState.FAILED)
            assert (run.state, jobs_of(award).state) == (RunState.FINISHED, JobState.FINISHED), run.detail
            assert f"{index} times itself is {index * index}" in log_of(run).splitlines()
    with scope_disabled("the test looks at what the processes were"):
        assert {jobs_of(award).name for award in awards} == {f"sweep[{index}]" for index in range(TEN)}
    assert book_is_sound()
