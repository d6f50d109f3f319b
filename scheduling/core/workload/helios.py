"""Make a scenario from Helios "Earth", a log of the GPUs that each tenant used and waited for in each hour.

The log has no jobs. They are made up so that together they request exactly that many GPUs, hour by hour, and do not
show how large and how long real jobs were. Demand that waited in an hour counts as work of that hour, so the total is
more than was really computed; and a tenant's jobs overlap as if no job had ever queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduling.core.scenario import BadScenario
from scheduling.core.workload.document import Document, within
from scheduling.core.workload.tables import LogRow, rows
from scheduling.core.workload.trace import HOUR, LoggedRun, LogPeriod, quota_scenario, scaled_quotas

COLUMNS = ("hour", "tenant", "quota_gpus", "running_gpus", "pending_gpus")
SIZES = (8, 4, 2, 1)  # GPUs of one made-up job
MOST_HOURS = 24 * 366

Demand = npt.NDArray[np.int64]


def helios(
    hours: Iterable[str],
    *,
    from_day: int = 0,
    days: int = 31,
    drain_days: int = 7,
    scale_quota: float = 1.0,
    ps_per_gpu: float = 1.0,
    slot_seconds: float = 3600.0,
    seed: int = 1,
    policy: Mapping[str, Any] | None = None,
) -> Document:
    """Return a scenario with the demand of `days` days, from an open text file of hourly use."""
    period = LogPeriod(from_day, days, drain_days, slot_seconds)
    quotas, demand = _read(hours, period)
    within("seed", seed, 0, 2**63)
    dice = np.random.default_rng(seed)
    runs = [run for tenant, wanted in demand.items() for run in _runs(tenant, wanted, from_day * 24, dice)]
    return quota_scenario(
        scaled_quotas(quotas, scale_quota),
        runs,
        period,
        ps_per_gpu=ps_per_gpu,
        seed=seed,
        policy=policy,
        generator={
            "name": "helios",
            "args": {
                **{"from_day": from_day, "days": days, "drain_days": drain_days},
                **{"scale_quota": scale_quota, "ps_per_gpu": ps_per_gpu, "slot_seconds": slot_seconds},
            },
            "seed": seed,
            "notes": ["jobs are made up to match the hourly demand, pending GPUs included"],
        },
    )


def _read(hours: Iterable[str], period: LogPeriod) -> tuple[dict[str, float], dict[str, Demand]]:
    """Return each tenant's quota, the largest that it ever had, and its demand in whole GPUs by hour of the period."""
    quotas: dict[str, float] = {}
    wanted: dict[str, dict[int, int]] = {}
    for row in rows("helios hours", hours, COLUMNS):
        tenant, hour = row.text("tenant"), row.whole("hour", least=0, most=MOST_HOURS)
        quotas[tenant] = max(quotas.get(tenant, 0.0), row.number("quota_gpus"))
        if period.holds(hour * HOUR):
            _note(wanted.setdefault(tenant, {}), row, hour - period.from_day * 24)
    if not wanted:
        raise BadScenario("helios hours", "no hour of the period is in the table")
    empty = sorted(tenant for tenant, quota in quotas.items() if quota == 0)
    if empty:
        raise BadScenario("helios hours", f"tenant {empty[0]} never has a quota")
    length = period.days * 24
    return quotas, {
        tenant: np.array([by_hour.get(hour, 0) for hour in range(length)], np.int64)
        for tenant, by_hour in wanted.items()
    }


def _note(by_hour: dict[int, int], row: LogRow, hour: int) -> None:
    if hour in by_hour:
        raise row.wrong("hour", f"hour {row.fields['hour']} of {row.fields['tenant']} stands twice")
    by_hour[hour] = round(row.number("running_gpus") + row.number("pending_gpus"))


def _runs(tenant: str, wanted: Demand, first_hour: int, dice: np.random.Generator) -> list[LoggedRun]:
    """Return jobs whose GPUs add up to the demand in every hour.

    When demand rises, jobs begin that are as large as the rise allows; when it falls, jobs picked with the dice end. If
    the last of these is larger than what was left of the fall, smaller jobs begin in its place.
    """
    alive: list[tuple[int, int]] = []  # (begin, gpus)
    runs: list[LoggedRun] = []
    level = 0
    for hour, gpus in enumerate([*wanted.tolist(), 0]):
        while level > gpus:
            begin, ended = alive.pop(int(dice.integers(len(alive))))
            name, hours = f"{tenant}-{len(runs) + 1}", hour - begin
            runs.append(LoggedRun(name, tenant, (first_hour + begin) * HOUR, ended, hours * HOUR))
            level -= ended
        alive += [(hour, size) for size in _sizes(gpus - level)]
        level = gpus
    return runs


def _sizes(gpus: int) -> list[int]:
    """Return job sizes that add up to a number of GPUs, largest first."""
    sizes = []
    for size in SIZES:
        sizes += [size] * (gpus // size)
        gpus %= size
    return sizes
