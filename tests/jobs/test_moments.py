"""A worth that names a moment stays there, whatever becomes of the job's arrival."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.audit.verification.intervals import intervals_verify
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.jobs import JobWording, Submitted, job_describe, job_submit
from scheduling.jobs.arrays import SubmittedArray, array_describe
from scheduling.jobs.bulk import JobWords, SubmittedJobs, jobs_submit
from scheduling.jobs.second_chance import job_queue
from scheduling.models import Award, JobState, Pool, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.what_if.asking import what_if_start
from scheduling.what_if.seen import WhatIfSeen
from tenants.access import Access, Refused
from tenants.scoping import scope_disabled
from tests.database import as_superuser
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import INSTANT, again, member
from tests.scheduling.markets import SPEC, make_market, make_waiting

pytestmark = pytest.mark.django_db
SHORT = {"hours": "0.0166667", "most": 2}  # a minute with two workers
PATIENT = {"kind": "linear", "slope": -0.01, "base": 100.0}


def wording(pool: Pool, slot: float, later: str = "nothing", **words: Any) -> JobWording:
    worth = {"by": moment(pool, slot).isoformat(), "credits": "100", "later": later}
    return JobWording(**({"hours": SHORT, "worth": worth, "name": "second"} | words))


def ends(job: TrainingJob) -> list[int]:
    with scope_disabled("the test looks at everything"):
        return list(Award.objects.filter(job=job).values_list("end", flat=True))


def world_with_a_long_job(slots: int) -> tuple[Pool, Access, TrainingJob]:
    """The second job waits for a first one, which takes about so many slots."""
    pool, (lumen, _) = make_market("lumen", "castor", worker=8)
    by = member(lumen)
    long = {**SPEC, "epochs": slots // 2, "value": PATIENT}
    first = job_submit(pool=pool, name="first", spec=long, lane="batch", by=by, at=moment(pool, 0.1))
    assert isinstance(first, Submitted), first
    return pool, by, first.job


def pass_until_all_is_over(pool: Pool, *, most: int) -> None:
    """Slot by slot, until no job waits or runs. A job that has ended stays as it is."""
    for slot in range(1, most):
        advance(pool, slot)
        with scope_disabled("the test looks whether jobs are left"):
            if not TrainingJob.objects.filter(pool=pool, state__in=LIVE_STATES).exists():
                return


@pytest.mark.one_case
@pytest.mark.parametrize(("by_slot", "state"), [(30, "expired"), (90, "finished")])
def test_a_job_that_waits_for_another_is_worth_nothing_after_its_moment(by_slot: int, state: str) -> None:
    pool, by, first = world_with_a_long_job(40)
    words = wording(pool, by_slot, after=(first.pk,))
    second = job_describe(pool=pool, wording=words, lane="batch", by=by, at=moment(pool, 0.25))
    assert isinstance(second, Submitted), second
    pass_until_all_is_over(pool, most=100)
    assert again(first).state == JobState.FINISHED
    assert again(second.job).state == state
    assert all(end <= by_slot for end in ends(second.job))
    assert bool(ends(second.job)) == (state == "finished")
    with scope_disabled("the test verifies everything"):
        outcome = intervals_verify(pool_ids=[pool.pk])
        assert outcome.is_clean, outcome.findings
        assert jobs_verify(pool, list(TrainingJob.objects.order_by("pk"))) == []
        for tampered in (1.0, None):
            with as_superuser():
                TrainingJob.objects.filter(pk=second.job.pk).update(worth_from=tampered)
            (finding,) = jobs_verify(pool, list(TrainingJob.objects.order_by("pk")))
            assert "worth_from" in finding.what


@pytest.mark.wide
def test_what_would_have_been_otherwise_starts_from_the_worth_that_was_decided_on() -> None:
    """For a job whose arrival was set later the row, its specification and the interval are one and the same job."""
    pool, by, first = world_with_a_long_job(20)
    words = wording(pool, 40, "half", after=(first.pk,))
    second = job_describe(pool=pool, wording=words, lane="batch", by=by, at=moment(pool, 0.25))
    assert isinstance(second, Submitted), second
    for slot in range(1, 60):
        advance(pool, slot)
    with scope_disabled("the test looks at everything"):
        number = Award.objects.get(job=second.job).interval.number
    question = {"pool_id": pool.pk, "number": number, "job_id": second.job.pk, "field": "epochs", "value": 2}
    assert isinstance(what_if_start(by=by, at=moment(pool, 60), **question), WhatIfSeen)


@pytest.mark.wide
def test_so_it_is_for_each_job_of_an_array_and_of_a_bulk() -> None:
    pool, by, first = world_with_a_long_job(40)
    words = wording(pool, 30, after=(first.pk,))
    array = array_describe(pool=pool, wording=words, count=2, by=by, at=moment(pool, 0.25))
    assert isinstance(array, SubmittedArray), array
    bulk = jobs_submit(pool=pool, words=[JobWords(wording=words)], by=by, at=moment(pool, 0.25))
    assert isinstance(bulk, SubmittedJobs), bulk
    pass_until_all_is_over(pool, most=60)
    with scope_disabled("the test looks at everything"):
        rows = list(TrainingJob.objects.exclude(pk=first.pk))
    assert [row.state for row in rows] == [JobState.EXPIRED] * 3


@pytest.mark.wide
def test_a_second_chance_moves_no_moment() -> None:
    pool, (lumen, _) = make_market("lumen", "castor", instant_policy=INSTANT)
    make_waiting(pool, lumen, 0.0, epochs=4, priority=9)
    words = wording(pool, 20)
    words = JobWording(hours=SHORT, worth={**words.worth, "credits": "0.0001"}, name="late", divisible=False)
    refused = job_describe(pool=pool, wording=words, lane="instant", by=member(lumen), at=moment(pool, 0.5))
    assert isinstance(refused, Submitted), refused
    assert refused.job.state == JobState.REJECTED
    for slot in range(1, 30):
        advance(pool, slot)
    queued = job_queue(job_id=refused.job.pk, by=member(lumen), at=moment(pool, 29.5))
    for slot in range(30, 50):
        advance(pool, slot)
    assert isinstance(queued, Refused) or again(refused.job).state == JobState.EXPIRED
    assert ends(refused.job) == []


@pytest.mark.one_case
@pytest.mark.parametrize("later", ["half", "hardly"])
def test_what_a_later_end_is_worth_counts_from_the_moment_that_was_named(later: str) -> None:
    pool, by, first = world_with_a_long_job(40)
    words = wording(pool, 30, later, after=(first.pk,))
    second = job_describe(pool=pool, wording=words, lane="batch", by=by, at=moment(pool, 0.25))
    assert isinstance(second, Submitted), second
    pass_until_all_is_over(pool, most=100)
    with scope_disabled("the test looks at everything"):
        award = Award.objects.get(job=second.job)
    elapsed = award.end - second.job.arrival
    value = second.job.spec["value"]
    if later == "hardly":
        worth = value["slope"] * elapsed + value["base"]
    else:
        worth = value["priority"] / (1 + 2.718281828459045 ** (value["decay"] * (elapsed - value["target"])))
    assert award.value == pytest.approx(worth, rel=1e-9)


def test_a_time_from_the_submission_on_moves_with_the_arrival() -> None:
    """It names no moment: whoever waits for another job says how long it may take from then on."""
    pool, by, first = world_with_a_long_job(40)
    worth = {"within_seconds": 300, "credits": "100", "later": "nothing"}
    words = JobWording(hours=SHORT, worth=worth, name="second", after=(first.pk,))
    second = job_describe(pool=pool, wording=words, lane="batch", by=by, at=moment(pool, 0.25))
    assert isinstance(second, Submitted), second
    pass_until_all_is_over(pool, most=100)
    assert again(second.job).state == JobState.FINISHED
    assert ends(second.job) > [30]


@pytest.mark.one_case
@pytest.mark.parametrize(("deadline", "state"), [(35, "expired"), (90, "finished")])
def test_a_time_from_the_submission_on_moves_no_further_than_to_the_deadline(deadline: int, state: str) -> None:
    """The second job takes six slots and is freed after about forty."""
    pool, by, first = world_with_a_long_job(40)
    script = (
        f"#!/bin/bash\n#SBATCH --gpus=2 -t 1 --deadline=now+{deadline * 10}\n#SBATCH --dependency=afterok:{first.pk}\n"
    )
    worth = {"within_seconds": 300, "credits": "100", "later": "nothing"}
    second = job_describe(
        pool=pool, wording=JobWording(worth, script=script), lane="batch", by=by, at=moment(pool, 0.25)
    )
    assert isinstance(second, Submitted), second
    pass_until_all_is_over(pool, most=100)
    assert again(first).state == JobState.FINISHED
    assert again(second.job).state == state
    assert all(30 < end <= deadline + 0.25 for end in ends(second.job))
    with scope_disabled("the test verifies everything"):
        assert intervals_verify(pool_ids=[pool.pk]).is_clean
        assert jobs_verify(pool, list(TrainingJob.objects.order_by("pk"))) == []
        with as_superuser():
            TrainingJob.objects.filter(pk=second.job.pk).update(worth_from=None)
        (finding,) = jobs_verify(pool, list(TrainingJob.objects.order_by("pk")))
        assert "worth_from" in finding.what


def test_an_end_at_the_very_moment_is_in_time() -> None:
    pool, (lumen, _) = make_market("lumen", "castor")
    at = moment(pool, 0.2345678)
    for slot in (9, 10, 11):
        words = wording(pool, slot, name=f"by {slot}")
        job = job_describe(pool=pool, wording=words, lane="batch", by=member(lumen), at=at)
        assert isinstance(job, Submitted), job
        deadline = job.job.arrival + job.job.spec["value"]["deadline"]
        assert slot <= deadline < slot + 0.1 + 1e-9  # a slot has ten seconds
