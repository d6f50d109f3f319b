"""A job in pieces whose program comes no further rents no more in the end (D18)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse

from scheduling.engines.base import ENDED, LOST, PAUSED, STOPPED, Status
from scheduling.jobs.read_pieces import pieces_of
from scheduling.market.view import PiecesInVain, pieces_in_vain
from scheduling.models import Award, AwardState, Event, JobState, Run, Server, TrainingJob
from scheduling.runs.ends import run_end
from scheduling.runs.failures import AwardFailed, award_fail, server_lose
from tenants.access import access_of_system
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.core.builders import make_job
from tests.market.test_parts_worth_nothing import world_of
from tests.market.test_pieces import ONE, SLOWLY, World, pieces_market
from tests.scheduling.builders import make_cells, make_server
from tests.scheduling.clocks import advance, moment
from tests.scheduling.markets import make_waiting
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db
LASTS = {**SLOWLY, "slope": -0.01}
Reports = Callable[[int], dict[str, int]]


@pytest.fixture
def world() -> World:
    return pieces_market()


def ends(world: World, run: Run, state: str, slot: float, **progress: int) -> None:
    """A run ended at the boundary before a slot. That is heard of a moment later, when the next piece may be bought."""
    numbers = {"numbers": progress} if progress else run.progress
    status = Status(ENDED, end=state, ended_at=moment(world.pool, slot).timestamp(), progress=numbers)
    with scope_disabled("the test plays the engine"):
        assert run_end(run=Run.objects.get(pk=run.pk), status=status, at=moment(world.pool, slot + 0.05))


def pass_by(world: World, job: TrainingJob, reports: Reports, upto: int, first: int = 8) -> list[int]:
    """Let slots pass. The program reports something in its first, second, ... piece, and is stopped at the end of each.
    Return in which awards it ran."""
    runs: dict[int, Run] = {}
    for slot in range(first, upto):
        advance(world.pool, slot + 0.01)
        for award in world.awards(job):
            if award.pk in runs and award.end == slot and award.state == AwardState.DONE:
                ends(world, runs[award.pk], STOPPED, slot)
        for award in world.awards(job):
            if award.pk not in runs and award.state == AwardState.RUNNING:
                runs[award.pk] = world.runs(award, **reports(len(runs)))
    return list(runs)


def vain(job: TrainingJob) -> PiecesInVain | None:
    with scope_disabled("the test looks at runs"):
        return pieces_in_vain([job.pk]).get(job.pk)


def delivered(world: World, job: TrainingJob) -> list[Award]:
    return [award for award in world.awards(job) if award.state == AwardState.DONE]


@pytest.mark.one_case
@pytest.mark.parametrize("later", [{"epoch": 7, "of": 8}, {"epoch": 2, "of": 8}, {}])
def test_after_five_pieces_in_vain_a_job_rents_no_more(world: World, later: dict[str, int]) -> None:
    """Its program starts and saves for longer than its last piece has, begins anew in each, or does not even report."""
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: later if piece else {"epoch": 7, "of": 8}, upto=80)
    assert [award.work for award in delivered(world, job)][:2] == [8, 1]
    assert len(delivered(world, job)) == 6
    in_vain = vain(job)
    assert in_vain is not None
    assert (in_vain.pieces, in_vain.done, in_vain.whole) == (5, 7.0, 8.0)
    row = world.row(job)
    assert (row.state, row.reason_code, row.reason_numbers) == ("stopped", "no_progress", {"pieces": 5, "done": 0.875})
    with scope_disabled("the test reads the feed"):
        (end,) = Event.objects.filter(kind="job_stopped")
    assert (end.data["reason"], end.data["numbers"]["pieces"]) == ("no_progress", 5)
    assert world.held(world.guest) == 0
    assert world.is_proved
    answer = client_as(OWNER, world.guest).get(reverse("job", args=["guest", job.pk]), secure=True)
    page = text_of(answer.content.decode())
    assert "Its last 5 pieces brought it no further: its program says that 87.5 % of it is done." in page

    with scope_disabled("the test reads its pieces"):
        pieces = pieces_of(world.pool, row, world.awards(job), dict.fromkeys((a.pk for a in world.awards(job)), ""))
    assert pieces is not None
    assert pieces.share == 100.0 * later.get("epoch", 7) / 8  # what it bought again counts once


@pytest.mark.wide
def test_what_was_bought_at_the_boundary_comes_back_whole(world: World) -> None:
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: {"epoch": 0, "of": 8}, upto=57)  # each piece fills its window
    (last,) = [award for award in world.awards(job) if award.state != AwardState.DONE]
    assert (last.start, last.state, last.paid > 0, last.returned) == (56, AwardState.VOID, True, last.paid)
    assert world.row(job).reason_code == "no_progress"
    assert world.held(world.guest) == 0
    assert world.is_proved


@pytest.mark.wide
def test_what_was_bought_for_a_later_slot_comes_back_whole_too() -> None:
    world = pieces_market(cancellation_keep_percent=50)
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: {"epoch": 0, "of": 8}, upto=55)
    for _ in range(2):  # the owner's own jobs have both servers at first
        make_waiting(world.pool, world.owner, 54.5, epochs=1, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    runs = {award.pk: run_of(award) for award in world.awards(job)}
    advance(world.pool, 56.01)
    (fifth,) = [award for award in world.awards(job) if award.end == 56]
    ends(world, runs[fifth.pk], STOPPED, 56)
    last = world.awards(job)[-1]
    assert (last.start, last.state, last.paid > 0, last.returned) == (57, AwardState.VOID, True, last.paid)
    assert world.row(job).reason_code == "no_progress"
    assert world.is_proved


def run_of(award: Award) -> Run:
    with scope_disabled("the test looks at a run"):
        return Run.objects.get(award=award)


@pytest.mark.wide
def test_progress_begins_the_count_anew(world: World) -> None:
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    far = [5, 5, 5, 5, 5, 6, 6, 6, 6, 6]
    pass_by(world, job, lambda piece: {"epoch": far[piece], "of": 8}, upto=16 + 8 * 9)
    assert len(delivered(world, job)) > 6
    assert vain(job) is not None
    assert world.row(job).state in (JobState.QUEUED, JobState.RUNNING)


@pytest.mark.wide
def test_an_epoch_may_take_several_pieces(world: World) -> None:
    """An epoch has six mini-batches and takes the program four pieces."""
    job = world.long_job(epochs=2, value=LASTS, program={"name": "x"}, **{**ONE, "minibatches": 6})
    pass_by(world, job, lambda piece: {"epoch": min((piece + 1) // 4, 1), "of": 2}, upto=8 * 8)
    assert len(delivered(world, job)) >= 6
    assert world.row(job).reason_code != "no_progress"
    assert world.is_proved


@pytest.mark.parametrize(("pieces", "work", "too_many"), [(5, 50, True), (4, 90, False), (9, 49, False)])
def test_pieces_in_vain_are_too_many_where_there_was_time_for_as_many_epochs(
    pieces: int, work: int, too_many: bool
) -> None:
    job = make_job(0, epochs=8, chunks=1, minibatches=10)
    assert PiecesInVain(pieces, work, 3.0, 8.0).are_too_many(job) == too_many


def test_a_program_that_never_reports_has_no_pieces_in_vain(world: World) -> None:
    job = world.long_job(epochs=16, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: {}, upto=8 * 5)
    assert vain(job) is None
    assert world.row(job).reason_code == "reservation_ended"
    assert world.is_proved


def test_a_piece_that_came_further_before_a_pause_is_not_in_vain(world: World) -> None:
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    advance(world.pool, 12.01)
    (award,) = world.awards(job)
    ends(world, world.runs(award, epoch=7, of=8), PAUSED, 12)
    with scope_disabled("the market was started again"):
        first = Run.objects.get(award=award)
        again = Run.objects.get(pk=first.pk)
        again.pk, again.number, again.key, again.state = None, 1, "again", "running"
        again.save()
    advance(world.pool, 16.01)
    ends(world, again, STOPPED, 16)
    assert vain(job) is None


@pytest.mark.wide
def test_what_the_platform_lost_is_no_progress_to_be_passed(world: World) -> None:
    """At home it came to 42 of 60 before its server was lost. Its pieces bring it as far again, as planned."""
    home = make_server(world.pool, "g1", worker=1, ps=1)
    make_cells(home, world.guest, {"worker": 1, "ps": 1})
    job = world.long_job(epochs=60, value=LASTS, program={"name": "x"})
    advance(world.pool, 8.5)
    (own,) = world.awards(job)
    run = world.runs(own, epoch=42, of=60)
    advance(world.pool, 50.1)
    with scope_disabled("the test loses a server"):
        server = Server.objects.get(pk=home.pk)
    server_lose(server=server, by=access_of_system("the test"), reason="power", at=moment(world.pool, 50.2))
    ends(world, run, LOST, 50.3)
    pass_by(world, job, lambda piece: {"epoch": 7 * piece + 7, "of": 60}, upto=110, first=51)
    assert len(delivered(world, job)) >= 6
    assert vain(job) is None
    assert world.row(job).reason_code != "no_progress"


@pytest.mark.wide
def test_a_piece_whose_loss_is_heard_of_after_its_end_is_not_in_vain(world: World) -> None:
    """The silence was shorter than the engine's patience when the piece was paid and over. A piece that was given back
    is stopped all the same."""
    job = world.long_job(epochs=8, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: {"epoch": 7, "of": 8}, upto=17)
    (over,) = delivered(world, job)
    running = next(award for award in world.awards(job) if award.state == AwardState.RUNNING)
    assert vain(job) is None
    advance(world.pool, running.end + 0.01)
    ends(world, run_of(running), LOST, running.end - 0.1)
    assert world.awards(job)[1].state == AwardState.DONE
    assert run_of(running).state == "lost"
    assert vain(job) is None
    assert run_of(over).state == "stopped"
    assert world.row(job).reason_code != "no_progress"
    assert world.is_proved


@pytest.mark.wide
def test_a_job_that_is_promised_a_place_at_home_keeps_it(world: World) -> None:
    """Its own cell is taken for long. It rents until then, and comes home in the end as it would have alone."""
    make_cells(make_server(world.pool, "g1", worker=1, ps=1), world.guest, {"worker": 1, "ps": 1})
    make_waiting(world.pool, world.guest, epochs=60, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    steep = {"kind": "linear", "slope": -1.0, "base": 200.0}
    job = world.long_job(arrival=1.0, epochs=8, value=steep, program={"name": "x"})
    pass_by(world, job, lambda piece: {"epoch": 7, "of": 8}, upto=66)
    (floor, *_) = world.floors(job)
    assert floor.start == 68
    assert vain(job) is not None
    assert world.row(job).reason_code != "no_progress"
    advance(world.pool, 90)
    assert world.is_proved


@pytest.mark.wide
def test_while_a_rent_is_open_no_report_ends_a_job() -> None:
    """All rents of a job without cells are open where parts are worth nothing (D12, D17)."""
    nothing = world_of(clock_restart=False)
    world = World(nothing.pool, nothing.owner, nothing.guest)
    job = nothing.long_job(epochs=60, value=LASTS, program={"name": "x"})
    pass_by(world, job, lambda piece: {"epoch": 3, "of": 60}, upto=66)
    in_vain = vain(job)
    assert in_vain is not None
    assert in_vain.pieces >= 5
    assert world.row(job).reason_code != "no_progress"
    assert nothing.is_proved


@pytest.mark.wide
def test_a_program_that_was_done_in_a_piece_that_a_late_clock_has_still_to_settle_is_done(world: World) -> None:
    make_cells(make_server(world.pool, "g1", worker=1, ps=1), world.guest, {"worker": 1, "ps": 1})
    for _ in range(2):
        make_waiting(world.pool, world.owner, epochs=4, priority=5, value={**SLOWLY, "base": 500.0}, **ONE)
    steep = {"kind": "linear", "slope": -5.0, "base": 200.0}
    job = world.long_job(world.owner, epochs=12, value=steep, program={"name": "x"})
    advance(world.pool, 8.5)
    running, planned = world.awards(job)
    run = world.runs(running, epoch=11, of=12)
    advance(world.pool, 9.5)
    late = moment(world.pool, planned.start + 0.5)  # the engine goes by the time, the market's clock stands at slot 9
    assert isinstance(award_fail(award_id=planned.pk, slot=planned.start, detail="power", at=late), AwardFailed)
    world.finishes(run, slot=planned.start - 0.1, news_slot=planned.start + 0.55)
    assert world.row(job).state == JobState.FINISHED
    advance(world.pool, planned.start + 5)
    assert len(world.awards(job)) == 2
    assert world.row(job).state == JobState.FINISHED
    assert world.is_proved
