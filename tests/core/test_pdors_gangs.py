"""The parts of PD-ORS: gangs on several servers, found three ways, and the quanta that work is counted in."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies.pdors.greedy import spread, units_of
from scheduling.core.policies.pdors.solver import Deployment, program_of, relaxed, rounded_at_random, whole_optimum
from scheduling.core.policies.pdors.work import grid_of, parts_of, speed_of
from scheduling.core.types import Job
from scheduling.core.value import Linear
from tests.core.pdors_worlds import SLOT_SECONDS, make_sample_job


def make(**fields: Any) -> Job:
    usual: dict[str, Any] = {"arrival": 0.0, "worker": [1], "ps": [1], "ratio": 2.0, "value": Linear(-1, 100)}
    return make_sample_job(0, **(usual | fields))


def small_slot(dice: np.random.Generator) -> tuple[Any, Any, Any]:
    """Workers, parameter servers and free amounts of a slot on a few servers with three resources."""
    free = dice.integers(0, 8, size=(3, 4)).astype(float)
    prices = dice.choice([0.5, 1.0, 1.7, 3.0], size=(3, 4))
    hosts = np.ones(4, bool)
    worker, ps = dice.integers(0, 3, size=3).astype(float), dice.integers(0, 3, size=3).astype(float)
    worker[0], ps[2] = max(worker[0], 1.0), max(ps[2], 1.0)
    workers = units_of(worker, hosts, prices, prices, free, last_first=False)
    return workers, units_of(ps, hosts, prices, prices, free, last_first=True), free


def checked_ratio(
    deployment: Deployment | None, best: Deployment | None, units: Any, least: tuple[int, int]
) -> list[float]:
    """What a deployment costs over the cheapest, once it was seen to keep every limit; nothing where there is none."""
    if deployment is None:
        return []
    workers, ps, free = units
    assert best is not None
    assert (np.outer(workers.demand, deployment.workers) + np.outer(ps.demand, deployment.ps) <= free + 1e-9).all()
    assert deployment.workers @ workers.price + deployment.ps @ ps.price == pytest.approx(deployment.cost)
    assert deployment.workers.sum() >= least[0]
    assert deployment.ps.sum() >= least[1]
    return [deployment.cost / best.cost]


def test_greedy_and_rounding_stay_near_the_integer_program_and_never_break_a_limit() -> None:
    dice = np.random.default_rng(31)
    ratios: dict[str, list[float]] = {"greedy": [], "rounding": []}
    for _ in range(60):
        workers, ps, free = units = small_slot(dice)
        counts, needed = np.arange(1, 6), -(-np.arange(1, 6) // 2)
        spreads = spread(workers, ps, counts, needed, free)
        program = program_of(workers, ps, free, 5)
        for gang, least in enumerate(zip(counts.tolist(), needed.tolist(), strict=True)):
            best, fractions = whole_optimum(program, *least), relaxed(program, *least)
            if math.isfinite(spreads.cost[gang]):
                greedy = Deployment(*spreads.deployment(gang, 4), float(spreads.cost[gang]))
                ratios["greedy"] += checked_ratio(greedy, best, units, least)
            if fractions is not None:
                draws = dice.random((50, len(fractions)))
                rolled = rounded_at_random(program, fractions, *least, 1.0, draws)
                ratios["rounding"] += checked_ratio(rolled, best, units, least)
    for kind, of_kind in ratios.items():
        assert len(of_kind) > 60, kind
        assert min(of_kind) >= 1.0 - 1e-9
        assert float(np.mean(of_kind)) < 1.05


def test_quanta_are_exact_where_the_speeds_allow_it_and_as_asked_where_a_job_is_large() -> None:
    small = make(samples=4, batch=4, exchange=1.0, rates=(2.0, 1.0), ratio=2.0)  # q_i = 3/2, q_e = 2
    assert parts_of(speed_of(small, small.worker_types[0], small.ps_types[0], SLOT_SECONDS), 1) == 3
    large = replace(small, samples=replace(small.samples, total=1e4 + 0.7, seconds=3456.789))
    assert parts_of(speed_of(large, large.worker_types[0], large.ps_types[0], SLOT_SECONDS), 4) == 4
    huge = replace(small, samples=replace(small.samples, total=1e7 + 0.7))
    speed = speed_of(huge, huge.worker_types[0], huge.ps_types[0], SLOT_SECONDS)
    assert grid_of(speed, parts_of(speed, 4), None).work <= 100_001


@pytest.mark.parametrize("parts", [Fraction(1), Fraction(4), Fraction(1, 3)])
def test_no_gang_is_credited_with_more_than_it_trains(parts: Fraction) -> None:
    job = make(samples=97, batch=9, exchange=0.31, rates=(3.7, 0.9), ratio=1.7, sample_slots=0.413)
    speed = speed_of(job, job.worker_types[0], job.ps_types[0], SLOT_SECONDS)
    grid = grid_of(speed, parts, None)
    for size, workers, internal in zip(grid.sizes.tolist(), grid.workers.tolist(), grid.internal, strict=True):
        trained = workers / (speed.internal if internal else speed.external)
        assert size / (parts * speed.external) <= trained
    assert grid.work >= parts * speed.samples * speed.external
