"""Figures that train networks, and policies that believe something wrong: tiny ones of each run."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import BadScenario, Scenario, read
from scheduling.core.simulation import simulate
from scheduling.core.speed import elastic_rate
from scheduling.core.types import View
from scheduling.core.workload import synthetic
from scheduling.lab.reproduction.adjusting import speed_error, speed_variation
from scheduling.lab.reproduction.catalogue import FIGURES
from scheduling.lab.reproduction.describing import LAST, Claim, Effort, FigureLine, Scale, Training
from scheduling.lab.reproduction.engine import FigureRun, task_of
from scheduling.lab.reproduction.judging import judge
from scheduling.lab.reproduction.learning import SWEPT, TrainingTask, draw, trained
from scheduling.lab.reproduction.misjudging import epochs_error
from tests.management.test_reproduce import make_figure, run

EFFORT = Effort(steps=60, lessons=8, jobs=4, watched=1, every=1, checks=1, hidden=8)
WORLD = {"preset": "dl2", "tenants": 1, "cells": False, "span": 3.0, "servers": 4, "jobs": 5}
DL2 = {"name": "dl2", "guard": False}


def make_task(marks: tuple[float, ...] = (LAST,), **changed: object) -> TrainingTask:
    return TrainingTask(Training(**changed), EFFORT, tuple(sorted(WORLD.items())), 0, marks)  # type: ignore[arg-type]


def market(seed: int = 1, **changed: object) -> Scenario:
    return read(synthetic(seed=seed, **{**WORLD, **changed}))


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_figure_over_steps_shows_one_training_as_it_goes_on() -> None:
    lines = (
        FigureLine("lessons", DL2, training=Training(lessons=LAST, rewards=False)),
        FigureLine("both", DL2, training=Training()),
        FigureLine("drf", {"name": "dominant_resource_fairness"}),
    )
    scale = Scale((0, 8, 60), 1, effort=EFFORT)
    changed = {"measures": ("mean_completion",), "claims": (), "world": WORLD, "small": scale}
    repeated = run(make_figure("steps", lines=lines, **changed))
    weights = [point.weights for point in repeated.points]
    assert weights[0] == weights[3], "before the first step nothing was learnt"
    assert weights[1] == weights[4], "lessons are the same lessons"
    assert weights[2] != weights[5]
    assert weights[6:] == [None] * 3
    curves = [repeated.curve(line, "mean_completion") for line in range(3)]
    assert curves[0][2] != curves[0][0]
    assert len(set(curves[2])) == 1


def test_the_same_task_gives_the_same_weights_and_another_number_others() -> None:
    wanted = make_task(rules=(("critic", False),))
    first = trained(wanted)[LAST]
    trained.cache_clear()
    assert trained(wanted)[LAST] == first
    assert trained(replace(wanted, number=1))[LAST] != first
    assert trained(make_task())[LAST] != first


def test_what_is_swept_of_a_training_reaches_it() -> None:
    for swept, value in (("seen", 2.0), ("clusters", 3.0)):
        line = FigureLine("dl2", DL2, training=Training())
        figure = make_figure(swept, lines=(line,), world=WORLD, small=Scale((value,), 2, effort=EFFORT))
        tasks = [task_of(FigureRun(figure, "small", 0, 0, seed)) for seed in (1, 2)]
        assert tasks[0] == tasks[1], "one training for both seeds"
        assert tasks[0] is not None
        assert value in (tasks[0].effort.jobs, tasks[0].training.clusters)
    assert task_of(FigureRun(make_figure(), "small", 0, 0, 1)) is None
    with pytest.raises(BadScenario, match="does not say how much"):
        task_of(FigureRun(replace(figure, small=Scale((1.0,), 1)), "small", 0, 0, 1))


def test_types_come_when_their_step_has_come_and_about_as_many_jobs_as_before() -> None:
    wanted = replace(make_task(types=((0, 2), (40, 8))), world=tuple({**WORLD, "jobs": 40}.items()))
    early, late = (draw(wanted, 1, steps) for steps in (0.0, 40.0))
    assert {job.samples.model for job in early.jobs} == {"resnet-50", "vgg-16"}
    assert len({job.samples.model for job in late.jobs}) == 8
    assert [job.number for job in early.jobs] == list(range(len(early.jobs)))
    assert abs(len(early.jobs) - 40) < 20
    assert draw(wanted, 2, 0.0).jobs[0].arrival != early.jobs[0].arrival


@pytest.mark.parametrize(
    "figure", [figure for figure in FIGURES.values() if any(line.training for line in figure.lines)]
)
def test_every_scale_of_a_figure_that_trains_says_how_much(figure) -> None:
    for scale in (figure.full, figure.small):
        assert scale.effort is not None
        assert scale.effort.lessons < scale.effort.steps
        assert figure.swept in (*SWEPT, "jobs")
        assert all(low < high for low, high in pairwise(scale.values))


# --- wrong beliefs ----------------------------------------------------------------------------------------------------


def beginning(scenario: Scenario) -> View:
    """All jobs wait, and nothing of them is done."""
    work = np.array([float(job.work) for job in scenario.jobs])
    free = np.zeros((len(scenario.cluster.resources), 0, len(scenario.cluster.servers)))
    return View(0, scenario.slots, scenario.cluster, tuple(scenario.jobs), work, free)


def test_a_policy_that_is_told_other_epochs_still_does_the_real_work() -> None:
    """Also with jobs that have far more epochs than was said: they end, later, and not one mini-batch is missing."""
    scenario = market()
    settings = {"name": "tetris"}
    wrong_policy = epochs_error(build(settings, scenario.cluster, scenario.jobs), scenario, 0.4)
    believed = wrong_policy.beliefs(beginning(scenario)).jobs  # type: ignore[attr-defined]
    assert {round(job.epochs / believed[job.number].epochs, 1) for job in scenario.jobs} == {0.6, 1.4}
    outcome = simulate(scenario, {"batch": wrong_policy})
    for track in outcome.tracks:
        assert track.state == "awarded"
        assert sum(booking.work for booking in track.bookings) == pytest.approx(track.job.work)
        booking = track.bookings[0]
        rate = elastic_rate(track.job, booking.workers, booking.ps, (0, 0), scenario.cluster.slot_seconds,
                            centralized=booking.placement == "centralized")  # fmt: skip
        assert booking.work == pytest.approx(min(rate, track.job.work))


def test_an_error_of_nothing_changes_nothing() -> None:
    scenario = market()
    policy = build({"name": "srtf"}, scenario.cluster, scenario.jobs)
    plain, same = (simulate(scenario, {"batch": each}) for each in (policy, epochs_error(policy, scenario, 0.0)))
    for one, other in zip(plain.tracks, same.tracks, strict=True):
        assert [(b.start, b.allocation, b.work) for b in one.bookings] == [
            (b.start, b.allocation, b.work) for b in other.bookings
        ]


def test_speeds_vary_while_the_type_s_speed_is_what_is_told() -> None:
    scenario = market()
    varied, _ = speed_variation(scenario, {}, 0.25)
    wrong, _ = speed_error(scenario, {}, 0.25)
    for job, slow, wrong_job in zip(scenario.jobs, varied.jobs, wrong.jobs, strict=True):
        before, after = (elastic_rate(each, 3, 2, (0, 0), 1.0, centralized=False) for each in (job, slow))
        assert after / before == pytest.approx(1.25) or after / before == pytest.approx(0.75)
        assert elastic_rate(wrong_job, 3, 2, (0, 0), 1.0, centralized=False) == before
        by = sum(slow.samples.speed) / sum(wrong_job.samples.speed)
        assert by == pytest.approx(1.25) or by == pytest.approx(0.75)
    exact, _ = speed_variation(scenario, {}, 0.0)
    assert [job.gradient_mb for job in exact.jobs] == [job.gradient_mb for job in scenario.jobs]


# --- judging ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "outcome", "ours"),
    [
        (Claim("less", "", "a", "b", at=2.2), "held", 0.5),
        (Claim("less", "", "a", "b", at=0.0), "not held", 1.5),
        (Claim("as good", "", "a", "b", at=2.0), "held", 0.5),
        (Claim("as good", "", "a", "b", at=1.0), "not held", 1.5),
        (Claim("narrows", "", "a", "b"), "held", -2.0),
        (Claim("narrows", "", "b", "a"), "not held", 2.0),
        (Claim("steady", "", "b"), "held", 1.0),
    ],
)
def test_a_claim_may_be_about_one_value_alone(claim: Claim, outcome: str, ours: float) -> None:
    verdict = judge(claim, {"a": ((3.0, 3.0), (1.0, 1.0)), "b": ((2.0, 2.0), (2.0, 2.0))}, (1.0, 2.0))
    assert (verdict.outcome, verdict.ours) == (outcome, pytest.approx(ours))
