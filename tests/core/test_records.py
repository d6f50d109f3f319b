"""Stored views and plans: the bytes say all, and a replay from them decides the same to the last byte."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from scheduling.core import records
from scheduling.core.policies import build
from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH, Plan, Policy, UnitType, View
from tests.core.random_markets import random_market


@dataclass
class Recorded:
    """A policy that answers from the stored view, and checks that this changes nothing."""

    policy: Policy
    name: ClassVar[str] = "recorded"
    bookings: int = 0

    def decide(self, view: View) -> Plan:
        stored = records.view_bytes(view)
        replayed = records.view_from(stored)
        assert records.view_bytes(replayed) == stored
        plan = self.policy.decide(view)
        answer = records.plan_bytes(plan)
        assert records.plan_bytes(self.policy.decide(replayed)) == answer
        assert records.plan_bytes(records.plan_from(answer)) == answer
        self.bookings += len(plan.bookings)
        return plan


@pytest.mark.parametrize("mode", ["paper", "guarantee"])
@pytest.mark.parametrize("policy", ["astraea", "fifo", "oasis"])
def test_a_replay_from_bytes_decides_the_same(mode: str, policy: str) -> None:
    bookings = 0
    for seed in range(40):
        scenario = random_market(seed, mode)
        settings = scenario.policy if policy == "astraea" else {"name": policy}
        recorded = Recorded(build(settings, scenario.cluster, scenario.jobs))
        simulate(scenario, {BATCH: recorded})
        bookings += recorded.bookings
    assert bookings > 20


def test_a_chain_depends_on_every_part_and_on_where_one_part_ends() -> None:
    link = records.digest("0" * 64, b"input", b"result")
    assert link != records.digest("1" * 64, b"input", b"result")
    assert link != records.digest("0" * 64, b"inputr", b"esult")
    assert link == records.digest("0" * 64, b"input", b"result")


def test_jobs_of_a_stored_view_share_the_units_that_are_alike_and_no_others() -> None:
    market = random_market(3, "guarantee", backlog=True)
    usual = market.jobs[0].worker_types
    jobs = tuple(replace(job, worker_types=usual) if job.number % 2 else job for job in market.jobs)
    scenario = replace(market, jobs=jobs)
    policy = build(scenario.policy, scenario.cluster, scenario.jobs)
    shared = 0

    @dataclass
    class Reader:
        name: ClassVar[str] = "reader"

        def decide(self, view: View) -> Plan:
            nonlocal shared
            read = records.view_from(records.view_bytes(view))
            kinds: dict[tuple[object, ...], UnitType] = {}
            for number, job in read.jobs.items():
                assert [written(unit) for unit in units(read, number)] == [
                    written(unit) for unit in units(view, number)
                ]
                for unit in job.worker_types:
                    shared += written(unit) in kinds
                    assert kinds.setdefault(written(unit), unit) is unit
            return policy.decide(view)

    simulate(scenario, {BATCH: Reader()})
    assert shared


def units(view: View, number: int) -> tuple[UnitType, ...]:
    return view.jobs[number].worker_types


def written(unit: UnitType) -> tuple[object, ...]:
    return unit.seconds, unit.mbps, unit.amounts
