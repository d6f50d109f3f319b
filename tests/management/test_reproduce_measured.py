"""The measured world: its speed functions, jobs without a cap, and Optimus ahead of fairness in it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from scheduling.core.estimates.remaining import seconds_left
from scheduling.core.estimates.speeds import ASYNC, SYNC
from scheduling.core.scenario import Scenario, read
from scheduling.core.speed import elastic_rate
from scheduling.core.types import Job
from scheduling.core.workload import synthetic
from scheduling.core.workload.model_jobs import MODELS
from scheduling.lab.reproduction.adjusting import ADJUSTMENTS
from scheduling.lab.reproduction.catalogue import FIGURES
from scheduling.lab.reproduction.engine import FigureRun, point_run, scenario_of
from scheduling.lab.reproduction.measured import FITS, by_place, minibatches_per_second
from scheduling.lab.reproduction.training_modes import Row


@cache
def paper_scenario() -> Scenario:
    return read(synthetic(seed=1, preset="dl2", tenants=1, cells=False, servers=4, jobs=40, slot_seconds=600.0))


def first(model: str, mode: str) -> Job:
    job = next(job for job in paper_scenario().jobs if job.samples.model == model)
    return replace(job, samples=replace(job.samples, mode=mode))


def apart(workers: int, ps: int) -> list[Row]:
    return [*((n, 1, 0) for n in range(workers)), *((100 + n, 0, 1) for n in range(ps))]


def test_every_model_was_measured() -> None:
    assert FITS.keys() == {model.name for model in MODELS}


@pytest.mark.parametrize("model", FITS)
def test_a_synchronous_job_is_as_many_times_as_fast_as_was_measured(model: str) -> None:
    job = first(model, SYNC)
    a0, a1, a2, a3, a4 = FITS[model]
    alone = elastic_rate(job, 1, 1, (0, 0), 1.0, centralized=False)
    for workers, ps in ((1, 1), (4, 2), (12, 23)):
        times = 1 / (a0 / workers + a1 + a2 * workers / ps + a3 * workers + a4 * ps)
        assert minibatches_per_second(job, apart(workers, ps)) == pytest.approx(alone * times)
    assert minibatches_per_second(job, apart(16, 16)) < 2.1 * minibatches_per_second(job, apart(1, 1))


def test_an_asynchronous_job_gains_nearly_as_much_as_it_gets_units() -> None:
    job = first("vgg-16", ASYNC)
    alone = elastic_rate(job, 1, 1, (0, 0), 1.0, centralized=False)
    assert minibatches_per_second(job, apart(1, 1)) == pytest.approx(alone)
    assert minibatches_per_second(job, apart(16, 16)) == pytest.approx(12.9 * alone, rel=0.01)


def test_only_by_place_a_gang_on_one_server_is_faster() -> None:
    job = first("vgg-16", SYNC)
    assert minibatches_per_second(job, [(0, 4, 2)]) == pytest.approx(minibatches_per_second(job, apart(4, 2)))
    assert by_place(job, apart(4, 2)) == pytest.approx(minibatches_per_second(job, apart(4, 2)))
    assert by_place(job, [(0, 4, 2)]) > by_place(job, [(0, 2, 1), (1, 2, 1)]) > by_place(job, apart(4, 2))


def test_jobs_bring_their_true_speed_function_also_without_a_cap() -> None:
    scenario = replace(paper_scenario(), jobs=paper_scenario().jobs[:8])
    for adjustment, number in (("uncapped", 4.0), ("measured", 0.5)):
        scenario, _ = ADJUSTMENTS[adjustment](scenario, {}, number)
    assert {job.samples.mode for job in scenario.jobs} == {SYNC, ASYNC}
    for job, before in zip(scenario.jobs, paper_scenario().jobs, strict=False):
        assert job.max_workers == 4 * before.max_workers
        alone, usual = (elastic_rate(each, 1, 1, (0, 0), 1.0, centralized=False) for each in (job, before))
        assert job.work / alone == pytest.approx(before.work / usual)  # as long as before
        for workers, ps in ((1, 1), (7, 3), (52, 40)):
            seconds = 1000 / minibatches_per_second(job, apart(workers, ps))
            assert seconds_left(job, 1000, workers, ps) == pytest.approx(seconds)


def test_an_error_of_the_speed_is_one_of_the_belief_alone() -> None:
    figure = FIGURES["optimus-15"]
    true, off = (scenario_of(FigureRun(figure, "small", 0, value, 1)) for value in (0, 1))
    for job, misjudged in zip(true.jobs, off.jobs, strict=True):
        assert minibatches_per_second(job, apart(3, 2)) == minibatches_per_second(misjudged, apart(3, 2))
        slower = sum(misjudged.samples.speed) / sum(job.samples.speed)
        assert min(abs(slower - 1 / 1.4), abs(slower - 1 / 0.6)) < 1e-9


def test_jobs_arrive_at_the_rate_of_the_process_in_their_order() -> None:
    scenario, _ = ADJUSTMENTS["poisson"](paper_scenario(), {}, 3.0)
    arrivals = [job.arrival for job in scenario.jobs]
    assert arrivals == sorted(arrivals)
    assert 1.5 < len(arrivals) / arrivals[-1] < 6.0
    doubled, _ = ADJUSTMENTS["poisson"](paper_scenario(), {}, 6.0)
    assert [2 * job.arrival for job in doubled.jobs] == pytest.approx(arrivals)


def test_in_the_testbed_optimus_is_ahead_of_fairness_and_restarts_cost_something() -> None:
    figure = FIGURES["optimus-11"]
    optimus, _, drf, _, _ = (
        [point_run(FigureRun(figure, "small", line, 0, seed)) for seed in (1, 2)] for line in range(5)
    )
    completion, theirs = (sum(run["mean_completion"] or 0.0 for run in runs) for runs in (optimus, drf))
    assert theirs > 1.1 * completion
    restarting = [run["restarting"] or 0.0 for run in (*optimus, *drf)]
    assert 0.0 < max(restarting) < 0.1
