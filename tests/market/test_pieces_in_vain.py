"""A job in pieces whose program comes no further: longer pieces first, and then no more (D18)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse

from scheduling.engines.base import ENDED, STOPPED, Status
from scheduling.market.view import PiecesInVain, pieces_in_vain
from scheduling.models import AwardState, Event, JobState, Run, TrainingJob
from scheduling.runs.ends import run_end
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.core.builders import make_job
from tests.market.test_pieces import ONE, SLOWLY, World, pieces_market
from tests.scheduling.builders import make_cells, make_server
from tests.scheduling.clocks import advance, moment
from tests.scheduling.markets import make_waiting
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db
LASTS = {**SLOWLY, "slope": -0.01}


@pytest.fixture
def world() -> World:
    return pieces_market()


def pass_by(world: World, job: TrainingJob, reports: Callable[[int], dict[str, int]], upto: int) -> None:
    """Let slots pass. The program of a job reports something in its first, second, ... piece, and is stopped at the end
    of each. That is heard of a moment after the boundary, when the next piece may be bought already."""
    runs: dict[int, Run] = {}
    for slot in range(8, upto):
        advance(world.pool, slot + 0.01)
        for award in world.awards(job):
            if award.pk in runs and award.end == slot:
                end = moment(world.pool, slot).timestamp()
                status = Status(ENDED, end=STOPPED, ended_at=end, progress=runs[award.pk].progress)
                with scope_disabled("the test plays the engine"):
                    run_end(run=runs[award.pk], status=status, at=moment(world.pool, slot + 0.05))
        for award in world.awards(job):
            if award.start == slot and award.state == AwardState.RUNNING:
                runs[award.pk] = world.runs(award, **reports(len(runs)))


def vain(job: TrainingJob) -> PiecesInVain | None:
    with scope_disabled("the test looks at runs"):
        return pieces_in_vain([job.pk]).get(job.pk)


def test_pieces_in_vain_become_longer_and_then_the_job_rents_no_more(world: World) -> None:
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: {"epoch": 7, "of": 8}, upto=120)
    first, *others = world.awards(job)
    assert (first.start, first.end, first.work) == (8, 16, 8)
    bought = [award for award in others if award.state == AwardState.DONE]
    assert [award.end - award.start for award in bought] == [1, 2, 4, 8, 8]
    assert [award.work for award in bought] == [1, 2, 4, 8, 8]
    assert vain(job) == PiecesInVain(5, 23, 7.0, 8.0)
    row = world.row(job)
    assert (row.state, row.reason_code, row.reason_numbers) == ("stopped", "no_progress", {"pieces": 5, "done": 0.875})
    with scope_disabled("the test reads the feed"):
        (end,) = Event.objects.filter(kind="job_stopped")
    assert (end.data["reason"], end.data["numbers"]["pieces"]) == ("no_progress", 5)
    (back,) = others[5:]  # bought at the boundary at which the fifth one ended
    assert (back.state, back.paid > 0, back.returned) == (AwardState.VOID, True, back.paid)
    assert world.held(world.guest) == 0
    assert world.is_proved
    page = client_as(OWNER, world.guest).get(reverse("job", args=["guest", job.pk]), secure=True)
    assert "Its last 5 pieces brought it no further: its program says that 87.5 % of it is done." in text_of(
        page.content.decode()
    )


def test_a_program_that_needed_a_longer_piece_is_done(world: World) -> None:
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: {"epoch": 7, "of": 8}, upto=25)
    last = world.awards(job)[-1]
    assert (last.start, last.end, last.state) == (24, 26, AwardState.RUNNING)
    with scope_disabled("the test plays the engine"):
        run = Run.objects.get(award=last)
    world.finishes(run, slot=last.end - 0.1, heard=last.end - 0.05)
    assert world.row(job).state == JobState.FINISHED
    advance(world.pool, 60)
    assert world.held(world.guest) == 0
    assert world.is_proved


def test_progress_begins_the_count_anew(world: World) -> None:
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    far = [5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6]
    pass_by(world, job, lambda piece: {"epoch": far[piece], "of": 8}, upto=16 + 8 * 9)
    assert vain(job) is not None
    assert world.row(job).state in (JobState.QUEUED, JobState.RUNNING)
    assert len([award for award in world.awards(job) if award.state == AwardState.DONE]) > 6


def test_an_epoch_may_take_several_pieces_and_none_becomes_longer_than_the_largest_before(world: World) -> None:
    """An epoch has six mini-batches and takes the program four pieces: it is done in the end."""
    job = world.long_job(epochs=2, value=LASTS, program={"name": "x"}, **{**ONE, "minibatches": 6})
    pass_by(world, job, lambda piece: {"epoch": min((piece + 1) // 4, 1), "of": 2}, upto=8 * 8)
    assert [award.work for award in world.awards(job)] == [7, 6, 7, 7, 6, 7, 7]
    assert world.row(job).reason_code != "no_progress"
    assert world.is_proved


@pytest.mark.parametrize(("pieces", "work", "too_many"), [(5, 50, True), (4, 90, False), (9, 49, False)])
def test_pieces_in_vain_are_too_many_where_there_was_time_for_as_many_epochs(
    pieces: int, work: int, too_many: bool
) -> None:
    job = make_job(0, epochs=8, chunks=1, minibatches=10)
    assert PiecesInVain(pieces, work, 3.0, 8.0).are_too_many(job) == too_many


def test_a_program_that_reports_nothing_has_no_pieces_in_vain(world: World) -> None:
    job = world.long_job(epochs=16, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: {}, upto=8 * 5)
    assert vain(job) is None
    assert world.row(job).reason_code == "reservation_ended"
    assert world.is_proved


def test_a_job_that_is_promised_a_place_at_home_keeps_it(world: World) -> None:
    """Its own cell is taken for long. It rents until then, and comes home in the end as it would have alone."""
    make_cells(make_server(world.pool, "g1", worker=1, ps=1), world.guest, {"worker": 1, "ps": 1})
    make_waiting(world.pool, world.guest, epochs=60, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    job = world.long_job(
        arrival=1.0, epochs=8, value={"kind": "linear", "slope": -1.0, "base": 200.0}, program={"name": "x"}
    )
    pass_by(world, job, lambda piece: {"epoch": 7, "of": 8}, upto=66)
    (floor, *_) = world.floors(job)
    assert floor.start == 68
    assert vain(job) is not None
    assert world.row(job).reason_code != "no_progress"
    advance(world.pool, 90)
    assert world.is_proved
