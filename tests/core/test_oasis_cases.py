"""OASiS against the shared cases: exact admissions, completion slots, costs and deployments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduling.core.occupancy import Occupancy
from scheduling.core.types import Job, Plan
from scheduling.core.value import Sigmoid
from tests.cases import cases
from tests.core.oasis_worlds import World, make_instant_job, make_policy

CASES = cases("oasis")


def world_of(case: dict[str, Any], units: str) -> World:
    resources = [f"r{index}" for index in range(len(case["cap_h"][0]))]
    prices = case["prices"]
    ceilings = (dict(zip(resources, prices["U1"], strict=True)), dict(zip(resources, prices["U2"], strict=True)))
    policy = make_policy(floors=(prices["L1"], prices["L2"]), ceilings=ceilings, units=units)
    return World(case["cap_h"], case["cap_k"], case["T"], policy)


def job_of(row: dict[str, Any], number: int) -> Job:
    priority, decay, target = row["g"]
    return make_instant_job(
        number,
        arrival=row["a"] - 1,
        epochs=row["E"],
        chunks=row["N"],
        minibatches=row["M"],
        minibatch_slots=row["tau"],
        bandwidths=(row["b"], row["B"]),
        worker=row["w"],
        ps=row["s"],
        value=Sigmoid(priority, decay, target),
    )


def answers(case: dict[str, Any], units: str = "worker_slots") -> list[Plan]:
    """The plan for each job in turn, where the jobs before it are booked in worker-slots."""
    world, variant = world_of(case, "worker_slots"), world_of(case, units)
    occupancy = Occupancy(world.cluster)
    for slot, server, resource, amount in case["preload_workers"]:
        occupancy.add(resource, slot - 1, server, amount)
    for slot, server, resource, amount in case["preload_pss"]:
        occupancy.add(resource, slot - 1, len(case["cap_h"]) + server, amount)
    plans = []
    for number, row in enumerate(case["jobs"]):
        job = job_of(row, number)
        occupied = world.empty()
        window = occupancy.window(0)
        occupied[:, : window.shape[1]] = window
        view = world.view(job, occupied)
        for booking in world.policy.decide(view).bookings:
            occupancy.place(job, booking)
        plans.append(variant.policy.decide(view))
    return plans


def counts(case: dict[str, Any], plan: Plan, kind: str) -> dict[str, list[int]]:
    """Slot (from 1) -> number on each worker server, or on each server for parameter servers."""
    first = 0 if kind == "workers" else len(case["cap_h"])
    servers = len(case["cap_h"]) if kind == "workers" else len(case["cap_k"])
    used: dict[str, list[int]] = {}
    for row in plan.bookings[0].allocation:
        for slot in range(row.start, row.end):
            number = getattr(row, kind)
            if number:
                used.setdefault(str(slot + 1), [0] * servers)[row.server - first] = number
    return used


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_decides_as_the_shared_case_says(case: dict[str, Any]) -> None:
    for expected, plan in zip(case["expected"], answers(case), strict=True):
        assert bool(plan.bookings) == expected["admitted"], expected["id"]
        if not plan.bookings:
            assert plan.refusals[0].reason.code
            continue
        booking = plan.bookings[0]
        assert booking.end == expected["t_hat"]
        assert booking.cost == pytest.approx(expected["cost"], abs=1e-8)
        assert booking.value - booking.cost == pytest.approx(expected["payoff"], abs=1e-8)
        assert booking.paid == pytest.approx(booking.cost, abs=5.1e-7)
        assert counts(case, plan, "workers") == expected["workers"]
        assert counts(case, plan, "ps") == expected["pss"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_chunk_program_gives_the_papers_literal_payoff(case: dict[str, Any]) -> None:
    for expected, plan in zip(case["expected"], answers(case, units="chunks"), strict=True):
        gain = sum(booking.value - booking.cost for booking in plan.bookings)
        assert gain == pytest.approx(expected["literal_chunk_payoff"], abs=1e-8)


def test_payouts_sum_to_the_payment_slot_by_slot() -> None:
    for case in CASES:
        for plan in answers(case):
            for booking in plan.bookings:
                assert booking.slot_payouts is not None
                assert booking.payouts is not None
                np.testing.assert_allclose(booking.slot_payouts.sum(axis=0), booking.payouts, atol=1e-12)
                assert booking.payouts.sum() == pytest.approx(booking.paid, abs=1e-9)
