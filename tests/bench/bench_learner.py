"""The time of a slot of an elastic pool with a learner at work beside it, and without, in turns of one run.

The pool is decided by DL2's shipped weights. The learner's process is the one that the worker starts. It is stopped
(SIGSTOP) for two slots of three, so that whatever else the machine does touches all slots alike. A turn is one slot of
each way, in another order each time. Two of the ways are equal, both without the learner: the difference between these
two shows how much the machine's other work changes the figure. Every quotient has an interval, by drawing blocks of
turns again; it is given once more for the half of the turns in which others used the processors least. Slots are short
(few jobs), since the same delay is a larger part of a short one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
from django.db import connection
from django.utils import timezone

from scheduling.app.clock import slot_advance
from scheduling.core.types import FloatArray
from scheduling.learner.working import learner_step, step_started
from scheduling.models import Pool, PoolLearner
from tenants.scoping import scope_disabled
from tests.bench import bench_elastic as elastic

NEEDS_DATABASE = True

JOBS, SERVERS = int(os.environ.get("BENCH_JOBS", "20")), int(os.environ.get("BENCH_SERVERS", "40"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "360"))  # of turns
PAST = 50  # slots to learn from: five windows, one of them to choose by
EPOCHS = (100_000, 200_000)  # no job ends
STILL, BESIDE, STILL_TOO = WAYS = ("without", "beside", "without again")
OF_SMALL_SLOTS = patch.multiple(elastic, JOBS=JOBS, SERVERS=SERVERS, EPOCHS=EPOCHS)
ORDERS = tuple(permutations(range(len(WAYS))))
BLOCK = 6  # turns that are drawn together: one of each order
DRAWS = 2000
PARTS = (50, 90, 99)
SEED = 7


def measure() -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole pool"), OF_SMALL_SLOTS:
        tenants = elastic._tenants("learner")
        pool = elastic._pool({"name": "dl2"}, 0, tenants)
        for slot in range(PAST):
            _slot(pool, tenants, slot)
        PoolLearner.objects.create(pool=pool, is_on=True, every_seconds=1)
        began = time.perf_counter()
        learner_step(pool_id=pool.pk, clock=timezone.now)
        alone = time.perf_counter() - began
        beside = Beside(pool)
        try:
            times, strangers = _turns(pool, tenants, beside)
        finally:
            beside.end()
        learner = PoolLearner.objects.get(pool=pool)
        detail = {
            "jobs": JOBS,
            "servers": SERVERS,
            "slots_each": len(times),
            "steps_of_the_learner": learner.step,
            "a_step_alone_s": round(alone, 1),
            "processor_seconds_of_the_learner": round(beside.seconds, 1),
            "load": round(os.getloadavg()[0], 1),
            "says": learner.sentence,
        }
        yield from _figures(times, strangers, detail)


def _turns(pool: Pool, tenants: list[Any], beside: Beside) -> tuple[FloatArray, FloatArray]:
    """Return the milliseconds of each turn's slots, by way, and how many processors others used during each turn."""
    times, strangers = [], []
    slot, ends = PAST, time.perf_counter() + SECONDS
    while time.perf_counter() < ends:
        began, others, turn = time.perf_counter(), _others_seconds(), [0.0] * len(WAYS)
        for way in ORDERS[len(times) % len(ORDERS)]:
            beside.turn(WAYS[way] == BESIDE)
            turn[way] = _slot(pool, tenants, slot)
            slot += 1
        times.append(turn)
        strangers.append((_others_seconds() - others) / (time.perf_counter() - began))
    return np.array(times), np.array(strangers)


def _others_seconds() -> float:
    """Return the processor seconds of all but this process, its learner and its database, up to now."""
    machine, us = psutil.cpu_times(), psutil.Process()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        database = psutil.Process(cursor.fetchone()[0]).parent()
    assert database is not None
    ours = [us, *us.children(recursive=True), database, *database.children(recursive=True)]
    spent = 0.0
    for process in ours:
        try:
            spent += sum(process.cpu_times()[:4])  # and of its children that have ended
        except psutil.NoSuchProcess:  # its parent has its time now
            continue
    return machine.user + machine.nice + machine.system + machine.irq + machine.softirq - spent


class Beside:
    """A learner that does one step after the other, each in a new process. `seconds` is their processor time."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.seconds, self.had = pool, 0.0, 0.0
        self.process = step_started(pool.pk)

    def turn(self, learning: bool) -> None:
        """Let the learner continue or rest. If its step is done, begin the next one."""
        if self.process.poll() is not None:
            self.seconds += self.had
            self.process = step_started(self.pool.pk)
        self.had = sum(psutil.Process(self.process.pid).cpu_times()[:2])
        self.process.send_signal(signal.SIGCONT if learning else signal.SIGSTOP)

    def end(self) -> None:
        """End the learner. A step that is under way is killed, which does no harm."""
        if self.process.poll() is None:
            self.seconds += sum(psutil.Process(self.process.pid).cpu_times()[:2])
            self.process.kill()
        self.process.wait()


def _figures(times: FloatArray, strangers: FloatArray, detail: dict[str, Any]) -> Iterator[dict[str, Any]]:
    quiet = strangers <= np.median(strangers)
    for about, turns in (("", times), (", the quieter half of the turns", times[quiet])):
        still, beside, still_too = turns.T
        parts = np.percentile(turns, PARTS, axis=0).T.round(1).tolist()
        quotients = {
            f"{words}_{name}_times": _ratio_words(function, column, still)
            for words, column in (("beside", beside), ("equal", still_too))
            for name, function in (("p99", _p99), ("p90", _p90), ("p50", np.median), ("mean", np.mean))
        }
        yield {
            "name": f"p99 of a slot beside a learner, times that without{about}",
            "value": round(_p99(beside) / _p99(still), 3),
            "unit": "times",
            "target": "<= 1.05",
            "detail": {
                **quotients,
                "p50_p90_p99_ms": dict(zip(WAYS, parts, strict=True)),
                "turns": len(turns),
                "others_processors": round(float(strangers[quiet if about else slice(None)].mean()), 2),
                **detail,
            },
        }


def _p99(column: FloatArray) -> float:
    return float(np.percentile(column, 99))


def _p90(column: FloatArray) -> float:
    return float(np.percentile(column, 90))


def _ratio_words(function: Callable[[FloatArray], Any], one: FloatArray, other: FloatArray) -> str:
    """Return a quotient as text, with the interval in which 95 of 100 draws of blocks of turns have it."""
    chance, blocks = np.random.default_rng(SEED), len(one) // BLOCK
    one_blocks, other_blocks = (column[: blocks * BLOCK].reshape(blocks, BLOCK) for column in (one, other))
    draws = []
    for _ in range(DRAWS):
        picks = chance.integers(blocks, size=blocks)
        draws.append(function(one_blocks[picks].ravel()) / function(other_blocks[picks].ravel()))
    low, high = np.percentile(draws, (2.5, 97.5))
    return f"{function(one) / function(other):.3f} ({low:.3f} to {high:.3f})"


def _slot(pool: Pool, tenants: list[Any], slot: int) -> float:
    """Return the milliseconds in which the slot is decided and applied, and the one before it paid."""
    elastic._purses(tenants, 0, f"learner:{slot}")
    began = time.perf_counter()
    slot_advance(pool=pool, slot=slot)
    return 1e3 * (time.perf_counter() - began)
