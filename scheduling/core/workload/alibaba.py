"""Make a scenario from the log of Alibaba's 2023 GPU cluster: real pods on real machines, without tenants.

As the log has no tenants, every pod is given to one with a seed, and each tenant owns machines in proportion to the
pods that it may expect; or, with `tenants` 0, the four classes of service are the tenants. So the load is real, but its
split among tenants is not: the scenario cannot show what the market makes of uneven ownership. It also lacks GPU models
(all count alike), processors and memory, and pods that began before the log. A pod that still ran at the end of the log
is as long as the log shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.cells import deal_servers
from scheduling.core.scenario import BadScenario
from scheduling.core.types import FloatArray
from scheduling.core.workload.document import Document, above_zero, within
from scheduling.core.workload.tables import rows
from scheduling.core.workload.trace import LoggedRun, LogPeriod, owned_scenario, server_capacity

JOBS = ("job_id", "tenant", "submit_s", "gpus", "duration_s", "gpu_milli")
MACHINES = ("machine", "gpus")
WHOLE = 1000  # thousandths of a GPU


def alibaba(
    jobs: Iterable[str],
    machines: Iterable[str],
    *,
    tenants: int = 8,
    from_day: int = 112,
    days: int = 38,
    drain_days: int = 14,
    scale_quota: float = 1.0,
    ps_per_gpu: float = 1.0,
    slot_seconds: float = 3600.0,
    seed: int = 1,
    policy: Mapping[str, Any] | None = None,
) -> Document:
    """Return a scenario with the pods submitted in `days` days, from open text files of pods and machines.

    `scale_quota` is the part of the machines that is kept, evenly picked from the list. A pod that requests a part of a
    GPU takes that part of a worker; parts are packed into a machine as a whole, not into single GPUs.
    """
    within("tenants", tenants, 0, 5_000)
    period = LogPeriod(from_day, days, drain_days, slot_seconds)
    within("seed", seed, 0, 2**63)
    dice = np.random.default_rng(seed)
    runs = list(_runs(jobs, period))
    capacity = server_capacity(_machines(machines, scale_quota), ps_per_gpu)
    names, shares = _split(dice, tenants) if tenants else _classes(runs)
    if tenants:
        owners = dice.choice(tenants, len(runs), p=shares)
        runs = [replace(run, tenant=names[owner]) for run, owner in zip(runs, owners, strict=True)]
    bounds = np.concatenate([[0.0], np.cumsum(shares)]) * capacity.shape[1]
    return owned_scenario(
        names,
        capacity,
        deal_servers(capacity, bounds),
        runs,
        period,
        seed=seed,
        policy=policy,
        generator={
            "name": "alibaba",
            "args": {
                **{"tenants": tenants, "from_day": from_day, "days": days, "drain_days": drain_days},
                **{"scale_quota": scale_quota, "ps_per_gpu": ps_per_gpu, "slot_seconds": slot_seconds},
            },
            "seed": seed,
            "notes": [f"tenants are {'drawn with the seed' if tenants else 'classes of service'}"],
        },
    )


def _runs(jobs: Iterable[str], period: LogPeriod) -> Iterable[LoggedRun]:
    for row in rows("alibaba jobs", jobs, JOBS):
        submitted = row.number("submit_s")
        if period.holds(submitted):
            yield LoggedRun(
                row.text("job_id"),
                row.text("tenant"),
                submitted,
                row.whole("gpus"),
                max(1, round(row.number("duration_s"))),
                row.whole("gpu_milli", most=WHOLE) / WHOLE,
            )


def _machines(machines: Iterable[str], scale: float) -> FloatArray:
    """Return the GPUs of the machines that are kept (servers,); a machine without any is left out."""
    above_zero("scale_quota", scale)
    gpus = [row.whole("gpus", least=0) for row in rows("alibaba machines", machines, MACHINES)]
    gpus = [count for count in gpus if count]
    if not gpus:
        raise BadScenario("alibaba machines", "no machine has a GPU")
    places = np.linspace(0, len(gpus) - 1, max(1, min(len(gpus), round(len(gpus) * scale)))).round()
    return np.array(gpus, np.float64)[places.astype(np.intp)]


def _split(dice: np.random.Generator, tenants: int) -> tuple[list[str], FloatArray]:
    """Return names and shares of tenants of uneven size, the largest at most four times the smallest."""
    weights = dice.uniform(1.0, 4.0, tenants)
    return [f"t{u + 1}" for u in range(tenants)], weights / weights.sum()


def _classes(runs: list[LoggedRun]) -> tuple[list[str], FloatArray]:
    """Return the classes of service, and for each the part of the machines that equals its part of all GPU-seconds."""
    work: dict[str, float] = {}
    for run in runs:
        work[run.tenant] = work.get(run.tenant, 0.0) + run.gpus * run.share * run.seconds
    if not work:
        raise BadScenario("alibaba jobs", "no job was submitted in the period")
    names = sorted(work)
    shares = np.array([work[name] for name in names])
    return names, shares / shares.sum()
