"""What must be true of every plan of the batch auction, on random markets in both modes, with changed fields too."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import CENTRALIZED, OWN, SHARED, Booking, Cluster, Job, Plan, Policy, View
from tests.core.in_blocks import in_blocks
from tests.core.policy_examination import frozen, snapshot
from tests.core.random_markets import contested_market, random_market
from tests.core.reference_astraea import ReferenceAstraea
from tests.core.reference_search import gangs, length, worth
from tests.core.reference_terms import boundary
from tests.core.repricing import Audit, Terms, taken_by


@dataclass(frozen=True)
class Run:
    """A scenario, what became of it, every question with its answer, and the settings with defaults filled in."""

    scenario: Scenario
    outcome: Outcome
    answers: list[tuple[View, Plan, list[tuple[int, int]]]]  # with the windows that the clock has then
    reference: ReferenceAstraea

    @property
    def floor(self) -> bool:
        return bool(self.reference.settings["floor"])

    def sales(self) -> list[tuple[View, Plan, tuple[int, int], Booking, Job]]:
        """Every booking with the question, the answer, its window and its job."""
        return [
            (view, plan, window, booking, view.jobs[booking.job])
            for view, plan, windows in self.answers
            for window in windows
            for booking in plan.bookings
            if window[0] <= booking.start < window[1]
        ]


class Recorder:
    name = "recorder"

    def __init__(self, policy: Policy, reference: ReferenceAstraea) -> None:
        self.policy, self.reference, self.answers = policy, reference, []
        self.clock: dict[str, Any] = {}

    def decide(self, view: View) -> Plan:
        view = snapshot(view)
        plan = self.policy.decide(view)
        windows, self.clock = boundary(self.reference.settings, replace(view, memory=self.clock))
        self.answers.append((view, plan, windows))
        return plan


def run_of(scenario: Scenario) -> Run:
    reference = ReferenceAstraea(scenario.policy, scenario.cluster, scenario.jobs)
    recorder = Recorder(build(scenario.policy, scenario.cluster, scenario.jobs), reference)
    outcome = simulate(scenario, {"batch": recorder})
    return Run(scenario, outcome, recorder.answers, reference)


@cache
def market(number: int) -> Run:
    """Every second one is contested, the others have either mode, with and without a backlog. No test changes it."""
    seed = random.Random(number).randint(10**6, 10**9)
    mode = "guarantee" if number % 4 else "paper"
    return run_of(contested_market(seed) if number % 2 else random_market(seed, mode, backlog=number % 8 < 4))


on_random_markets = in_blocks(market)


@on_random_markets
def test_own_jobs_stay_within_what_their_tenant_owns(run: Run) -> None:
    cluster = run.scenario.cluster
    ends = [booking.end for *_, booking, _ in run.sales()]
    used = np.zeros((len(cluster.tenants), len(cluster.resources), max(ends, default=0), len(cluster.servers)))
    for *_, booking, job in run.sales():
        if booking.phase == OWN:
            used[job.tenant] += taken_by(job, booking, 0, used.shape[2], used.shape[3])
    for tenant, amounts in enumerate(used):
        assert (amounts.sum(axis=2) <= cluster.quota[:, tenant, None] + 1e-9).all()
        if run.floor:
            assert (amounts <= cluster.cells[:, tenant, None, :] + 1e-9).all()


@on_random_markets
def test_runs_end_inside_their_window_but_for_home_runs_with_a_floor(run: Run) -> None:
    assert len(run.sales()) == sum(len(plan.bookings) for _, plan, _ in run.answers), "outside every window"
    for *_, (_, end), booking, _ in run.sales():
        assert booking.end <= end or (run.floor and booking.phase == OWN)


@on_random_markets
def test_a_booking_is_worth_more_than_it_costs(run: Run) -> None:
    for *_, booking, _ in run.sales():
        assert booking.value - booking.shadow_cost - booking.paid > 0
        if run.floor and booking.phase == SHARED:
            assert booking.value - booking.paid > booking.floor


@on_random_markets
def test_values_are_those_of_the_completion(run: Run) -> None:
    for _, _, (start, _), booking, job in run.sales():
        seen_from = start if run.reference.settings["value_from"] == "round_start" else job.arrival
        assert booking.value == pytest.approx(worth(job.value, booking.end - seen_from))
        assert booking.ideal == pytest.approx(worth(job.value, booking.end - start))


@on_random_markets
def test_gains_of_all_owners_add_up_to_the_value_of_all_jobs(run: Run) -> None:
    gains, realised = np.zeros(len(run.scenario.cluster.owners)), 0.0
    for *_, booking, job in run.sales():
        value = worth(job.value, booking.end - job.arrival)
        realised += value
        gains[job.tenant] += value - booking.paid
        if booking.payouts is not None:
            assert (booking.payouts >= 0).all()
            assert booking.payouts.sum() == pytest.approx(booking.paid, abs=1e-9)
            gains += booking.payouts
    assert gains.sum() == pytest.approx(realised)


@on_random_markets
def test_an_auditor_recomputes_every_price_from_the_published_schedule(run: Run) -> None:
    terms = Terms(run.reference.settings, np.array(run.reference.theta), np.array(run.reference.price_floor))
    for view, plan, windows in run.answers:
        for window in windows:
            assert not Audit(terms, view, plan, window).flaws


@on_random_markets
def test_parameter_servers_carry_all_workers_elsewhere(run: Run) -> None:
    for *_, booking, job in run.sales():
        hosts = [row for row in booking.allocation if row.ps]
        assert len(hosts) == 1, "parameter servers on more than one server"
        elsewhere = booking.workers - hosts[0].workers
        worker, ps = job.worker_types[booking.worker_type], job.ps_types[booking.ps_type]
        if booking.placement == CENTRALIZED:
            assert (elsewhere, booking.ps) == (0, 1)
        else:
            assert elsewhere * worker.mbps <= booking.ps * ps.mbps * (1 + 1e-9)
            assert elsewhere >= 1


@on_random_markets
def test_gangs_are_as_asked_and_run_exactly_as_long_as_they_must(run: Run) -> None:
    for *_, booking, job in run.sales():
        pair = (booking.worker_type, booking.ps_type)
        slots = length(job, run.scenario.cluster.slot_seconds, pair, booking.workers, booking.placement)
        assert booking.end - booking.start == slots
        assert sum(row.workers for row in booking.allocation) == booking.workers
        least = job.max_workers if run.reference.settings["workers"] == "exact" else job.min_workers
        assert least <= booking.workers <= job.max_workers
        assert booking.ps <= (job.max_ps or booking.ps)


@on_random_markets
def test_a_job_longer_than_the_window_never_rents(run: Run) -> None:
    for _, _, (start, end), booking, job in run.sales():
        if booking.phase == SHARED:
            lengths = [length(job, run.scenario.cluster.slot_seconds, *gang) for gang in gangs(job, "range")]
            assert min(lengths) <= end - start


@on_random_markets
def test_nobody_pays_more_than_allowed(run: Run) -> None:
    spent = np.zeros(len(run.scenario.cluster.tenants))
    for *_, booking, job in run.sales():
        spent[job.tenant] += booking.paid
        tenant = run.scenario.cluster.tenants[job.tenant]
        assert booking.paid <= (np.inf if job.max_price is None else job.max_price) + 1e-9
        if run.floor and booking.phase == SHARED:
            rent = job.rent or tenant.rent
            assert rent != "never"
            assert rent != "budget" or spent[job.tenant] <= tenant.budget + 1e-6


@on_random_markets
def test_a_replay_decides_the_same(run: Run) -> None:
    for view, plan, _ in run.answers:
        assert frozen(build(run.scenario.policy, run.scenario.cluster, run.scenario.jobs).decide(view)) == frozen(plan)


def renumbered(cluster: Cluster, order: list[int]) -> Cluster:
    return replace(
        cluster,
        servers=tuple(cluster.servers[s] for s in order),
        capacity=cluster.capacity[:, order],
        hosts_workers=cluster.hosts_workers[order],
        hosts_ps=cluster.hosts_ps[order],
        cells=None if cluster.cells is None else cluster.cells[:, :, order],
    )


@on_random_markets
def test_the_numbering_of_servers_does_not_move_a_surplus(run: Run) -> None:
    """One job at a time: which of several equal servers a job takes may well matter to the next one."""
    scenario = run.scenario
    order = list(range(len(scenario.cluster.servers)))
    random.Random(len(run.answers)).shuffle(order)
    for job in scenario.jobs:
        alone = replace(scenario, jobs=(job,))
        moved = [replace(preload, server=order.index(preload.server)) for preload in scenario.preload]
        mixed = replace(alone, cluster=renumbered(scenario.cluster, order), preload=tuple(moved))
        one, other = [
            [(b.start, b.workers, b.placement, b.value - b.paid - b.shadow_cost) for *_, b, _ in run_of(world).sales()]
            for world in (alone, mixed)
        ]
        assert [row[:3] for row in one] == [row[:3] for row in other]
        assert [row[3] for row in one] == pytest.approx([row[3] for row in other])
