"""PD-ORS against the shared cases: exact admissions, completion slots, costs and deployments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduling.core.occupancy import Occupancy
from scheduling.core.policies.pdors.work import grid_of, parts_of, speed_of
from scheduling.core.types import Job, Plan
from scheduling.core.value import Sigmoid
from tests.cases import cases
from tests.core.pdors_worlds import SLOT_SECONDS, World, make_policy, make_sample_job

CASES = cases("pdors")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])


def world_of(case: dict[str, Any], external: str) -> World:
    ceiling = {f"r{index}": most for index, most in enumerate(case["prices"]["U"])}
    policy = make_policy(floor=case["prices"]["L"], ceiling=ceiling, grid=case["grid_m"], external=external)
    return World(case["cap"], case["T"], policy)


def job_of(row: dict[str, Any], number: int) -> Job:
    return make_sample_job(
        number,
        arrival=row["a"] - 1,
        epochs=row["E"],
        samples=row["K"],
        batch=row["F"],
        sample_slots=row["tau"],
        exchange=row["g"],
        rates=(row["bi"], row["be"]),
        ratio=row["gamma"],
        worker=row["alpha"],
        ps=row["beta"],
        value=Sigmoid(*row["th"]),
    )


def answers(case: dict[str, Any], external: str) -> list[Plan]:
    """The plan for each job in turn, where the jobs before it are booked."""
    world = world_of(case, external)
    occupancy = Occupancy(world.cluster)
    for slot, server, resource, amount in case["preload"]:
        occupancy.add(resource, slot - 1, server, amount)
    plans = []
    for number, row in enumerate(case["jobs"]):
        job = job_of(row, number)
        occupied = world.empty()
        window = occupancy.window(0)
        occupied[:, : window.shape[1]] = window
        plan = world.policy.decide(world.view(job, occupied))
        for booking in plan.bookings:
            occupancy.place(job, booking)
        plans.append(plan)
    return plans


def counts(case: dict[str, Any], plan: Plan, kind: str) -> dict[str, list[int]]:
    """Slot (from 1) -> number on each server."""
    used: dict[str, list[int]] = {}
    for row in plan.bookings[0].allocation:
        for slot in range(row.start, row.end):
            used.setdefault(str(slot + 1), [0] * len(case["cap"]))[row.server] = getattr(row, kind)
    return used


@each_case
@pytest.mark.parametrize("external", ["greedy", "milp", "rounding"])
def test_decides_as_the_shared_case_says(case: dict[str, Any], external: str) -> None:
    for expected, plan in zip(case["expected"], answers(case, external), strict=True):
        assert bool(plan.bookings) == expected["admitted"], expected["id"]
        booking = plan.bookings[0]
        assert booking.end == expected["t_hat"]
        assert booking.cost == pytest.approx(expected["cost"], abs=1e-8)
        assert booking.value - booking.cost == pytest.approx(expected["payoff"], abs=1e-8)
        assert booking.paid == pytest.approx(booking.cost, abs=5.1e-7)
        if external != "rounding":  # which of equally cheap deployments is found there is left to chance
            assert counts(case, plan, "workers") == expected["workers"]
            assert counts(case, plan, "ps") == expected["pss"]


@each_case
def test_counts_the_work_as_the_shared_case_says(case: dict[str, Any]) -> None:
    for row, expected in zip(case["jobs"], case["expected"], strict=True):
        job = job_of(row, 0)
        speed = speed_of(job, job.worker_types[0], job.ps_types[0], SLOT_SECONDS)
        assert (float(speed.samples), float(speed.internal), float(speed.external)) == (
            expected["V"],
            expected["qi"],
            expected["qe"],
        )
        parts = parts_of(speed, case["grid_m"])
        assert parts == case["grid_m"]
        grid = grid_of(speed, parts, None)
        assert grid.work == case["grid_m"] * expected["V"] * expected["qe"]


def test_payouts_sum_to_the_payment_slot_by_slot() -> None:
    for case in CASES:
        for plan in answers(case, "greedy"):
            for booking in plan.bookings:
                assert booking.slot_payouts is not None
                assert booking.payouts is not None
                np.testing.assert_allclose(booking.slot_payouts.sum(axis=0), booking.payouts, atol=1e-12)
                assert booking.payouts.sum() == pytest.approx(booking.paid, abs=1e-9)
