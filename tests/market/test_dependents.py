"""Jobs that wait for others of their tenant: they enter the market once those have ended well, or end with them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.app.clock import pool_advance
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.engines.base import ENDED, FINISHED, STOPPED, Status
from scheduling.jobs import InvalidJob, Submitted, job_submit
from scheduling.jobs.arrays import SubmittedArray, array_submit
from scheduling.jobs.cancellation import job_cancel
from scheduling.market.decide import dependents
from scheduling.market.decide.dependents import dependents_move, fates
from scheduling.market.reads import jobs_named, reason_sentence
from scheduling.models import AFTER_OTHERS, Pool, Run, RunState, StartEstimate, TrainingJob
from scheduling.runs.ends import run_end
from tenants.access import Access
from tenants.roles import SUBMITTER
from tenants.scoping import scope_disabled
from tests.database import overrule
from tests.scheduling.builders import make_tenant
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import INSTANT, member
from tests.scheduling.markets import SPEC, again, award_of, make_market
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> tuple[Pool, Access]:
    pool, (lumen, _) = make_market("lumen", "castor", instant_policy=INSTANT)
    return pool, member(lumen)


def submitted(pool: Pool, by: Access, *after: TrainingJob, slot: float = 0.1, **words: Any) -> Any:
    wish = {"lane": "batch", "name": "train", "at": moment(pool, slot)} | words
    outcome = job_submit(pool=pool, spec=SPEC, by=by, after=[job.pk for job in after], **wish)
    return outcome.job if isinstance(outcome, Submitted) else outcome


def proven(pool: Pool) -> list[Any]:
    with scope_disabled("the test verifies everything"):
        return jobs_verify(pool, list(TrainingJob.objects.select_related("pool")))


def test_enters_the_market_at_the_boundary_at_which_the_other_has_ended_well(world) -> None:
    pool, by = world
    first = submitted(pool, by)
    second = submitted(pool, by, first)
    assert (second.state, second.reason_code, second.reason_numbers) == (
        "queued",
        "waits_for_jobs",
        {"jobs": f"J-{first.pk}"},
    )
    with scope_disabled("nobody can say when it starts"):
        assert StartEstimate.objects.filter(job=second).count() == 0
    for slot in range(1, 30):
        before = again(first).state
        advance(pool, slot)
        if again(first).state != "finished":
            assert again(second).reason_code == "waits_for_jobs"
            assert again(second).not_before == AFTER_OTHERS
        elif before != "finished":
            assert (again(second).arrival, again(second).not_before) == (slot, 0)  # its value counts from here
            assert again(second).reason_code != "waits_for_jobs"
    assert {again(job).state for job in (first, second)} == {"finished"}
    assert proven(pool) == []


@pytest.mark.parametrize("end", [FINISHED, STOPPED])
def test_waits_until_the_engine_has_said_how_a_program_ended_whose_time_is_over(world, end: str) -> None:
    pool, by = world
    first = submitted(pool, by)
    second = submitted(pool, by, first)
    slots = iter(range(1, 20))
    while again(first).state != "running":
        advance(pool, next(slots))
    award = award_of(first)
    with scope_disabled("the test plays the engine"):
        run = Run.objects.create(
            tenant=first.tenant, job=first, award=award, number=0, engine="local", key="a" * 32, state=RunState.RUNNING,
            ends_at=moment(pool, award.end), due_at=moment(pool, award.start), seen_at=moment(pool, award.end),
        )  # fmt: skip
    advance(pool, award.end)  # the clock passes the end of the award before the engine has looked
    assert (again(first).state, again(first).reason_code) == ("stopped", "reservation_ended")
    assert (again(second).state, again(second).reason_code) == ("queued", "waits_for_jobs")
    third = submitted(pool, by, first, slot=award.end + 0.05)  # whoever comes now waits for the engine's word as well
    assert (third.state, third.reason_code) == ("queued", "waits_for_jobs")
    status = Status(ENDED, end=end, ended_at=moment(pool, award.end - 0.01).timestamp())
    with scope_disabled("the test plays the engine"):
        assert run_end(run=run, status=status, at=moment(pool, award.end + 0.1))
    advance(pool, award.end + 1)
    done = end == FINISHED
    assert again(first).state == ("finished" if done else "stopped")
    for waiting in (second, third):
        assert (again(waiting).state == "rejected") is not done
        assert again(waiting).not_before == (0 if done else AFTER_OTHERS)
    late = submitted(pool, by, first, slot=award.end + 1.1)  # the end is known: nothing is to be waited for any more
    if done:
        assert (late.state, late.not_before) == ("queued", 0)
    else:
        assert late.sentence == f"after: must be jobs that can end well, and J-{first.pk} is stopped."
    assert proven(pool) == []


def test_a_job_that_is_finished_while_it_is_asked_about_has_ended_well(world, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of another pool takes no lock of this one's, so it may say it at any moment."""
    pool, by = world
    first = submitted(pool, by)
    second = submitted(pool, by, first)
    slots = iter(range(1, 20))
    while again(first).state != "running":
        advance(pool, next(slots))
    award = award_of(first)
    with scope_disabled("the test plays the engine"):
        run = Run.objects.create(
            tenant=first.tenant, job=first, award=award, number=0, engine="local", key="a" * 32, state=RunState.RUNNING,
            ends_at=moment(pool, award.end), due_at=moment(pool, award.start), seen_at=moment(pool, award.end),
        )  # fmt: skip
    advance(pool, award.end)
    assert again(first).state == "stopped"
    question = dependents.not_heard_of

    def finished_meanwhile(*words: Any) -> Any:
        status = Status(ENDED, end=FINISHED, ended_at=moment(pool, award.end - 0.01).timestamp())
        assert run_end(run=run, status=status, at=moment(pool, award.end + 0.9))
        return question(*words)

    monkeypatch.setattr(dependents, "not_heard_of", finished_meanwhile)
    assert dependents_move(pool=pool, at=moment(pool, award.end + 1)) == 1
    assert (again(second).state, again(second).not_before) == ("queued", 0)
    assert proven(pool) == []


