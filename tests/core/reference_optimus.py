"""Optimus' allocation and placement once more, plainly: one heap, one unit at a time, servers sorted anew."""

from __future__ import annotations

import heapq

import numpy as np

from scheduling.core.policies.optimus.allocation import JobDemands


def allocate(demands: JobDemands, free: np.ndarray, stop: str) -> list[tuple[int, int]]:
    """(parameter servers, workers) of each job."""
    room = free + 1e-9 * np.maximum(1.0, free)
    numbers: list[tuple[int, int]] = []
    for least, demand in zip(demands.least, demands.demand, strict=True):
        bundle = least[0] * demand[0] + least[1] * demand[1]
        fits = bool((bundle <= room).all())
        room = room - bundle if fits else room
        numbers.append((int(least[0]), int(least[1])) if fits else (0, 0))
    retired: set[tuple[int, int]] = set()

    def entry(job: int) -> tuple[float, int, int] | None:
        now, best = numbers[job], None
        base = demands.least[job]
        for kind in (0, 1):
            then = (now[0] + (kind == 0), now[1] + (kind == 1))
            if (job, kind) in retired or then[kind] > demands.most[job][kind]:
                continue
            gain = demands.seconds[job][now[0] - base[0]][now[1] - base[1]]
            gain = (gain - demands.seconds[job][then[0] - base[0]][then[1] - base[1]]) / demands.weight[job][kind]
            gain = gain * demands.factor[job] if gain > 0 else gain
            if gain > 0 and (best is None or gain > -best[0]):
                best = (-gain, job, kind)
        return best

    heap = [row for job in range(len(numbers)) if numbers[job] != (0, 0) and (row := entry(job))]
    heapq.heapify(heap)
    while heap:
        _, job, kind = heapq.heappop(heap)
        if (demands.demand[job][kind] <= room).all():
            room = room - demands.demand[job][kind]
            numbers[job] = (numbers[job][0] + (kind == 0), numbers[job][1] + (kind == 1))
        elif stop == "break":
            break
        else:
            retired.add((job, kind))
        if (row := entry(job)) is not None:
            heapq.heappush(heap, row)
    return numbers


def place(
    free: np.ndarray, key: int, gangs: list[tuple[int, int, np.ndarray, np.ndarray]]
) -> list[list[tuple[int, int, int]] | None]:
    """Rows (server, workers, parameter servers) of gangs (workers, ps, demand of each), placed one after the other."""
    free = free.copy() + 1e-9  # (resources, servers)
    placed: list[list[tuple[int, int, int]] | None] = []
    for workers, ps, worker, server in gangs:
        order = sorted(range(free.shape[1]), key=lambda s: (-free[key, s], s))
        rows = None
        for count in range(1, min(len(order), max(workers, ps)) + 1):
            parts = [
                (
                    order[i],
                    workers // count + (i < workers % count),
                    ps // count + (i < ps % count),
                )
                for i in range(count)
            ]
            if all((w * worker + p * server <= free[:, s]).all() for s, w, p in parts):
                rows = parts
                break
        for s, w, p in rows or []:
            free[:, s] -= w * worker + p * server
        placed.append(rows)
    return placed
