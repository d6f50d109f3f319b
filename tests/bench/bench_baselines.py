"""A simulated slot of the baselines of Astraea's comparison: 200 jobs at once on 500 servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from scheduling.core.policies import build
from scheduling.core.scenario import read
from scheduling.core.simulation import simulate
from scheduling.core.workload import synthetic


def measure() -> Iterator[dict[str, Any]]:
    """The mean over all slots of a run, once for each policy."""
    scenario = read(synthetic(seed=3, tenants=4, servers=500, jobs=200, slots=40, span=1.0, cells=True))
    for name in ("batchsche", "gandiva_fair", "hived"):
        policy = build({"name": name}, scenario.cluster, scenario.jobs)
        begin, busy = time.perf_counter(), time.process_time()
        outcome = simulate(scenario, {"batch": policy})
        each = 1000.0 * (time.perf_counter() - begin) / outcome.decisions
        busy = 1000.0 * (time.process_time() - busy) / outcome.decisions
        detail = f"processors {busy:.1f} ms; {outcome.decisions} slots, {len(scenario.jobs)} jobs, 500 servers"
        yield {"name": f"{name}_slot", "value": round(each, 1), "unit": "ms", "target": "at most 20", "detail": detail}