def test_chain_ends_with_the_job_that_did_not_end_well(world) -> None:
    pool, by = world
    first = submitted(pool, by)
    second = submitted(pool, by, first)
    third = submitted(pool, by, second)
    job_cancel(job_id=first.pk, by=by, at=moment(pool, 0.2))
    advance(pool, 1)
    reasons = [(again(job).state, again(job).reason_code, again(job).reason_numbers) for job in (second, third)]
    assert reasons == [
        ("rejected", "dependency_failed", {"job": first.pk, "outcome": "cancelled"}),
        ("rejected", "dependency_failed", {"job": second.pk, "outcome": "rejected"}),
    ]
    assert "was cancelled" in reason_sentence(pool, *reasons[0][1:])
    assert proven(pool) == []
    assert dependents_move(pool=pool, at=moment(pool, 1)) == 0  # a second worker finds nothing to do


def test_begins_neither_before_its_own_moment_nor_before_the_other_has_ended(world) -> None:
    pool, by = world
    first = submitted(pool, by)
    later = submitted(pool, by, first, begin=moment(pool, 25.5))
    advance(pool, 20)
    assert again(first).state == "finished"
    assert (again(later).arrival, again(later).reason_code) == (25.5, "waiting_for_interval")
    assert proven(pool) == []


def test_is_taken_back_while_it_waits_and_named_jobs_are_part_of_its_key(world) -> None:
    pool, by = world
    first = submitted(pool, by)
    second = submitted(pool, by, first, client_key="k")
    assert submitted(pool, by, first, client_key="k") == second
    assert submitted(pool, by, client_key="k").code == "key_reused"
    assert job_cancel(job_id=second.pk, by=by, at=moment(pool, 0.3)).state == "cancelled"
    advance(pool, 30)
    assert (again(second).state, again(second).reason_code) == ("cancelled", "cancelled_by")
    assert proven(pool) == []
    overrule("UPDATE scheduling_trainingjob SET after = '[]' WHERE id = %s", [second.pk])
    assert "not what was submitted" in str(proven(pool))


