"""Dorm: as much of the cluster as fairness and few changes allow, dealt out anew at every arrival and completion."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.policies.dorm import Dorm
from scheduling.core.policies.dorm import answer as answer_module
from scheduling.core.scenario import BadScenario
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, Cluster, Job, Plan
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_unit_type, make_view

Numbers = tuple[tuple[int, ...], tuple[int, ...]]  # workers and parameter servers by server
FAIRNESS, ADJUSTMENT = 0.1, 0.1


# --- the rules once more, by trying everything ----------------------------------------------------------------------


def ways(job: Job, servers: int) -> Iterator[Numbers]:
    """Every allocation of a job: nothing, or workers within its limits and exactly the parameter servers they need."""
    yield (0,) * servers, (0,) * servers
    per_worker = job.worker_types[0].mbps / job.ps_types[0].mbps
    for workers in itertools.product(range(job.max_workers + 1), repeat=servers):
        if not job.min_workers <= sum(workers) <= job.max_workers:
            continue
        needed = max(1, math.ceil(sum(workers) * per_worker - 1e-9))
        for ps in itertools.product(range(needed + 1), repeat=servers):
            if sum(ps) == needed:
                yield workers, ps


def amounts(job: Job, numbers: Numbers) -> np.ndarray:
    """(resources, servers)"""
    return np.outer(job.worker_types[0].demand, numbers[0]) + np.outer(job.ps_types[0].demand, numbers[1])


def share(job: Job, numbers: Numbers, cluster: Cluster) -> float:
    """Of the resource of which a worker and its part of a parameter server take most."""
    worker, ps = job.worker_types[0], job.ps_types[0]
    resource = int(np.argmax((worker.demand + ps.demand * worker.mbps / ps.mbps) / cluster.total))
    return float(amounts(job, numbers)[resource].sum() / cluster.total[resource])


def fair(jobs: list[Job], cluster: Cluster) -> list[float]:
    """Progressive filling of the cluster as one server."""
    room, counts, stuck = cluster.total.copy(), [0] * len(jobs), set[int]()

    def held(k: int, workers: int) -> Numbers:
        per_worker = jobs[k].worker_types[0].mbps / jobs[k].ps_types[0].mbps
        return (workers,), (max(1, math.ceil(workers * per_worker - 1e-9)) if workers else 0,)

    while len(stuck) < len(jobs):
        shares = [(share(job, held(k, counts[k]), cluster), k) for k, job in enumerate(jobs) if k not in stuck]
        _, k = min(shares)
        more = max(counts[k] + 1, jobs[k].min_workers)
        extra = amounts(jobs[k], held(k, more))[:, 0] - amounts(jobs[k], held(k, counts[k]))[:, 0]
        if more > jobs[k].max_workers or (extra > room + 1e-9).any():
            stuck.add(k)
        else:
            room, counts[k] = room - extra, more
    return [share(job, held(k, counts[k]), cluster) for k, job in enumerate(jobs)]


def best_use(jobs: list[Job], cluster: Cluster, before: Mapping[int, Numbers]) -> float | None:
    """The largest use of the cluster with everybody served, else with the oldest served; None: keep what there is."""
    shares = fair(jobs, cluster)
    all_ways = [list(ways(job, len(cluster.servers))) for job in jobs]
    for served in (range(len(jobs)), range(1)):
        best = None
        for combination in itertools.product(*all_ways):
            if not all(sum(combination[k][0]) for k in served):
                continue
            used = sum(amounts(job, numbers) for job, numbers in zip(jobs, combination, strict=True))
            if (used > cluster.capacity + 1e-9).any():
                continue
            if not allowed(jobs, combination, cluster, shares, before):
                continue
            total = float((used.sum(axis=1) / cluster.total).sum())
            best = total if best is None else max(best, total)
        if best is not None:
            return best
    return None


def allowed(
    jobs: list[Job],
    combination: tuple[Numbers, ...],
    cluster: Cluster,
    shares: list[float],
    before: Mapping[int, Numbers],
) -> bool:
    distance = sum(abs(share(job, combination[k], cluster) - shares[k]) for k, job in enumerate(jobs))
    running = [(k, before[job.number]) for k, job in enumerate(jobs) if job.number in before]
    changes = sum(combination[k] != had for k, had in running)
    return distance <= FAIRNESS * 2 * len(cluster.resources) + 1e-7 and changes <= math.ceil(
        ADJUSTMENT * len(running) - 1e-9
    )


def numbers_of(plan: Plan, servers: int) -> dict[int, Numbers]:
    numbers = {}
    for booking in plan.bookings:
        workers, ps = [0] * servers, [0] * servers
        for row in booking.allocation:
            workers[row.server], ps[row.server] = row.workers, row.ps
        numbers[booking.job] = (tuple(workers), tuple(ps))
    return numbers


def random_event(dice: np.random.Generator) -> tuple[Cluster, list[Job]]:
    servers = int(dice.integers(1, 3))
    cluster = make_cluster(dice.integers(3, 9, size=(2, servers)).astype(float).tolist())
    jobs = []
    for number in range(3):
        worker = make_unit_type([float(dice.integers(1, 3)), float(dice.integers(0, 2))])
        ps = make_unit_type([0.0, float(dice.integers(1, 3))], seconds=0.0, mbps=float(dice.choice([1, 2, 3])))
        most = int(dice.integers(1, 4))
        fields = {"min_workers": int(dice.integers(1, most + 1)), "max_workers": most}
        jobs.append(make_job(number, epochs=50, chunks=3, worker_types=[worker], ps_types=[ps], **fields))
    return cluster, jobs


def used(plan: Plan, jobs: list[Job], cluster: Cluster) -> float:
    numbers = numbers_of(plan, len(cluster.servers))
    return sum(float((amounts(jobs[n], numbers[n]).sum(axis=1) / cluster.total).sum()) for n in numbers)


@pytest.mark.parametrize("block", range(3))
def test_uses_as_much_as_trying_everything_does(block: int) -> None:
    dice, compared = np.random.default_rng([9, block]), 0
    for _ in range(14):
        cluster, jobs = random_event(dice)
        first = Dorm().decide(make_view(jobs[:2], cluster=cluster))
        before = numbers_of(first, len(cluster.servers))
        second = Dorm().decide(make_view(jobs, slot=1, cluster=cluster, memory=first.memory))
        runnable = [j for j in jobs if (amounts(j, ((j.min_workers,), (1,)))[:, 0] <= cluster.total).all()]
        if len(runnable) < 3:
            continue
        best = best_use(jobs, cluster, before)
        if best is None:
            if before:
                assert numbers_of(second, len(cluster.servers)) == before
            continue
        assert used(second, jobs, cluster) == pytest.approx(best, rel=2e-3)
        shares = fair(jobs, cluster)
        numbers = numbers_of(second, len(cluster.servers))
        nothing = ((0,) * len(cluster.servers),) * 2
        combination = tuple(numbers.get(job.number, nothing) for job in jobs)
        assert allowed(jobs, combination, cluster, shares, before)
        compared += 1
    assert compared >= 3


# --- events ---------------------------------------------------------------------------------------------------------


def test_keeps_what_everybody_has_until_somebody_comes_or_goes() -> None:
    cluster = make_cluster(((6,), (6,)))
    jobs = [make_job(0, epochs=9, chunks=4), make_job(1, epochs=9, chunks=4)]
    first = Dorm().decide(make_view(jobs, cluster=cluster))
    again = Dorm(fairness=0.0, adjustment=1.0).decide(make_view(jobs, slot=1, cluster=cluster, memory=first.memory))
    assert numbers_of(again, 1) == numbers_of(first, 1)


def test_deals_anew_when_there_is_less_room_than_is_held() -> None:
    cluster = make_cluster(((6,), (6,)))
    job = make_job(0, epochs=9, chunks=6)
    first = Dorm().decide(make_view([job], cluster=cluster))
    assert first.bookings[0].workers == 6
    occupied = np.full((2, 1, 1), 4.0)
    second = Dorm().decide(make_view([job], slot=1, cluster=cluster, occupied=occupied, memory=first.memory))
    assert second.bookings[0].workers == 2


def test_a_changed_job_loses_the_part_of_a_slot_that_a_restart_takes() -> None:
    cluster = make_cluster(((4,), (4,)))
    old, new = make_job(0, epochs=50, chunks=4), make_job(1, epochs=50, chunks=4)
    policy = Dorm(restart=0.25)
    first = policy.decide(make_view([old], cluster=cluster))
    second = policy.decide(make_view([old, new], slot=1, cluster=cluster, memory=first.memory))
    work = {booking.job: booking.work / booking.workers for booking in second.bookings}
    assert numbers_of(second, 1)[0] != numbers_of(first, 1)[0]
    assert work == {0: 0.75, 1: 1.0}


def test_finishes_every_job_that_can_run_at_all() -> None:
    cluster = make_cluster(((4, 2), (2, 2)))
    jobs = [make_job(n, arrival=n // 2, epochs=3, chunks=1 + n % 3, ps_types=[make_ps(mbps=2)]) for n in range(7)]
    jobs.append(make_job(9, chunks=9, min_workers=9, ps_types=[make_ps(mbps=9)]))
    tracks = simulate(make_scenario(jobs, cluster=cluster), {"batch": Dorm()}).tracks
    assert [track.state for track in tracks] == [AWARDED] * 7 + ["rejected"]


def test_a_large_event_is_counted_as_a_whole_and_then_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "LARGEST", 1)
    cluster = make_cluster(((3, 3, 3), (2, 2, 2)))
    jobs = [make_job(n, epochs=5, chunks=4, ps_types=[make_ps(mbps=2)]) for n in range(3)]
    first = Dorm().decide(make_view(jobs[:2], cluster=cluster))
    second = Dorm().decide(make_view(jobs, slot=1, cluster=cluster, memory=first.memory))
    unchanged = [numbers_of(second, 3)[n] == numbers_of(first, 3)[n] for n in range(2)]
    assert unchanged.count(False) <= 1
    demand = sum(amounts(jobs[n], numbers) for n, numbers in numbers_of(second, 3).items())
    assert (demand <= cluster.capacity).all()
    assert len(second.bookings) == 3


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"fairness": -1}, "policy.fairness"),
        ({"adjustment": 2}, "policy.adjustment"),
        ({"restart": 1}, "policy.restart"),
    ],
)
def test_wrong_settings_are_refused(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(BadScenario) as refused:
        build({"name": "dorm"} | fields, make_cluster(), ())
    assert refused.value.place == place
