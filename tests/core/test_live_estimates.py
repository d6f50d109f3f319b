"""What running programs report: a job ends where it converges, and nobody gains by reporting something else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.estimates.live import (
    CONVERGED,
    DECLARED,
    EXHAUSTED,
    FITTED,
    Belief,
    LossReports,
    LossTarget,
    Running,
    believed,
    believed_speed,
    converged_after,
    end_of,
    informed,
    outlooks,
)
from scheduling.core.estimates.remaining import seconds_left
from scheduling.core.policies import build
from scheduling.core.records import plan_bytes, view_bytes, view_from
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, HeedsReports, View
from scheduling.lab.reproduction.misjudging import Misjudged, with_epochs
from tests.core.builders import make_cluster, make_job, make_scenario, make_view

LOSSES = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=40)
TARGET = LossTarget(delta=0.003, most_epochs=100)


def falling(epochs: int, b0: float = 0.3, b1: float = 1.0, b2: float = 0.1) -> tuple[float, ...]:
    return tuple((1.0 / (b0 * np.arange(1, epochs + 1) + b1) + b2).tolist())


def with_losses(losses: tuple[float, ...], target: LossTarget | None = TARGET) -> Running:
    return Running(len(losses), target, LossReports(losses))


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "patience", "end"),
    [
        ((1.0, 0.5, 0.495, 0.492, 0.49), 3, 5),
        ((1.0, 0.5, 0.495, 0.492), 3, None),
        ((1.0, 0.995), 1, 2),
        ((1.0, 0.5, 0.495, 0.6, 0.595, 0.592, 0.59), 3, 7),  # a loss that rises again begins anew
        ((1.0, 0.5, 0.495, np.nan, 0.49, 0.49, 0.49, 0.49), 3, 8),
        ((1.0, 0.5, np.inf, 0.5, 0.5), 2, None),
        ((0.0, 0.0, 0.0), 2, 3),
        ((-1.0, -1.5, -1.501, -1.502), 2, 4),
        ((), 1, None),
    ],
)
def test_a_loss_has_converged_once_it_has_stayed(losses: tuple[float, ...], patience: int, end: int | None) -> None:
    assert converged_after(losses, LossTarget(0.01, 100, patience)) == end


@settings(max_examples=60, deadline=None)
@given(LOSSES, LOSSES, st.integers(1, 5), st.floats(1e-4, 0.5))
def test_what_is_heard_later_does_not_move_the_end(
    losses: list[float], more: list[float], patience: int, delta: float
) -> None:
    target = LossTarget(delta, 100, patience)
    if (end := converged_after(losses, target)) is not None:
        assert patience < end <= len(losses)
        assert converged_after(losses + more, target) == converged_after(losses[:end], target) == end
        assert converged_after(losses, replace(target, delta=min(2 * delta, 0.9))) <= end


def test_losses_of_epochs_that_are_not_done_end_nothing() -> None:
    flat = (1.0,) * 10
    assert end_of(Running(3, TARGET, LossReports(flat))) is None
    assert end_of(Running(4, TARGET, LossReports(flat))) == CONVERGED
    assert end_of(Running(4, None, LossReports(flat))) is None


def test_a_silent_program_ends_with_its_most_epochs() -> None:
    assert [end_of(Running(done, TARGET)) for done in (0, 99, 100)] == [None, None, EXHAUSTED]


@pytest.mark.parametrize("wrong", [{"delta": 0.0}, {"delta": 1.0}, {"patience": 0}, {"most_epochs": 0}])
def test_a_target_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a target has"):
        replace(TARGET, **wrong)


# --- the outlook ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("done", [12, 16, 20])
def test_a_good_curve_says_when_the_loss_will_have_converged(done: int) -> None:
    [outlook] = outlooks([with_losses(falling(done))])
    true = converged_after(falling(100), TARGET)
    assert outlook is not None
    assert true is not None
    assert outlook.source == FITTED
    assert outlook.low <= outlook.epochs <= outlook.high
    assert done + outlook.epochs == pytest.approx(true, abs=1)


def test_noise_widens_the_band_and_leaves_the_estimate_near() -> None:
    losses = np.array(falling(20)) * (1 + 0.02 * np.random.default_rng(2).standard_normal(20))
    quiet, noisy = outlooks([with_losses(falling(20)), with_losses(tuple(losses.tolist()))])
    assert quiet is not None
    assert noisy is not None
    assert noisy.source == FITTED
    assert noisy.low < noisy.high
    assert noisy.epochs == pytest.approx(quiet.epochs, rel=0.5)


@pytest.mark.parametrize(
    "losses",
    [
        (),
        falling(5),
        tuple(np.linspace(0.1, 1.0, 20).tolist()),  # rises
        tuple(np.random.default_rng(1).uniform(0.1, 1.0, 20).tolist()),
        (*falling(12), *(5.0 + 0.3 * k for k in range(12))),  # foretold wrong
        (np.nan,) * 20,
    ],
    ids=["none", "few", "rising", "dice", "broken", "missing"],
)
def test_without_a_good_curve_what_was_declared_counts(losses: tuple[float, ...]) -> None:
    [outlook] = outlooks([with_losses(losses)])
    assert outlook is not None
    assert (outlook.source, outlook.epochs) == (DECLARED, 100 - len(losses))
    assert (outlook.low, outlook.high) == (1.0, 100 - len(losses))


@settings(max_examples=25, deadline=None)
@given(st.lists(LOSSES, min_size=1, max_size=4), st.integers(1, 60))
def test_whatever_is_reported_no_more_is_to_go_than_declared(reports: list[list[float]], most: int) -> None:
    target = replace(TARGET, most_epochs=most)
    jobs = [Running(min(len(losses), most), target, LossReports(tuple(losses))) for losses in reports]
    for job, outlook in zip(jobs, outlooks(jobs), strict=True):
        assert outlook is not None
        if outlook.source in (CONVERGED, EXHAUSTED):
            assert outlook.epochs == 0.0
        else:
            assert 1.0 <= outlook.low <= outlook.epochs <= outlook.high <= most - job.done
        alone = outlooks([job])[0]  # jobs change nothing of each other
        assert alone is not None
        assert (alone.source, alone.epochs) == (outlook.source, pytest.approx(outlook.epochs, abs=1.0))


def test_a_job_with_a_number_of_epochs_is_looked_at_by_nobody() -> None:
    assert outlooks([with_losses(falling(20), None)]) == [None]


# --- speeds -----------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(allow_nan=True, allow_infinity=True)), max_size=25
    )
)
def test_whatever_is_measured_a_job_is_never_believed_slower_than_declared(
    reports: list[tuple[int, int, float]],
) -> None:
    job = make_job(chunks=8, epochs=3, gradient_mb=50.0)
    believed = believed_speed(job, reports)
    least, declared = seconds_left(believed, 100.0, 1, 1), seconds_left(job, 100.0, 1, 1)
    assert 0.0 < least <= declared * (1 + 1e-9)
    for workers, ps in ((1, 4), (8, 1), (8, 8)):
        assert least - seconds_left(believed, 100.0, workers, ps) < declared  # gains, over all units together


def test_measured_speeds_bend_the_function_towards_them() -> None:
    """Eight workers are no faster than two: the bandwidth that the job declares is not there."""
    job = make_job(chunks=8, epochs=3)
    alone = 100.0 / seconds_left(job, 100.0, 1, 1)
    believed = believed_speed(job, [(1, 1, alone), (2, 2, 1.5 * alone), (4, 4, 1.7 * alone), (8, 8, 1.5 * alone)] * 5)
    assert seconds_left(believed, 100.0, 8, 8) > 1.5 * seconds_left(job, 100.0, 8, 8)
    assert believed_speed(job, []) is job


# --- the view, and who gains ------------------------------------------------------------------------------------------


def test_the_view_holds_what_decides_and_comes_back_from_its_bytes() -> None:
    jobs = [make_job(number, chunks=4, epochs=100) for number in range(3)]
    view = replace(make_view(jobs, cluster=make_cluster(((8,), (8,)))), remaining=np.array([320.0, 320.0, 320.0]))
    running = {
        0: with_losses(falling(20)),
        1: Running(20, TARGET, LossReports((1.0,) * 20, ((1, 1, 0.0002), (1, 2, 0.0003)))),
        2: Running(20, None, LossReports((1.0,) * 20, ((1, 1, 0.0002), (1, 2, 0.0003)))),
    }
    believed_view = informed(view, running)
    assert [job.number for job in believed_view.waiting] == [0, 2]  # the second has converged
    assert believed_view.remaining[0] < 320.0
    assert believed_view.remaining[1] == 320.0
    assert believed_view.waiting[1].samples.speed
    policy = build({"name": "optimus"}, view.cluster, jobs)
    assert plan_bytes(policy.decide(view_from(view_bytes(believed_view)))) == plan_bytes(policy.decide(believed_view))


JOBS = [make_job(number, chunks=8, epochs=100, max_workers=8) for number in range(3)]


def units(running: dict[int, Running]) -> list[int]:
    """Workers and parameter servers of each job in a slot where everybody has done twenty epochs."""
    view = replace(make_view(JOBS, cluster=make_cluster(((14,), (14,)))), remaining=np.full(3, 640.0))
    policy = build({"name": "optimus", "young": 1, "restart": 0}, view.cluster, JOBS)
    plan = policy.decide(informed(view, running))
    given_units = {booking.job: booking.workers + booking.ps for booking in plan.bookings}
    return [given_units.get(job.number, 0) for job in JOBS]


SILENT = {number: Running(20, TARGET) for number in range(3)}


def test_a_job_whose_loss_flattens_early_is_given_fewer_units() -> None:
    before = units(SILENT)
    after = units({**SILENT, 0: with_losses(falling(20))})
    assert after[0] < before[0]
    assert min(after[1] - before[1], after[2] - before[2]) >= 0
    assert sum(after) > sum(before) - 4


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=20, max_size=30))
def test_a_program_that_reports_false_losses_is_given_no_more_than_one_that_reports_none(lies: list[float]) -> None:
    assert units({**SILENT, 0: Running(20, TARGET, LossReports(tuple(lies)))})[0] <= units(SILENT)[0]


LONG = [make_job(number, chunks=8, epochs=1000, max_workers=8) for number in range(3)]


@settings(max_examples=40, deadline=None)
@given(st.integers(5, 120), st.floats(1.0, 1000.0))
def test_a_young_job_gains_nothing_by_seeming_old(done: int, estimate: float) -> None:
    """Gains of young jobs count for 0.95: who says that it has less to go must not get the missing part for it."""
    policy = build({"name": "optimus", "young": 0.95, "restart": 0}, make_cluster(((14,), (14,))), LONG)
    assert isinstance(policy, HeedsReports)
    assert policy.heeds_reports
    work = float(LONG[0].work)
    rest = work * (1000 - done) / 1000
    view = replace(make_view(LONG, cluster=make_cluster(((14,), (14,)))), remaining=np.full(3, rest))

    def first(view: View) -> int:
        return next((each.workers + each.ps for each in policy.decide(view).bookings if each.job == 0), 0)

    believed_view = believed(view, {0: Belief(estimate)}, policy.heeded)
    assert believed_view.remaining[0] <= rest
    assert first(believed_view) <= first(view)
    weight = 0.95 if 1 - rest / work < 0.1 else 1.0
    after = 0.95 if 1 - believed_view.remaining[0] / work < 0.1 else 1.0
    assert believed_view.remaining[0] * after <= rest * weight * (1 + 1e-12)


def test_policies_with_another_ones_allocation_are_told_nothing() -> None:
    cluster = make_cluster(((14,), (14,)))
    for settings_of in ({"name": "optimus", "allocation": "tetris"}, {"name": "srtf"}, {"name": "dl2"}):
        policy = build(settings_of, cluster, LONG)
        assert not (isinstance(policy, HeedsReports) and policy.heeds_reports)


SMALL = make_scenario(
    [make_job(number, chunks=8, epochs=30, max_workers=8, arrival=number) for number in range(3)],
    cluster=make_cluster(((14,), (14,))),
    slots=400,
)
STEEP = tuple(1000.0 - 10.0 * epoch for epoch in range(30))


@cache
def lived(losses: tuple[float, ...]) -> tuple[str, int, float]:
    """(state, end, unit slots) of the first of three jobs, which all train 30 epochs and declare 100, when it alone
    reports losses."""

    def beliefs(view: View) -> View:
        running = {}
        for job, rest in zip(view.waiting, view.remaining.tolist(), strict=True):
            done = min(int((job.work - rest) * job.epochs / job.work + 1e-9), 29)
            running[job.number] = Running(done, TARGET, LossReports(losses if job.number == 0 else ()))
        return informed(with_epochs(view, dict.fromkeys(range(3), 100)), running)

    policy = build({"name": "optimus", "young": 1, "restart": 0}, SMALL.cluster, SMALL.jobs)
    tracks = simulate(SMALL, {"batch": Misjudged(policy, beliefs)}).tracks
    if not losses:
        assert all(track.state == AWARDED for track in tracks)
    bookings = tracks[0].bookings
    paid = sum((booking.workers + booking.ps) * (booking.end - booking.start) for booking in bookings)
    return tracks[0].state, max(booking.end for booking in bookings), paid


@pytest.mark.parametrize(
    "lie",
    [
        STEEP,
        pytest.param(STEEP[::-1], marks=pytest.mark.wide),
        falling(30, b0=0.01),
        pytest.param(tuple(np.random.default_rng(1).uniform(0, 9, 30).tolist()), marks=pytest.mark.wide),
    ],
    ids=["still falls", "rises", "falls slowly", "by chance"],
)
def test_over_its_whole_life_a_liar_gains_nothing(lie: tuple[float, ...]) -> None:
    """One that says its loss still falls ends no sooner than if it had said nothing."""
    state, end, paid = lived(lie)
    assert state == AWARDED
    assert end >= lived(())[1]
    assert paid > 0.9 * lived(())[2]


def test_over_its_whole_life_an_honest_program_hides_nothing() -> None:
    """One that says it has converged when it has not is ended with its work undone."""
    silent, honest = lived(()), lived(falling(30))
    assert honest[0] == AWARDED
    assert honest[2] <= silent[2] * 1.05  # it pays for what it used, which is about as much
    hasty = lived((1.0, 0.5, *([0.4] * 28)))
    assert hasty[0] != AWARDED
    assert hasty[2] < silent[2]