def test_who_has_ended_well_already_is_not_waited_for(world) -> None:
    pool, by = world
    first = submitted(pool, by)
    advance(pool, 20)
    second = submitted(pool, by, first, slot=20.1)
    assert (second.reason_code, second.not_before, second.after) == ("waiting_for_interval", 0, [first.pk])
    advance(pool, 40)
    assert again(second).state == "finished"
    assert proven(pool) == []


def test_foreign_jobs_and_jobs_that_do_not_exist_are_refused_alike(world) -> None:
    pool, by = world
    foreign = submitted(pool, member(make_tenant("castor")))
    own = submitted(pool, by)
    job_cancel(job_id=own.pk, by=by, at=moment(pool, 0.2))
    missing = TrainingJob(pk=own.pk + 1)
    for job, sentence in (
        (foreign, f"after: must be jobs of the tenant, and there is no J-{foreign.pk}."),
        (missing, f"after: must be jobs of the tenant, and there is no J-{missing.pk}."),
        (own, f"after: must be jobs that can end well, and J-{own.pk} is cancelled."),
    ):
        refusal = submitted(pool, by, job)
        assert isinstance(refusal, InvalidJob)
        assert (refusal.code, refusal.field, refusal.sentence) == ("invalid_job", "after", sentence)
    assert submitted(pool, by, foreign, lane="instant").sentence == "after: a job of the instant lane is decided now."


