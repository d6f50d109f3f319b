"""How many workers, and how many cores of a database, `size` pools need so that none is late, by the model `queueing`.

A tenth is a thousand pools. What a boundary takes of a worker and of the database was measured by `pools`; a quarter of
the boundaries close an interval and cost five times as much as the others. The boundaries of all pools are at the full
minute, or spread evenly over it. Four minutes are modelled, to show delays that only grow late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.bench.scale.queueing import Task, late, minutes_of, serve

SIZES = (1_000, 10_000)  # pools
WORKER_SECONDS, DATABASE_SECONDS = 0.031, 0.022  # of a boundary, in the mean, on a quiet machine
MINUTE, HEAVY, EVERY, MINUTES = 60.0, 5.0, 4, 4
MOST_WORKERS, MOST_CORES = 4_096, 256


def measure(size: int) -> Iterator[dict[str, Any]]:
    for spread in (False, True):
        cores = least_cores(size, spread=spread)
        workers = least_workers(size, cores=cores, spread=spread)
        tasks = _tasks(size, spread)
        served = serve(tasks, workers=workers, cores=cores)
        seconds = sorted(end - task.comes for end, task in zip(served.ends, sorted(tasks), strict=True))
        detail = {
            "database_cores": cores,
            "workers_with_twice_the_cores": least_workers(size, cores=2 * cores, spread=spread),
            "median_s": round(seconds[len(seconds) // 2], 2),
            "longest_s": round(seconds[-1], 2),
            "worker_s": WORKER_SECONDS,
            "database_s": DATABASE_SECONDS,
        }
        how = "spread over the minute" if spread else "at the full minute"
        name = f"workers that many pools need, boundaries {how}"
        yield {"name": name, "value": workers, "unit": "workers", "target": None, "detail": detail}


def least_cores(pools: int, *, spread: bool) -> int:
    """Return the least cores of the database for which no pool is late, with as many workers as anybody could want.
    They are enough at least to do a minute's work in a minute."""
    tasks, work = _tasks(pools, spread), pools * DATABASE_SECONDS / MINUTE
    return _least(
        MOST_CORES,
        lambda cores: cores >= work and not late(serve(tasks, workers=MOST_WORKERS, cores=cores), tasks),
    )


def least_workers(pools: int, *, cores: int, spread: bool) -> int:
    """Return the least workers for which no pool is late. They are enough at least to do a minute's work in a minute:
    with fewer, all pools are late in the end."""
    tasks = _tasks(pools, spread)
    work = pools * (WORKER_SECONDS + DATABASE_SECONDS) / MINUTE
    return _least(
        MOST_WORKERS,
        lambda workers: workers >= work and not late(serve(tasks, workers=workers, cores=cores), tasks),
    )


def _tasks(pools: int, spread: bool) -> list[Task]:
    return minutes_of(
        pools,
        minutes=MINUTES,
        worker=WORKER_SECONDS,
        database=DATABASE_SECONDS,
        spread=spread,
        heavy=HEAVY,
        every=EVERY,
    )


def _least(most: int, is_enough: Callable[[int], bool]) -> int:
    """Return the least number that is enough, where every larger one is enough, too."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low
