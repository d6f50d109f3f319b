"""A job whose gang the platform loses again and again."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduling.engines.base import EngineFault
from scheduling.models import AwardState, JobState, Run
from scheduling.services.run_ends import losses_in_a_row
from scheduling.services.runs import runs_tick
from tenants.scoping import scope_disabled
from tests.engines.local import engine_in
from tests.engines.market import jobs_of, world
from tests.scheduling.live import again, book_is_sound, money

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("runs", "losses"),
    [
        ([], 0),
        ([("lost", 0)], 1),
        ([("lost", 0), ("lost", 0), ("lost", 0)], 3),
        ([("lost", 0), ("lost", 0), ("lost", 4)], 1),  # it came farther: something works
        ([("lost", 4), ("lost", 4), ("lost", 2)], 3),  # the same epochs again and again
        ([("lost", 0), ("paused", 3), ("lost", 3)], 1),
        ([("lost", 0), ("paused", 0), ("lost", 0)], 2),
    ],
)
def test_losses_count_while_no_run_comes_farther_than_those_before(runs: list[tuple[str, int]], losses: int) -> None:
    _pool, tenant, award = world()
    with scope_disabled("the test says what ran"):
        for number, (state, epoch) in enumerate(runs):
            Run.objects.create(
                tenant=tenant, job=award.job, award=award, number=number, engine="local", key=f"key-{number}",
                program="trainer", state=state, progress={"epoch": epoch} if epoch else {},
                ends_at=timezone.now(), due_at=timezone.now(), seen_at=timezone.now(),
            )  # fmt: skip
        assert losses_in_a_row(award.job_id) == losses


def test_gang_that_is_lost_for_the_fifth_time_ends_its_job_with_the_refund(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _pool, tenant, award = world()
    monkeypatch.setattr("scheduling.services.run_ends.losses_in_a_row", lambda job_id: 5)

    def broken(gang: object) -> None:
        raise EngineFault("The gang could not be started: no space left on device.")

    with engine_in() as engine:
        monkeypatch.setattr(engine, "start", broken)
        runs_tick(engine=engine, at=timezone.now())
    job = jobs_of(award)
    assert (job.state, job.reason_code, job.reason_numbers["losses"]) == (JobState.FAILED, "given_up", 5)
    assert money(tenant) == (1_000_000_000, 0, 0)
    assert again(award).state == AwardState.VOID
    assert book_is_sound()
