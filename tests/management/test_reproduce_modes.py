"""Training modes: the speed functions of the publication, units near each other, and runs at such a speed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from scheduling.core.estimates.remaining import seconds_left
from scheduling.core.estimates.speeds import ASYNC, SYNC
from scheduling.core.gangs import GangUnits
from scheduling.core.placement import Cursors, Placement
from scheduling.core.scenario import Scenario, read
from scheduling.core.slot_bookings import slot_booking
from scheduling.core.types import Booking, Job, Plan, View
from scheduling.core.workload import synthetic
from scheduling.lab.reproduction.adjusting import ADJUSTMENTS
from scheduling.lab.reproduction.catalogue import FIGURES
from scheduling.lab.reproduction.engine import FigureRun, point_run
from scheduling.lab.reproduction.other_speeds import AtAnotherSpeed
from scheduling.lab.reproduction.training_modes import TABLE_2, Row, coefficients, crossing, minibatches_per_second
from tests.core.builders import make_view


@cache
def paper_scenario() -> Scenario:
    return read(synthetic(seed=1, preset="dl2", tenants=1, cells=False, servers=4, jobs=40, slot_seconds=600.0))


def market(part: float = 0.5) -> Scenario:
    return ADJUSTMENTS["synchronous"](replace(paper_scenario(), jobs=paper_scenario().jobs[:6]), {}, part)[0]


def first(model: str, mode: str) -> Job:
    job = next(job for job in paper_scenario().jobs if job.samples.model == model)
    return replace(job, samples=replace(job.samples, mode=mode))


def apart(workers: int, ps: int) -> list[Row]:
    return [*((n, 1, 0) for n in range(workers)), *((100 + n, 0, 1) for n in range(ps))]


@pytest.mark.parametrize("mode", [ASYNC, SYNC])
def test_the_coefficients_of_a_resnet_are_to_each_other_as_in_the_publication(mode: str) -> None:
    numbers = np.array(coefficients(first("resnet-50", mode)))
    assert numbers / numbers[0] == pytest.approx(np.array(TABLE_2[mode]) / TABLE_2[mode][0])


@pytest.mark.parametrize("model", ["resnet-50", "vgg-16", "dssm"])
def test_one_worker_computes_as_long_in_either_mode_as_in_the_workload(model: str) -> None:
    alone, together = first(model, ASYNC), first(model, SYNC)
    own = alone.worker_types[0].seconds + alone.ps_types[0].seconds
    assert coefficients(alone)[0] == pytest.approx(own)
    each, fixed, *_ = coefficients(together)
    assert each * together.chunks + fixed == pytest.approx(own * together.chunks)


@pytest.mark.parametrize(("mode", "crosses"), [(ASYNC, 1), (SYNC, 2)])
def test_larger_gradients_take_longer_to_cross_and_nothing_else(mode: str, crosses: int) -> None:
    job = first("resnet-50", mode)
    usual, twice = (np.array(coefficients(each)) for each in (job, replace(job, gradient_mb=2 * job.gradient_mb)))
    assert usual[crosses] > 0
    assert twice == pytest.approx(usual * np.where(np.arange(len(usual)) == crosses, 2.0, 1.0))


def test_what_crosses_the_network_is_that_of_the_publications_example() -> None:
    """Its Fig. 10, in units of half the gradients: 3 and 2."""
    assert crossing([(0, 1, 1), (1, 1, 1), (2, 2, 0)]) * 2 == 3
    assert crossing([(0, 2, 1), (1, 2, 1)]) * 2 == 2
    assert crossing([(0, 4, 2)]) == 0
    assert crossing(apart(4, 2)) == 4 / 2


def test_a_gang_is_the_faster_the_less_crosses() -> None:
    for job in market().jobs:
        near, even, far = [[(0, 4, 2)], [(0, 2, 1), (1, 2, 1)], apart(4, 2)]
        speeds = [minibatches_per_second(job, rows) for rows in (near, even, far)]
        assert speeds == sorted(speeds, reverse=True)
        assert speeds[0] > speeds[2]


def test_jobs_bring_the_speed_function_that_they_have_with_units_apart() -> None:
    scenario = market()
    assert {job.samples.mode for job in scenario.jobs} == {ASYNC, SYNC}
    for job in scenario.jobs:
        for workers, ps in ((1, 1), (7, 3), (3, 7), (16, 16)):
            seconds = 1000 / minibatches_per_second(job, apart(workers, ps))
            assert seconds_left(job, 1000, workers, ps) == pytest.approx(seconds)


def test_all_or_none_of_the_jobs_can_be_synchronous() -> None:
    assert {job.samples.mode for job in market(0.0).jobs} == {ASYNC}
    assert {job.samples.mode for job in market(1.0).jobs} == {SYNC}


class ScriptedPolicy:
    """Gives the first job a gang on the servers it was told, and remembers how often it was asked."""

    name: ClassVar[str] = "told"

    def __init__(self, *servers: int) -> None:
        self.servers = servers

    def decide(self, view: View) -> Plan:
        count = int(view.memory.get("asked", 0))
        job, server = view.waiting[0], self.servers[count]
        placement = Placement(GangUnits(2, 1), [server, server], [server], Cursors())
        booking: Booking = slot_booking(job, float(view.remaining[0]), placement, replace(view, memory={}))
        return Plan([booking], memory={"asked": count + 1})


def test_work_is_that_of_the_mode_and_who_moves_loses_half_a_minute() -> None:
    scenario = market()
    job = max(scenario.jobs, key=lambda job: job.work)
    policy, memory, rest, work = (
        AtAnotherSpeed(ScriptedPolicy(1, 1, 2, 2), minibatches_per_second),
        {},
        float(job.work),
        [],
    )
    for slot in range(4):
        view = make_view((job,), slot=slot, cluster=scenario.cluster)
        plan = policy.decide(replace(view, memory=memory, remaining=np.array([rest])))
        memory, work = dict(plan.memory or {}), [*work, plan.bookings[0].work]
        rest -= work[-1]
    whole = minibatches_per_second(job, [(1, 2, 1)]) * 600.0
    assert work == pytest.approx([whole, whole, whole * 570 / 600, whole])


def test_the_last_slot_does_what_is_left_and_has_the_value() -> None:
    scenario = market()
    job = scenario.jobs[0]
    view = replace(make_view((job,), cluster=scenario.cluster), remaining=np.array([0.5]))
    [booking] = AtAnotherSpeed(ScriptedPolicy(1), minibatches_per_second).decide(view).bookings
    assert booking.work == 0.5
    assert booking.value == float(job.value(booking.end - job.arrival))


def test_a_figure_of_modes_runs_at_the_speed_of_the_mode() -> None:
    figure = FIGURES["optimus-16"]
    asynchronous, synchronous = (point_run(FigureRun(figure, "small", 2, value, 1)) for value in (0, 1))
    at_one_speed = point_run(FigureRun(replace(figure, speed=""), "small", 2, 0, 1))
    assert len({run["mean_completion"] for run in (asynchronous, synchronous, at_one_speed)}) == 3
