"""Both lanes in one run: the invariants of the shared calendar over long random sequences (C5, C13)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import AWARDED, BATCH, INSTANT, OWN, Cluster, Job, Plan, Policy, View
from scheduling.core.value import Linear, Sigmoid
from tests.core.builders import make_cluster, make_job, make_ps, make_tenant, make_worker

SLOTS = 60


def random_cluster(dice: np.random.Generator) -> Cluster:
    """Three tenants with cells on up to four servers, and something left for the operator."""
    servers = int(dice.integers(2, 5))
    cells = dice.integers(0, 3, size=(2, 3, servers)).astype(float)
    spare = dice.integers(0, 3, size=(2, servers)).astype(float)
    lend = dice.choice(["lend", "lend", "keep"], size=3)
    reserve = dice.choice([0.0, 0.0, 2.0], size=3)
    return make_cluster(
        cells.sum(axis=1) + spare,
        quota=cells.sum(axis=2),
        cells=cells,
        tenants=[
            make_tenant(f"u{index}", lend=str(lend[index]), reserve_price=(float(reserve[index]), 0.0))
            for index in range(3)
        ],
    )


def random_job(number: int, dice: np.random.Generator) -> Job:
    instant = bool(dice.integers(0, 2))
    chunks = int(dice.integers(1, 5))
    value: Any = Linear(-float(dice.uniform(0.1, 4)), float(dice.uniform(20, 120)))
    if instant:
        value = Sigmoid(float(dice.uniform(5, 200)), float(dice.choice([0, 0.5])), float(dice.integers(1, 9)))
    return make_job(
        number,
        tenant=int(dice.integers(0, 3)),
        arrival=round(float(dice.uniform(0, SLOTS - 15)), 2),
        epochs=int(dice.integers(1, 5)),
        chunks=chunks,
        worker_types=[make_worker(mbps=1.0)],
        ps_types=[make_ps(mbps=float(dice.choice([1.0, 4.0])))],
        value=value,
        lane=INSTANT if instant else BATCH,
    )


@dataclass
class Watched:
    """The instant policy, watched: what is taken of a cell never falls from one question to the next."""

    policy: Policy
    name: ClassVar[str] = "watched"
    last: list[tuple[int, Any]] = field(default_factory=list)
    admitted: int = 0

    def decide(self, view: View) -> Plan:
        if self.last:
            slot, before = self.last.pop()
            shift = view.slot - slot
            slots = min(before.shape[1] - shift, view.occupied.shape[1])
            if slots > 0:
                earlier, now = before[:, shift : shift + slots], view.occupied[:, :slots]
                opened = earlier >= view.cluster.capacity[:, None, :]  # closed until the frontier moved
                assert (opened | (now >= earlier - 1e-9)).all()
        self.last.append((view.slot, view.occupied.copy()))
        plan = self.policy.decide(view)
        for booking in plan.bookings:
            self.admitted += 1
            job = view.jobs[booking.job]
            assert booking.value == float(job.value(booking.end - job.arrival))
            if booking.phase == OWN:
                assert (booking.paid, booking.payouts) == (0.0, None)
                continue
            assert booking.payouts is not None
            assert booking.value - booking.paid + booking.payouts[job.tenant] > 0
            assert booking.payouts.min() >= 0
            assert booking.payouts.sum() == pytest.approx(booking.paid, abs=1e-9)
        return plan


def run(cluster: Cluster, jobs: list[Job], batch: dict[str, Any]) -> tuple[Outcome, Watched]:
    instant_settings = {
        "name": "oasis",
        "worker_price": {"floor": 0.5, "ceiling": {"worker": 20.0}},
        "ps_price": {"floor": 0.5, "ceiling": {"ps": 20.0}},
    }
    watched = Watched(build(instant_settings, cluster, jobs))
    policies: dict[str, Policy] = {BATCH: build(batch, cluster, jobs), INSTANT: watched}
    return simulate(Scenario(cluster, tuple(jobs), SLOTS, batch), policies), watched


def astraea(clock: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "astraea",
        "mode": "guarantee",
        "theta": {"worker": 4, "ps": 4},
        "price_floor": {"worker": 0.5, "ps": 0.5},
        "clock": clock,
    }


CLOCKS = [{"first": 4, "cap": 4, "restart": False}, {"first": 1, "cap": 8, "restart": True}]


def awards(outcome: Outcome) -> dict[str, Any]:
    """What the batch lane decided, to the last number."""
    return {
        track.job.name: [
            (b.start, b.end, b.allocation, b.paid, b.value, b.floor, b.phase, tuple(np.ravel(b.payouts)))
            for b in track.bookings
        ]
        for track in outcome.tracks
        if track.job.lane == BATCH
    }


@pytest.mark.wide
@pytest.mark.parametrize("clock", CLOCKS, ids=["steady", "restarting"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_long_sequences_of_both_lanes_keep_every_invariant(clock: dict[str, Any], seed: int) -> None:
    dice = np.random.default_rng(seed)
    cluster = random_cluster(dice)
    jobs = [random_job(number, dice) for number in range(40)]
    with_lane, _ = run(cluster, jobs, astraea(clock))  # a cell over capacity or a sale past the frontier raises
    quiet = [replace(job, arrival=float(10 * SLOTS)) if job.lane == INSTANT else job for job in jobs]
    without_lane, watched = run(cluster, quiet, astraea(clock))
    assert watched.admitted == 0
    assert awards(with_lane) == awards(without_lane)


@pytest.mark.parametrize("clock", CLOCKS, ids=["steady", "restarting"])
def test_the_random_sequences_do_use_both_lanes_and_both_pools(clock: dict[str, Any]) -> None:
    instant = batch = at_home = to_tenants = to_operator = 0.0
    for seed in range(12):
        dice = np.random.default_rng(seed)
        cluster = random_cluster(dice)
        outcome, watched = run(cluster, [random_job(number, dice) for number in range(40)], astraea(clock))
        instant += watched.admitted
        batch += sum(track.state == AWARDED for track in outcome.tracks if track.job.lane == BATCH)
        for track in outcome.tracks:
            for booking in track.bookings if track.job.lane == INSTANT else []:
                at_home += booking.phase == OWN
                to_tenants += 0.0 if booking.payouts is None else float(booking.payouts[:-1].sum())
                to_operator += 0.0 if booking.payouts is None else float(booking.payouts[-1])
    assert min(instant, batch, at_home) > 20
    assert min(to_tenants, to_operator) > 50
