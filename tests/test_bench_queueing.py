"""The model of many pools says what queueing theory says, and what a slow simulation of the same rules does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.scale.queueing import Task, late, minutes_of, serve, waits_in_theory

SECONDS = st.floats(0.001, 10.0)


@pytest.mark.parametrize(("desks", "use"), [(1, 0.5), (2, 0.8), (5, 0.7)])
def test_mean_wait_is_that_of_erlang_where_arrivals_and_services_are_exponential(desks: int, use: float) -> None:
    draw, tasks = np.random.default_rng(7), 200_000
    comes = draw.exponential(1.0 / (use * desks), tasks).cumsum()
    service = draw.exponential(1.0, tasks)
    served = serve(map(Task, comes.tolist(), service.tolist()), workers=desks, cores=desks)
    assert np.mean(served.waits) == pytest.approx(waits_in_theory(use * desks, 1.0, desks), rel=0.05)


@pytest.mark.parametrize("use", [0.5, 0.8])
def test_mean_wait_is_that_of_pollaczek_and_khinchine_where_every_service_is_alike(use: float) -> None:
    comes = np.random.default_rng(8).exponential(1.0 / use, 200_000).cumsum()
    served = serve([Task(moment, 1.0) for moment in comes.tolist()], workers=1, cores=1)
    assert np.mean(served.waits) == pytest.approx(use / (2 * (1 - use)), rel=0.05)


@given(st.integers(1, 60), st.integers(1, 7))
def test_all_at_once_are_done_in_rounds(tasks: int, workers: int) -> None:
    served = serve([Task(0.0, 2.0)] * tasks, workers=workers, cores=workers)
    assert max(served.ends) == 2.0 * math.ceil(tasks / workers)


@given(st.integers(1, 60), st.integers(1, 7))
def test_a_database_of_one_core_does_one_after_the_other(tasks: int, workers: int) -> None:
    served = serve([Task(0.0, 0.0, 2.0)] * tasks, workers=workers, cores=1)
    assert max(served.ends) == 2.0 * tasks


@given(
    st.lists(st.builds(Task, SECONDS, SECONDS, SECONDS), min_size=1, max_size=12), st.integers(1, 4), st.integers(1, 3)
)
def test_is_what_a_slow_simulation_says(tasks: list[Task], workers: int, cores: int) -> None:
    tasks = sorted(Task(task.comes + 1e-7 * n, task.worker + 1e-6 * n, task.database) for n, task in enumerate(tasks))
    served = serve(tasks, workers=workers, cores=cores)
    ends = slowly(tasks, workers, cores)
    assert served.ends == pytest.approx(ends)
    assert served.workers_busy == pytest.approx(
        sum(end - task.comes - wait for end, task, wait in zip(ends, tasks, served.waits, strict=True))
    )
    assert late(served, tasks, within=5.0) == sum(
        end - task.comes > 5.0 for end, task in zip(served.ends, tasks, strict=True)
    )


def slowly(tasks: Sequence[Task], workers: int, cores: int) -> list[float]:
    """Event by event: at each, whoever waits and can go on does, in the order in which they began to wait."""
    now, ends = 0.0, [math.inf] * len(tasks)
    coming, waiting, computing, asking, at_core = list(range(len(tasks))), [], {}, [], {}  # type: ignore[var-annotated]
    while coming or waiting or computing or asking or at_core:
        for task in [task for task in coming if tasks[task].comes <= now]:
            coming.remove(task)
            waiting.append(task)
        for task in sorted((task for task, end in computing.items() if end <= now), key=lambda task: computing[task]):
            del computing[task]
            asking.append(task)
        for task in [task for task, end in at_core.items() if end <= now]:
            ends[task] = at_core.pop(task)
        while asking and len(at_core) < cores:
            task = asking.pop(0)
            at_core[task] = now + tasks[task].database
        while waiting and len(computing) + len(asking) + len(at_core) < workers:
            task = waiting.pop(0)
            computing[task] = now + tasks[task].worker
        later = [tasks[task].comes for task in coming] + list(computing.values()) + list(at_core.values())
        now = min((moment for moment in later if moment > now), default=now)
    return ends


def test_minutes_have_each_pool_once_and_the_mean_that_was_asked_for() -> None:
    for spread in (False, True):
        tasks = minutes_of(100, minutes=8, worker=0.03, database=0.01, spread=spread, heavy=5.0, every=4)
        assert len(tasks) == 800
        assert np.mean([task.worker for task in tasks]) == pytest.approx(0.03)
        assert np.mean([task.database for task in tasks]) == pytest.approx(0.01)
        assert max(task.worker for task in tasks) == pytest.approx(5 * min(task.worker for task in tasks))
        assert max(task.comes for task in tasks) == (7 * 60 + 59.4 if spread else 7 * 60)
