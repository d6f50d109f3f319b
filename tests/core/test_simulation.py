"""The one loop, with toy policies of every cadence: per slot, per arrival and per round."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from scheduling.core.occupancy import CapacityExceeded
from scheduling.core.policies.dominant_resource_fairness import DominantResourceFairness
from scheduling.core.policies.fifo import Fifo
from scheduling.core.scenario import Preload, Scenario
from scheduling.core.simulation import PlanRejected, Track, simulate
from scheduling.core.types import (
    AWARDED,
    BATCH,
    EXPIRED,
    INSTANT,
    REJECTED,
    WAITING,
    Allocation,
    Booking,
    Floor,
    Job,
    Plan,
    Policy,
    Reason,
    Refusal,
    View,
)
from tests.core.builders import make_cluster, make_job, make_scenario, make_tenant

ONE_SERVER = make_cluster(((4,), (4,)))
NO_ROOM = Reason("no_room")


def one_worker(job: Job, start: int, end: int, **terms: object) -> Booking:
    """One worker and its parameter server on the first server; a mini-batch a slot."""
    allocation = (Allocation(0, start, end, 1, 1),)
    terms = {"work": float(end - start), "allocation": allocation} | terms
    return Booking(job=job.number, start=start, end=end, workers=1, ps=1, **terms)


def free_in(view: View, start: int, end: int) -> int:
    """Workers that stay free on the first server, and have a parameter server each."""
    held = view.occupied[:, start - view.slot : end - view.slot, 0].max(axis=1, initial=0.0)
    return int((view.cluster.capacity[:, 0] - held).min())


@dataclass(frozen=True)
class PerSlot:
    """One worker and one slot for as many jobs as there is room for."""

    name: ClassVar[str] = "per slot"

    def decide(self, view: View) -> Plan:
        served = view.waiting[: free_in(view, view.slot, view.slot + 1)]
        return Plan([one_worker(job, view.slot, view.slot + 1) for job in served])


@dataclass(frozen=True)
class PerArrival:
    """Each job is booked for its whole life in the slot it arrives in, or refused for good."""

    name: ClassVar[str] = "per arrival"

    def decide(self, view: View) -> Plan:
        bookings, refusals = [], []
        for job in view.waiting:
            end = view.slot + job.work
            if free_in(view, view.slot, end) > len(bookings):
                bookings.append(one_worker(job, view.slot, end))
            else:
                refusals.append(Refusal(job.number, NO_ROOM, REJECTED))
        return Plan(bookings, refusals)


@dataclass(frozen=True)
class PerRound:
    """Every fourth slot the waiting jobs are booked one after the other; nothing is said in between."""

    name: ClassVar[str] = "per round"

    def decide(self, view: View) -> Plan:
        if view.slot % 4:
            return Plan()
        bookings, start = [], view.memory.get("free_from", 0)
        for job in view.waiting:
            start = max(start, view.slot)
            bookings.append(one_worker(job, start, start + job.work))
            start += job.work
        return Plan(bookings, memory={"free_from": start})


TOYS: list[Policy] = [PerSlot(), PerArrival(), PerRound()]


def run(scenario: Scenario, policy: Policy) -> tuple[Track, ...]:
    return simulate(scenario, {BATCH: policy}).tracks


def asked_every_slot(scenario: Scenario, policy: Policy) -> dict[int, list[Booking]]:
    """The bookings when the policy is asked at every slot there is, with nothing carried along but what must be."""
    waiting = {job.number: float(job.work) for job in scenario.jobs}
    order = sorted(scenario.jobs, key=lambda job: (job.arrival, job.number))
    booked: dict[int, list[Booking]] = {job.number: [] for job in scenario.jobs}
    cluster, memory = scenario.cluster, {}
    occupied = np.zeros((len(cluster.resources), 4 * scenario.slots, len(cluster.servers)))
    for slot in range(scenario.slots):
        here = [job for job in order if job.number in waiting and job.arrival <= slot]
        plan = policy.decide(
            View(
                slot=slot,
                horizon=scenario.slots,
                cluster=cluster,
                waiting=tuple(here),
                remaining=np.array([waiting[job.number] for job in here]),
                occupied=occupied[:, slot:],
                memory=memory,
            )
        )
        memory = memory if plan.memory is None else plan.memory
        for booking in plan.bookings:
            job = scenario.jobs[booking.job]
            worker, ps = job.worker_types[booking.worker_type], job.ps_types[booking.ps_type]
            for row in booking.allocation:
                amounts = row.workers * worker.demand + row.ps * ps.demand
                occupied[:, row.start : row.end, row.server] += amounts[:, None]
            booked[booking.job].append(booking)
            waiting[booking.job] -= booking.work
            if waiting[booking.job] < 1e-9:
                del waiting[booking.job]
        for refusal in plan.refusals:
            if refusal.state != WAITING:
                del waiting[refusal.job]
    return booked


def random_scenario(seed: int) -> Scenario:
    """Few jobs with long gaps between some of them."""
    dice = np.random.default_rng(seed)
    arrivals = dice.choice([0.0, 0.3, 5.0, 17.5, 40.0], 7) + dice.choice([0.0, 1.0], 7)
    jobs = [
        make_job(k, arrival=float(arrival), epochs=int(dice.integers(1, 6)), chunks=int(dice.integers(1, 3)))
        for k, arrival in enumerate(arrivals)
    ]
    return make_scenario(jobs, cluster=make_cluster(((2, 2), (2, 2))), slots=60)


@pytest.mark.parametrize("policy", [*TOYS, Fifo(), DominantResourceFairness()], ids=lambda policy: policy.name)
@pytest.mark.parametrize("seed", range(20))
def test_skipping_idle_slots_changes_nothing(policy, seed):
    scenario = random_scenario(seed)
    expected = asked_every_slot(scenario, policy)
    for track in run(scenario, policy):
        got = [(booking.start, booking.end, booking.allocation) for booking in track.bookings]
        assert got == [(b.start, b.end, b.allocation) for b in expected[track.job.number]]


def test_every_cadence_runs_on_the_one_loop():
    jobs = [make_job(0, epochs=2), make_job(1, epochs=3, arrival=0.5), make_job(2, arrival=1)]
    times = {
        policy.name: [[(b.start, b.end) for b in track.bookings] for track in run(make_scenario(jobs), policy)]
        for policy in TOYS
    }
    assert times == {
        "per slot": [[(0, 1), (1, 2)], [(1, 2), (2, 3), (3, 4)], [(2, 3)]],
        "per arrival": [[(0, 2)], [(1, 4)], []],
        "per round": [[(0, 2)], [(4, 7)], [(7, 8)]],
    }


def test_is_asked_only_while_a_job_waits():
    jobs = [make_job(0, epochs=2), make_job(1, arrival=40.5)]
    assert simulate(make_scenario(jobs), {BATCH: PerSlot()}).decisions == 3


def test_asks_nothing_at_the_horizon_or_after_it():
    jobs = [make_job(0, epochs=9), make_job(1, arrival=4.0)]
    tracks = run(make_scenario(jobs, slots=4), PerSlot())
    assert [len(track.bookings) for track in tracks] == [4, 0]
    assert [track.state for track in tracks] == [WAITING, WAITING]


def test_no_jobs_no_questions():
    outcome = simulate(make_scenario([]), {BATCH: PerSlot()})
    assert (outcome.tracks, outcome.decisions) == ((), 0)


def test_a_refusal_is_final_unless_it_says_wait():
    refused = run(make_scenario([make_job(k, epochs=9) for k in range(3)]), PerArrival())
    assert [(track.state, track.reason) for track in refused] == [
        (AWARDED, None),
        (AWARDED, None),
        (REJECTED, NO_ROOM),
    ]


def test_progress_is_told_to_the_end():
    calls: list[tuple[int, int]] = []
    scenario = make_scenario([make_job(k, arrival=float(k)) for k in range(3)])
    simulate(scenario, {BATCH: PerSlot()}, lambda settled, jobs: calls.append((settled, jobs)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_what_was_preloaded_is_occupied():
    preload = [Preload(server=0, slot=2, resource=0, amount=2.0)]
    scenario = make_scenario([make_job(0, epochs=3)], cluster=make_cluster(((2,), (2,))), preload=preload)
    assert [booking.start for booking in run(scenario, PerSlot())[0].bookings] == [0, 1, 3]


@dataclass(frozen=True)
class Scripted:
    """Says what a function of the view says."""

    name: ClassVar[str] = "scripted"
    script: Callable[[View], Plan]

    def decide(self, view: View) -> Plan:
        return self.script(view)


BROKEN = {
    "above capacity": (lambda view: Plan([one_worker(job, 0, 1) for job in view.waiting]), CapacityExceeded),
    "before now": (lambda view: Plan([one_worker(view.waiting[0], view.slot - 1, view.slot)]), PlanRejected),
    "twice": (lambda view: Plan([one_worker(view.waiting[0], 0, 1)] * 2), PlanRejected),
    "a stranger": (lambda view: Plan([replace(one_worker(view.waiting[0], 0, 1), job=99)]), PlanRejected),
    "not arrived": (lambda view: Plan([one_worker(view.jobs[5], 8, 9)]), PlanRejected),
    "refused twice": (lambda view: Plan((), [Refusal(0, NO_ROOM, REJECTED)] * 2), PlanRejected),
    "units outside": (
        lambda view: Plan([one_worker(view.waiting[0], 3, 4, allocation=(Allocation(0, 0, 4, 1, 1),))]),
        PlanRejected,
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_catches_a_policy_that_breaks_its_promise(broken):
    script, error = BROKEN[broken]
    jobs = [*(make_job(k) for k in range(5)), make_job(5, arrival=7.5)]
    with pytest.raises(error):
        run(make_scenario(jobs, cluster=ONE_SERVER), Scripted(script))


def test_carries_memory_money_and_floors_along():
    view_states: list[tuple[object, list[float], object]] = []

    def script(view: View) -> Plan:
        view_states.append((dict(view.memory), view.spent.tolist(), dict(view.floors)))
        job = view.waiting[0]
        booking = one_worker(job, view.slot, view.slot + 1, paid=2.5)
        return Plan([booking], floors=[Floor(job.number, 7.0)], memory={"asked": len(view_states)})

    [track] = run(make_scenario([make_job(0, epochs=2)], cluster=ONE_SERVER), Scripted(script))
    assert view_states == [({}, [0.0], {}), ({"asked": 1}, [2.5], {0: Floor(0, 7.0)})]
    assert track.floor == Floor(0, 7.0)
    assert (track.state, len(track.bookings)) == (AWARDED, 2)


def test_keeps_totals_and_not_every_slot_of_the_payouts():
    def script(view: View) -> Plan:
        return Plan([one_worker(view.waiting[0], 0, 1, paid=1.0, payouts=[0.0, 1.0], slot_payouts=[[0.0, 1.0]])])

    [booking] = run(make_scenario([make_job(0)], cluster=ONE_SERVER), Scripted(script))[0].bookings
    assert booking.slot_payouts is None
    assert booking.payouts.tolist() == [0.0, 1.0]


def test_an_expired_job_is_asked_about_no_more():
    outcome = simulate(
        make_scenario([make_job(0)]), {BATCH: Scripted(lambda view: Plan((), [Refusal(0, NO_ROOM, EXPIRED)]))}
    )
    assert (outcome.tracks[0].state, outcome.decisions) == (EXPIRED, 1)


def test_each_lane_has_its_own_policy_and_one_policy_has_all_lanes():
    cluster = make_cluster(((3,), (3,)), cells=[[[1]], [[1]]], tenants=[make_tenant("u0")])
    jobs = [make_job(0, lane=BATCH), make_job(1, lane=INSTANT)]
    numbers: dict[str, set[int]] = {BATCH: set(), INSTANT: set()}

    def watcher(lane: str) -> Policy:
        def script(view: View) -> Plan:
            numbers[lane] |= {job.number for job in view.waiting}
            return Plan([one_worker(job, view.slot, view.slot + 1) for job in view.waiting])

        return Scripted(script)

    both = simulate(make_scenario(jobs, cluster=cluster), {lane: watcher(lane) for lane in (BATCH, INSTANT)})
    assert numbers == {BATCH: {0}, INSTANT: {1}}
    assert {track.state for track in both.tracks} == {AWARDED}
    assert {track.state for track in run(make_scenario(jobs), PerSlot())} == {AWARDED}


def test_the_collector_rests_while_a_scenario_is_simulated() -> None:
    collector_states: list[bool] = []
    simulate(
        make_scenario([make_job()]), {BATCH: Fifo()}, lambda settled, jobs: collector_states.append(gc.isenabled())
    )
    assert collector_states
    assert not any(collector_states)
    assert gc.isenabled()
