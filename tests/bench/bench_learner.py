"""How long a slot of an elastic pool takes beside a learner at work, and without it: one slot each in turn, in one run.

The pool is decided by DL2's shipped weights. The learner's process is the one that the worker starts; it is stopped
(SIGSTOP) for two slots of three, so that whatever else the machine does touches all alike. How far two equal ways,
both without it, are apart says what the machine's other work makes of the figure.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
from django.utils import timezone

from scheduling.app.clock import slot_advance
from scheduling.learner.working import learner_step, step_started
from scheduling.models import Pool, PoolLearner
from tenants.scoping import scope_disabled
from tests.bench import bench_elastic as elastic

NEEDS_DATABASE = True

JOBS, SERVERS = 60, 100
TURNS = int(os.environ.get("TURNS", "400"))  # a slot of each way
PAST = 50  # slots to learn from: five windows, one of them to choose by
STILL, STILL_TOO, BESIDE = "without", "without_again", "beside"
ORDER = (STILL, BESIDE, STILL_TOO)
PARTS = (50, 90, 99)


def measure() -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole pool"), patch.multiple(elastic, JOBS=JOBS, SERVERS=SERVERS):
        tenants = elastic._tenants("learner")
        pool = elastic._pool({"name": "dl2"}, 0, tenants)
        for slot in range(PAST):
            _slot(pool, tenants, slot)
        PoolLearner.objects.create(pool=pool, is_on=True, every_seconds=1)
        began = time.perf_counter()
        learner_step(pool_id=pool.pk, clock=timezone.now)
        alone = time.perf_counter() - began
        beside = Beside(pool)
        times: dict[str, list[float]] = {STILL: [], STILL_TOO: [], BESIDE: []}
        try:
            for turn in range(TURNS):
                for place in range(len(ORDER)):
                    way = ORDER[(turn + place) % len(ORDER)]
                    beside.turn(way == BESIDE)
                    times[way].append(_slot(pool, tenants, PAST + len(ORDER) * turn + place))
        finally:
            beside.end()
    yield _figure(times, alone, beside.seconds, pool)


class Beside:
    """A step of the learner, again and again, from the start of its process to its end. `seconds` of processor time
    that its processes had."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.seconds, self.had = pool, 0.0, 0.0
        self.process = step_started(pool.pk)

    def turn(self, learning: bool) -> None:
        """It goes on, or it rests; where the step is done, the next one begins."""
        if self.process.poll() is not None:
            self.seconds += self.had
            self.process = step_started(self.pool.pk)
        self.had = sum(psutil.Process(self.process.pid).cpu_times()[:2])
        self.process.send_signal(signal.SIGCONT if learning else signal.SIGSTOP)

    def end(self) -> None:
        """What is under way is killed, as it may be."""
        if self.process.poll() is None:
            self.seconds += sum(psutil.Process(self.process.pid).cpu_times()[:2])
            self.process.kill()
        self.process.wait()


def _figure(times: Mapping[str, Sequence[float]], alone: float, seconds: float, pool: Pool) -> dict[str, Any]:
    found = {way: [round(float(np.percentile(each, part)), 1) for part in PARTS] for way, each in times.items()}
    learner = PoolLearner.objects.get(pool=pool)
    differences = np.array(times[BESIDE]) - np.array(times[STILL])
    error = 2.0 * float(differences.std(ddof=1)) / len(differences) ** 0.5
    detail = {
        **{f"{way}_p50_p90_p99_ms": figures for way, figures in found.items()},
        "p50_times": round(found[BESIDE][0] / found[STILL][0], 3),
        "p99_of_two_runs_without_times": round(found[STILL_TOO][2] / found[STILL][2], 3),
        "mean_difference_ms": f"{differences.mean():.2f} ± {error:.2f}",
        "slots_each": len(differences),
        "steps_of_the_learner": learner.step,
        "a_step_alone_s": round(alone, 1),
        "processor_seconds_of_the_learner": round(seconds, 1),
        "load": round(os.getloadavg()[0], 1),
        "says": learner.sentence,
    }
    return {
        "name": "p99 of a slot beside a learner, times that without",
        "value": round(found[BESIDE][2] / found[STILL][2], 3),
        "unit": "times",
        "target": "<= 1.05",
        "detail": detail,
    }


def _slot(pool: Pool, tenants: list[Any], slot: int) -> float:
    """Milliseconds: decided, applied, and the one before it paid."""
    elastic._purses(tenants, 0, f"learner:{slot}")
    began = time.perf_counter()
    slot_advance(pool=pool, slot=slot)
    return 1e3 * (time.perf_counter() - began)