def test_boundary_that_somebody_else_works_on_is_left_to_them(world, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, by = world
    submitted(pool, by, submitted(pool, by))
    monkeypatch.setattr("scheduling.market.decide.dependents.lane_lock", lambda **_: None)
    assert pool_advance(pool_id=pool.pk, at=moment(pool, 1)).busy


def test_late_clock_ends_nobody_before_it_was_submitted(world) -> None:
    pool, by = world
    first = submitted(pool, by, slot=7.1)
    second = submitted(pool, by, first, slot=7.2)
    job_cancel(job_id=first.pk, by=by, at=moment(pool, 7.3))
    advance(pool, 7.5)  # from boundary 0 on
    assert (again(second).state, again(second).ended_at) == ("rejected", second.submitted_at)
    assert proven(pool) == []


def test_fates_of_whole_chains_in_one_pass() -> None:
    states = {1: "finished", 2: "failed", 3: "running", 4: "queued", 5: "queued", 6: "queued", 7: "queued"}
    fate = fates({4: [1], 5: [1, 2], 6: [3], 7: [1, 5]}, states)
    assert fate.free == {4}
    assert fate.broken == {5: (2, "failed"), 7: (5, "rejected")}


def test_names_of_many_jobs_are_counted() -> None:
    assert jobs_named([8, 9]) == "J-8, J-9"
    assert jobs_named(range(1, 12)).endswith("J-8 and 3 more")


def test_page_names_whom_it_waits_for_with_their_states(world) -> None:
    pool, by = world
    first = submitted(pool, by, name="prepare")
    second = submitted(pool, by, first)
    page = client_as(SUBMITTER, by.tenant).get(f"/t/lumen/jobs/{second.pk}/", secure=True).content.decode()
    assert f"Waits for J-{first.pk}." in page
    assert f'/t/lumen/jobs/{first.pk}/">J-{first.pk} prepare</a>' in page
    assert "It waits for" in page  # in its story


def array_of(pool: Pool, by: Access, count: int = 3, **words: Any) -> Any:
    wish = {"name": "sweep", "spec": SPEC, "at": moment(pool, 0.1)} | words
    outcome = array_submit(pool=pool, by=by, count=count, **wish)
    return outcome.array if isinstance(outcome, SubmittedArray) else outcome


@pytest.mark.wide
def test_a_job_waits_for_all_jobs_of_an_array(world) -> None:
    pool, by = world
    array = array_of(pool, by)
    wish = {"lane": "batch", "name": "sum", "at": moment(pool, 0.2), "after": [f"A-{array.pk}"]}
    outcome = job_submit(pool=pool, spec=SPEC, by=by, **wish)
    assert isinstance(outcome, Submitted)
    last = outcome.job
    assert (last.reason_code, last.reason_numbers) == ("waits_for_jobs", {"jobs": f"A-{array.pk}"})
    with scope_disabled("the test looks at the array's jobs"):
        members = list(TrainingJob.objects.filter(array=array))
    for slot in range(1, 40):
        advance(pool, slot)
        assert (again(last).not_before == 0) == ({again(job).state for job in members} == {"finished"})
    assert again(last).state == "finished"
    html = client_as(SUBMITTER, by.tenant).get(f"/t/lumen/jobs/{last.pk}/", secure=True).content.decode()
    assert "To begin after all jobs of" in html
    assert f"A-{array.pk} sweep" in html
    assert proven(pool) == []


def test_it_ends_with_the_first_job_of_the_array_that_did_not_end_well(world) -> None:
    pool, by = world
    array = array_of(pool, by, 40)
    wish = {"lane": "batch", "name": "sum", "at": moment(pool, 0.2), "after": [f"A-{array.pk}"]}
    outcome = job_submit(pool=pool, spec=SPEC, by=by, **wish)
    assert isinstance(outcome, Submitted)
    follower = array_of(pool, by, 2, name="more", after=[f"A-{array.pk}", outcome.job.pk], at=moment(pool, 0.3))
    with scope_disabled("the test looks at the array's jobs"):
        lost = TrainingJob.objects.get(array=array, array_place=30)
        waiting = [outcome.job, *TrainingJob.objects.filter(array=follower)]
    job_cancel(job_id=lost.pk, by=by, at=moment(pool, 0.4))
    advance(pool, 1)
    ends = [(again(job).state, again(job).reason_code, again(job).reason_numbers["job"]) for job in waiting]
    assert (
        ends == [("rejected", "dependency_failed", lost.pk)] + [("rejected", "dependency_failed", outcome.job.pk)] * 2
    )
    late = array_of(pool, by, 2, after=[f"A-{array.pk}"], at=moment(pool, 1.5))
    assert late.sentence == f"after: must be jobs that can end well, and J-{lost.pk} of A-{array.pk} is cancelled."
    assert proven(pool) == []


def test_somebody_elses_array_is_one_that_is_not_there(world) -> None:
    pool, by = world
    foreign = array_of(pool, member(make_tenant("castor")))
    for number in (foreign.pk, 987654):
        refusal = array_of(pool, by, after=[f"A-{number}"])
        assert refusal.sentence == f"after: must be arrays of the tenant, and there is no A-{number}."
        assert refusal.field == "after"


def test_bare_number_of_an_array_is_refused_with_how_it_is_written(world) -> None:
    pool, by = world
    overrule("SELECT setval(pg_get_serial_sequence('scheduling_jobarray', 'id'), 900000)", [])
    array = array_of(pool, by)
    refusal = array_of(pool, by, after=[array.pk])
    assert refusal.sentence.endswith(f"there is no J-{array.pk}; the array of that number is A-{array.pk}.")


def test_an_array_stands_as_the_worst_of_its_jobs() -> None:
    members = {"A-1": [1, 2], "A-2": [2, 3], "A-3": [1, 9]}
    states = {1: "finished", 2: "finished", 3: "running", 9: "failed"}
    fate = fates({10: ["A-1"], 11: ["A-2"], 12: ["A-3"], 13: ["A-1", "A-2"], 14: ["A-2", "A-3"]}, states, members)
    assert fate.free == {10}
    assert fate.broken == {12: (9, "failed"), 14: (9, "failed")}
