"""PD-ORS finds what plain programs find, loses next to nothing against an exact one, and honest reports never lose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from scheduling.core.policies.pdors.work import parts_of, speed_of
from scheduling.core.posted.menu import MODES
from scheduling.core.types import FloatArray, Job, View
from scheduling.core.value import Sigmoid
from tests.core import reference_pdors
from tests.core.pdors_worlds import SLOT_SECONDS, World, make_policy, make_sample_job

BLOCKS = range(4)
ROUND = (0.4, 0.7, 1.0)  # slots for a sample: numbers for which the quanta are exact
ODD = (0.3791, 0.7013, 1.0007)  # numbers for which they cannot be


def random_world(dice: np.random.Generator, sample_slots: tuple[float, ...]) -> tuple[World, Job, FloatArray]:
    """A tiny world with several resources, partly occupied, and one job."""
    slots, resources, count = 4, int(dice.integers(1, 4)), int(dice.integers(1, 4))
    servers = dice.integers(2, 9, size=(count, resources)).astype(float).tolist()
    ceiling = {f"r{index}": float(dice.choice([1.0, 8.0, 16.0])) for index in range(resources)}
    world = World(servers, slots, make_policy(floor=float(dice.choice([0.25, 1.0])), ceiling=ceiling))
    worker, ps = dice.integers(0, 3, size=resources), dice.integers(0, 3, size=resources)
    worker[0], ps[-1] = max(worker[0], 1), max(ps[-1], 1)
    job = make_sample_job(
        0,
        arrival=float(dice.choice([0, 0.5, 1])),
        epochs=int(dice.integers(1, 3)),
        samples=int(dice.integers(1, 5)),
        batch=int(dice.integers(1, 5)),
        sample_slots=float(dice.choice(sample_slots)),
        exchange=float(dice.choice([0, 0.3, 1.0])),
        rates=(float(dice.choice([1, 2, 4])), float(dice.choice([0.5, 1.0]))),
        ratio=float(dice.choice([1, 1.5, 2, 3])),
        worker=worker.tolist(),
        ps=ps.tolist(),
        value=Sigmoid(float(dice.uniform(5, 150)), float(dice.choice([0, 0.5, 2.0])), float(dice.integers(0, 4))),
    )
    capacity = world.cluster.capacity[:, None, :]
    occupied = np.floor(dice.uniform(0, 1, (resources, slots, count)) * (capacity + 1) * 0.5)
    return world, job, np.minimum(occupied, capacity)


def random_worlds(
    block: int, number: int, sample_slots: tuple[float, ...] = ROUND
) -> Iterator[tuple[World, Job, FloatArray]]:
    dice = np.random.default_rng([2209, block])
    for _ in range(number):
        yield random_world(dice, sample_slots)


def payoff(world: World, view: View) -> float:
    plan = world.policy.decide(view)
    return sum(booking.value - booking.cost for booking in plan.bookings)


@pytest.mark.parametrize("block", BLOCKS)
def test_with_the_integer_program_it_equals_the_plain_quantum_program(block: int) -> None:
    admitted, mode = 0, MODES[block % 2]
    for world, job, occupied in random_worlds(block, 14):
        view = world.view(job, occupied)
        speed = speed_of(job, job.worker_types[0], job.ps_types[0], SLOT_SECONDS)
        parts = parts_of(speed, 4)
        expected = reference_pdors.quantum_payoff(job, view, dict(world.policy.price), int(parts), mode)
        reached = payoff(replace(world, policy=replace(world.policy, external="milp", mode=mode)), view)
        assert reached == pytest.approx(expected, abs=2e-6)
        admitted += expected > 0
    assert admitted >= 3


def losses(block: int, number: int, sample_slots: tuple[float, ...]) -> list[float]:
    """What is lost of the exact program's payoff, of each job that could gain something."""
    lost = []
    for world, job, occupied in random_worlds(block, number, sample_slots):
        view = world.view(job, occupied)
        best = reference_pdors.exact_payoff(job, view, dict(world.policy.price))
        reached = payoff(world, view)
        assert reached <= best + 2e-6
        if best > 1e-6:
            lost.append(1.0 - reached / best)
    return lost


@pytest.mark.parametrize("sample_slots", [ROUND, ODD], ids=["round", "odd"])
def test_loses_less_than_one_per_cent_against_the_exact_program(sample_slots: tuple[float, ...]) -> None:
    lost = [loss for block in BLOCKS for loss in losses(block + 10, 20, sample_slots)]
    assert len(lost) >= 25
    assert float(np.mean(lost)) < 0.01
    assert max(lost) < 1.0  # no job is lost


@pytest.mark.parametrize("external", ["greedy", "rounding"])
def test_an_honest_value_report_never_loses(external: str) -> None:
    dice = np.random.default_rng(88)
    lies = gained = 0
    for world, job, occupied in random_worlds(77, 40 if external == "greedy" else 8):
        view, policy = world.view(job, occupied), replace(world.policy, external=external, tries=3)

        def true_gain(reported: Job, policy: object = policy, job: Job = job, view: View = view) -> float:
            plan = policy.decide(replace(view, waiting=(reported,), jobs={0: reported}))  # type: ignore[attr-defined]
            return sum(float(job.value(b.end - 1 - job.first_slot)) - b.paid for b in plan.bookings)

        honest = true_gain(job)
        assert isinstance(job.value, Sigmoid)
        for _ in range(4):
            lie = Sigmoid(
                job.value.priority * float(dice.choice([0.3, 0.8, 1.3, 4.0])),
                float(dice.choice([0, 0.2, 1.0, 5.0])),
                float(dice.integers(0, 6)),
            )
            lies += 1
            reached = true_gain(replace(job, value=lie))
            assert reached <= honest + 1e-9
            gained += reached > 0
    assert lies >= 32
    assert gained > lies / 10  # lies that change nothing, or are refused, would prove little
