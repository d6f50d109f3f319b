"""The time that a slot takes under a policy: the mean over a whole run of 200 jobs at once on 500 servers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.policies import build
from scheduling.core.scenario import read
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.workload import synthetic

JOBS, SERVERS = 200, 500
TARGET = "at most 20"
REPEATS = 3


@dataclass(frozen=True)
class Slot:
    """A slot's milliseconds by the clock and of the processors, and the run that they are the mean of."""

    clock: float
    processors: float
    outcome: Outcome

    @property
    def detail(self) -> str:
        return f"processors {self.processors:.1f} ms; {self.outcome.decisions} slots, {JOBS} jobs, {SERVERS} servers"

    def figure(self, name: str, *more: str) -> dict[str, Any]:
        detail = "; ".join((self.detail, *more))
        return {"name": name, "value": round(self.clock, 1), "unit": "ms", "target": TARGET, "detail": detail}


def slot(policy: Mapping[str, Any], *, cells: bool, preset: str = "astraea") -> Slot:
    """Return the quickest of three runs. Each run reads its jobs anew, so that nothing is kept from the one before."""
    return min((_run(policy, cells, preset) for _ in range(REPEATS)), key=lambda run: run.clock)


def _run(fields: Mapping[str, Any], cells: bool, preset: str) -> Slot:
    document = synthetic(seed=3, preset=preset, tenants=4, servers=SERVERS, jobs=JOBS, slots=40, span=1.0, cells=cells)
    scenario = read(document)
    policy = build(fields, scenario.cluster, scenario.jobs)
    begin, busy = time.perf_counter(), time.process_time()
    outcome = simulate(scenario, {"batch": policy})
    clock, processors = time.perf_counter() - begin, time.process_time() - busy
    return Slot(1000.0 * clock / outcome.decisions, 1000.0 * processors / outcome.decisions, outcome)
