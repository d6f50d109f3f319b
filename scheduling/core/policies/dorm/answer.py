"""Dorm's answer to an event: the program by server, or for the cluster as a whole, and a fallback without solution."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from scheduling.core.gangs import GangUnits, halved
from scheduling.core.placement import Cursors, Vacancies
from scheduling.core.policies.dorm.problem import HeldUnits, JobWish, SharingProblem
from scheduling.core.policies.dorm.program import solved
from scheduling.core.speed import parameter_servers

LARGEST = 100  # jobs times servers; above it units are counted for the cluster as a whole and placed afterwards


def allocation(problem: SharingProblem) -> dict[int, HeldUnits]:
    """Return the answer to an event: every job has at least its least number if that is possible, else at least the
    oldest job; else the jobs keep what they held before. If that does not fit or nothing was held, the program is
    solved without its limits on shares and changes."""
    if not problem.wishes:
        return {}
    small = len(problem.wishes) * len(problem.cluster.servers) <= LARGEST
    find = solved if small else _pooled
    numbers = [wish.job.number for wish in problem.wishes]
    answer = find(problem, set(numbers))
    if answer is None and len(numbers) > 1:
        answer = find(problem, set(numbers[:1]))
    if answer is not None:
        return answer
    if problem.before and problem.room_for_held():
        return dict(problem.before)
    return find(replace(problem, fairness=math.inf, adjustment=1.0), set()) or {}


def _pooled(problem: SharingProblem, certain: set[int]) -> dict[int, HeldUnits] | None:
    """Answer a large event: find the numbers as if the cluster were one server, then the places. Jobs whose numbers do
    not change are first, and keep their places where these still hold them.

    A gang for which there is no place is halved until there is one. A job that finds none waits.
    """
    cluster = problem.cluster
    one = replace(
        cluster,
        servers=("all",),
        capacity=cluster.total[:, None],
        hosts_workers=np.array([cluster.hosts_workers.any()]),
        hosts_ps=np.array([cluster.hosts_ps.any()]),
        cells=None,
    )
    before = {number: HeldUnits(((0, held.workers, held.ps),)) for number, held in problem.before.items()}
    free = np.maximum(problem.free, 0.0).sum(axis=1, keepdims=True)
    numbers = solved(replace(problem, cluster=one, free=free, before=before), certain)
    if numbers is None:
        return None
    unchanged = {n: problem.before[n] for n, held in numbers.items() if before.get(n) == held}
    vacancies, cursors = Vacancies(cluster, (cluster.capacity - problem.free)[:, None, :]), Cursors()
    pooled: dict[int, HeldUnits] = {}
    for wish in problem.wishes:
        held = unchanged.get(wish.job.number)
        if held is not None and vacancies.take_again(wish.units, held.places()):
            pooled[wish.job.number] = held
    for wish in problem.wishes:
        if wish.job.number in numbers and wish.job.number not in pooled:
            placed = _placed(wish, numbers[wish.job.number].workers, vacancies, cursors)
            if placed is not None:
                pooled[wish.job.number], cursors = placed
    return pooled


def _placed(wish: JobWish, workers: int, vacancies: Vacancies, cursors: Cursors) -> tuple[HeldUnits, Cursors] | None:
    """Place the largest gang for which there is room, halving from `workers` on. Return None if there is none."""
    worker, ps = wish.units
    for size in halved(wish.job, workers):
        gang = GangUnits(size, parameter_servers(size, worker.mbps, ps.mbps), wish.worker_type, wish.ps_type)
        placement = vacancies.place(wish.job, gang, cursors)
        if placement is not None:
            counts = ((row.server, row.workers, row.ps) for row in placement.allocation(0, 1))
            return HeldUnits(tuple(counts)), placement.cursors
    return None
