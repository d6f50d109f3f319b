"""Whether a job rents in pieces where nobody says it, the ways to say it, and what a stranger's numbers count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from scheduling.jobs import JobWording, Submitted, job_describe
from scheduling.jobs.arrays import SubmittedArray, array_describe, array_submit
from scheduling.jobs.read_courses import Begun, CourseRecord, Guess, courses_record, record
from scheduling.jobs.submission import InvalidJob, job_submit
from scheduling.market.elastic.read_slots import share_reported
from scheduling.market.view.pieces import PiecesSoFar, left_of, pieces_so_far
from scheduling.market.view.specs import SpecReader
from scheduling.models import Award, Event, JobState, Pool, Run, RunState, TrainingJob
from scheduling.programs.hours import to_bytes
from scheduling.programs.saving import Saves, pieces_added
from scheduling.programs.sbatch import IGNORED, UNDERSTOOD, Script
from scheduling.programs.sbatch import read as script_read
from scheduling.quotes.quotes import Quote, job_quote
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope, scope_disabled
from tests.catalogue.builders import allow, register
from tests.market.test_pieces import ONE, SLOWLY, World, world
from tests.scheduling.builders import make_pool, make_server
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import member
from tests.scheduling.markets import SPEC
from tests.scheduling.pages import client_as, text_of

__all__ = ["world"]

needs_rows = pytest.mark.django_db

LONG = {**SPEC, **ONE, "epochs": 40, "value": SLOWLY}
TRAINER = {"program": {"name": "trainer", "parameters": {}}}
RING = {**LONG, "ps_demand": [], "program": {"name": "align"}}
AT = 0.5


def submitted(pool: Pool, tenant: Tenant, spec: dict[str, Any], **more: Any) -> TrainingJob:
    order = {"pool": pool, "name": "long", "spec": spec, "lane": "batch", "by": member(tenant), "at": moment(pool, AT)}
    outcome = job_submit(**order | more)
    assert isinstance(outcome, Submitted), outcome
    with scope(tenant):
        outcome.job.refresh_from_db()
    return outcome.job


def said_of(job: TrainingJob) -> tuple[Any, Any]:
    return job.spec.get("divisible"), job.spec.get("save_slots")


@pytest.mark.parametrize(
    ("spec", "saves", "more", "added"),
    [
        ({}, Saves("live"), {}, {"divisible": True}),
        ({}, Saves("restart", 30.0), {}, {"divisible": True, "save_slots": 0.5}),
        ({}, Saves("restart", 90.0), {}, {"divisible": True, "save_slots": 1.0}),  # the grace is at most a slot
        ({}, Saves("none", 30.0), {}, {}),
        ({}, None, {}, {}),
        ({"save_slots": 0.2}, Saves("restart", 30.0), {}, {"divisible": True}),
        ({"divisible": True}, Saves("none", 30.0), {}, {"save_slots": 0.5}),
        ({"divisible": False}, Saves("restart", 30.0), {}, {}),
        ({"rent": "never"}, Saves("restart", 30.0), {}, {}),
        ({}, Saves("restart", 30.0), {"together": True}, {}),
        ({}, Saves("restart", 30.0), {"sells_pieces": False}, {}),
    ],
)
def test_a_program_that_goes_on_makes_its_job_divisible(
    spec: dict[str, Any], saves: Saves | None, more: dict[str, Any], added: dict[str, Any]
) -> None:
    settings = {"sells_pieces": True, "together": False} | more
    assert pieces_added(spec, saves, 60.0, **settings) == added


@needs_rows
def test_what_is_stored_says_whether_it_rents_in_pieces(world: World) -> None:
    allow(world.guest)
    register(member(world.guest), resize="restart", grace_seconds=5)
    pool, guest = world.pool, world.guest
    quote = job_quote(pool=pool, name="q", spec=RING, lane="batch", by=member(guest), at=moment(pool, AT))
    assert isinstance(quote, Quote)
    assert quote.terms.course is not None  # a quote is of what would be stored
    short = {**LONG, "epochs": 4}
    assert said_of(submitted(pool, guest, short)) == (None, None)  # nobody knows whether it can be saved
    first = submitted(pool, guest, LONG | TRAINER, client_key="once")
    assert said_of(first) == (True, None)
    assert submitted(pool, guest, LONG | TRAINER, client_key="once").pk == first.pk
    assert said_of(submitted(pool, guest, RING)) == (True, 0.5)
    assert said_of(submitted(pool, guest, {**RING, "epochs": 4, "divisible": False})) == (False, None)
    assert said_of(submitted(pool, guest, {**RING, "save_slots": 2})) == (True, 2)
    paper = make_pool(slug="paper", batch_policy={"name": "astraea", "mode": "paper"})
    make_server(paper, "p1", worker=1, ps=1)
    assert said_of(submitted(paper, guest, {**RING, "epochs": 4})) == (None, None)


@needs_rows
def test_what_is_bought_together_is_whole_unless_somebody_says_otherwise(world: World) -> None:
    short = {**LONG, **TRAINER, "epochs": 4}
    order = {"pool": world.pool, "name": "many", "count": 2, "by": member(world.guest), "at": moment(world.pool, AT)}
    together = array_submit(spec=short, together=True, **order)
    apart = array_submit(spec=short, **order)
    assert isinstance(together, SubmittedArray)
    assert isinstance(apart, SubmittedArray)
    with scope(world.guest):
        settings = {job.array_id: said_of(job) for job in TrainingJob.objects.all()}
    assert settings == {together.array.pk: (None, None), apart.array.pk: (True, None)}
    refused = array_submit(spec={**short, "divisible": True}, together=True, **order)
    assert isinstance(refused, InvalidJob)
    assert refused.field == "together"


SCRIPT = "#!/bin/bash -eu\n#SBATCH --job-name=train --nodes=1-2 --gpus-per-node=1 --time=0:00:40\npython3 train.py\n"
WORTH = {"within_seconds": 600, "credits": "100", "later": "half"}


@needs_rows
@pytest.mark.parametrize(("ours", "flag"), [("", None), ("#BOURSE --whole\n", False), ("#BOURSE --divisible\n", True)])
def test_one_job_by_its_script_in_hours_and_in_detail_is_the_same_to_the_byte(
    world: World, ours: str, flag: bool | None
) -> None:
    """A script with a range of nodes is a program that is started again at another size: it goes on in pieces."""
    allow(world.guest)
    pool, guest = world.pool, world.guest
    who = {"pool": pool, "lane": "batch", "by": member(guest), "at": moment(pool, AT)}
    by_script = job_describe(wording=JobWording(WORTH, script=SCRIPT.replace("python3", f"{ours}python3", 1)), **who)
    assert isinstance(by_script, Submitted), by_script
    spec = by_script.job.spec
    answers = {"hours": "0.0111111", "most": 2, "least": 1}  # forty seconds, rounded up
    wording = JobWording(WORTH, hours=answers, program=spec["program"], name="train", divisible=flag)
    in_hours = job_describe(wording=wording, **who)
    assert isinstance(in_hours, Submitted), in_hours
    plain = {name: entry for name, entry in spec.items() if name not in ("divisible", "save_slots")}
    detail = submitted(pool, guest, plain | ({} if flag is None else {"divisible": flag}), name="train")
    assert said_of(detail) == ((False, None) if flag is False else (True, 1.0))
    assert {to_bytes(each) for each in (spec, in_hours.job.spec, detail.spec)} == {to_bytes(detail.spec)}
    # What is said beside a script counts before its lines.
    other = job_describe(wording=JobWording(WORTH, script=SCRIPT, divisible=False), **who)
    assert isinstance(other, Submitted)
    assert other.job.spec["divisible"] is False


@needs_rows
def test_an_array_by_a_script_that_is_bought_together_is_whole(world: World) -> None:
    allow(world.guest)
    script = SCRIPT.replace("--nodes=1-2", "--nodes=1-2 --array=0-1")
    order = {"pool": world.pool, "count": None, "by": member(world.guest), "at": moment(world.pool, AT)}
    array = array_describe(wording=JobWording(WORTH, script=script), together=True, **order)
    assert isinstance(array, SubmittedArray), array
    with scope(world.guest):
        assert {said_of(job) for job in TrainingJob.objects.all()} == {(None, None)}


def test_lines_of_ours_are_read_in_the_head_of_a_script() -> None:
    head = "#!/bin/bash -eu\n#SBATCH --gpus=1 --time=60\n"
    read = script_read(f"{head}#BOURSE --divisible\n#BOURSE\n#BOURSE --whole\n#BOURSED\nls\n#BOURSE --divisible\n")
    assert isinstance(read, Script)
    assert read.options.divisible is False
    assert [(line.number, line.option, line.verdict) for line in read.lines if line.number > 2] == [
        (3, "--divisible", IGNORED), (4, "", IGNORED), (5, "--whole", UNDERSTOOD), (8, "", IGNORED)
    ]  # fmt: skip
    refused = script_read(f"{head}#BOURSE --divisable now\nls\n")
    assert isinstance(refused, tuple)
    assert [(each.line, each.nearest) for each in refused] == [(3, "--divisible"), (3, "--divisible")]
    assert isinstance(script_read(f"{head}#SBATCH --divisible\nls\n"), tuple)  # which is no option of sbatch


@pytest.mark.parametrize(
    ("numbers", "share"),
    [
        ({"step": 30, "of": 100}, (30.0, 100.0)),
        ({"epoch": 3, "of": 8, "loss": 0.1}, (3.0, 8.0)),
        ({"step": 400, "epoch": 3, "of": 8}, (8.0, 8.0)),  # of one of them: then more is done than less
        ({"step": -5, "of": 100}, (0.0, 100.0)),
        ({"step": 5}, None),
        ({"of": 5}, None),
        ({"step": 5, "of": 0}, None),
        ({"step": 5, "of": float("inf")}, None),
        ({"step": 5, "of": "many"}, None),
        ({"step": 5, "of": 10**400}, None),
        (None, None),
        ([5], None),
    ],
)
def test_what_a_program_of_ones_own_says_is_done(numbers: object, share: object) -> None:
    assert share_reported({"numbers": numbers}) == share
    assert share_reported(numbers) is None


@needs_rows
def test_the_numbers_of_ones_own_program_count_where_no_refund_depends_on_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No engine is at work here, so no job has a program: what says that one has is looked for in another field.
    monkeypatch.setattr("scheduling.market.view.pieces.PROGRAM", "epochs")
    job = world.long_job()
    advance(world.pool, 16.1)
    first, second = world.awards(job)
    assert (first.work, second.work) == (7, 7)

    def says(award: Award, **numbers: Any) -> PiecesSoFar:
        with scope(world.guest):
            about = {"engine": "local", "program": "align", "state": RunState.STOPPED, "seen_at": timezone.now()}
            about |= {"ends_at": timezone.now(), "due_at": timezone.now(), "progress": {"numbers": numbers}}
            Run.objects.update_or_create(key=f"k{award.pk}", job=job, award=award, defaults=about)
            return pieces_so_far([job])[job.pk]

    read = SpecReader(world.pool).read(job)
    assert left_of(read, says(first)) == 26
    assert left_of(read, says(first, step=3, of=40)) == 36  # it did not come as far as was planned
    assert left_of(read, says(first, step=39, of=40)) == 26  # what was planned is the least that is left
    assert left_of(read, says(second, step=9, of=40)) == 30  # the newest start says it
    # The same of a job whose rents are open: what its owner gets back would depend on it.
    with scope_disabled("the test opens a rent"):
        Award.objects.filter(pk=second.pk).update(rent="open")
        assert pieces_so_far([job])[job.pk].epochs is None
        Award.objects.filter(pk=second.pk).update(rent="")
    # It pays for what it takes: who says that nothing is done is sold the whole work once more, and all is proved.
    says(second, step=0, of=40)
    advance(world.pool, 24.1)
    with scope(world.guest):
        saved = Event.objects.filter(subject=f"job:{job.pk}", kind="job_saved").order_by("pk")
        assert [event.data["left"] for event in saved] == [33, 39]
    paid = sum(award.paid for award in world.awards(job))
    advance(world.pool, 33.0)
    assert sum(award.paid for award in world.awards(job)) >= paid
    assert world.is_proved


def test_how_guesses_of_a_course_held_is_counted() -> None:
    first = Guess(pieces=4, end=40, price=100)
    begun = [Begun(first, 40, 100), Begun(first, 32, 120), Begun(first, 48, 90), Begun(first, None, 10)]
    course = record([*begun, Begun(replace(first, end=30), 34, 100)])
    assert course == CourseRecord(jobs=5, by_then=2, later=2, later_by=6.0, unfinished=1, no_dearer=4)
    assert course.sentence == (
        "of 5 jobs, 2 ended by the guessed end; 2 later, half of them by at most 6 slots; 1 did not finish; "
        "4 cost no more than guessed."
    )
    assert record([]) == CourseRecord()


@pytest.mark.wide
@needs_rows
def test_a_likely_course_stands_beside_how_such_guesses_held(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    client = client_as(OWNER, world.guest)
    page = text_of(client.get(f"/t/guest/jobs/{job.pk}/", secure=True).content.decode())
    assert "about 6 pieces as large" in page
    assert "nobody can say how well such a guess holds" in page
    advance(world.pool, 80.5)
    assert world.row(job).state == JobState.FINISHED
    with scope(world.guest):
        assert courses_record(world.pool) == CourseRecord(jobs=1, by_then=1, no_dearer=1)
    later = world.long_job(arrival=81.0)
    advance(world.pool, 97.0)
    page = text_of(client.get(f"/t/guest/jobs/{later.pk}/", secure=True).content.decode())
    assert "of 1 job, 1 ended by the guessed end" in page
