"""Make a scenario from Microsoft's Philly log: real jobs of real tenants, on servers of 8 GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scheduling.core.workload.document import Document
from scheduling.core.workload.tables import rows
from scheduling.core.workload.trace import LoggedRun, LogPeriod, dropped, quota_scenario, scaled_quotas

JOBS = ("job_id", "tenant", "submit_s", "gpus", "duration_s")
TENANTS = ("tenant", "quota_gpus")


def philly(
    jobs: Iterable[str],
    tenants: Iterable[str],
    *,
    from_day: int = 20,
    days: int = 80,
    drain_days: int = 30,
    scale_quota: float = 1.0,
    ps_per_gpu: float = 1.0,
    slot_seconds: float = 3600.0,
    seed: int = 1,
    policy: Mapping[str, Any] | None = None,
) -> Document:
    """Return a scenario with the jobs submitted in `days` days, from open text files of jobs and of tenants.

    Days 20 to 99 are the busy part of the log. The cluster is as large as the quotas together; smaller quotas
    (`scale_quota`) make the contention that the extract lacks. A tenant without a quota is left out with its jobs, and
    `generator.notes` mentions that.
    """
    period = LogPeriod(from_day, days, drain_days, slot_seconds)
    quotas = scaled_quotas(_quotas(tenants), scale_quota)
    left_out: Counter[str] = Counter()
    runs = []
    for run in _runs(jobs, period):
        if run.tenant in quotas:
            runs.append(run)
        else:
            left_out[run.tenant] += 1
    return quota_scenario(
        quotas,
        runs,
        period,
        ps_per_gpu=ps_per_gpu,
        seed=seed,
        policy=policy,
        generator={
            "name": "philly",
            "args": {
                **{"from_day": from_day, "days": days, "drain_days": drain_days},
                **{"scale_quota": scale_quota, "ps_per_gpu": ps_per_gpu, "slot_seconds": slot_seconds},
            },
            "seed": seed,
            "notes": dropped(left_out, "without a quota"),
        },
    )


def _quotas(tenants: Iterable[str]) -> dict[str, float]:
    """Return the quotas, in GPUs, of the tenants that have one."""
    quotas: dict[str, float] = {}
    for row in rows("philly tenants", tenants, TENANTS):
        tenant = row.text("tenant")
        if tenant in quotas:
            raise row.wrong("tenant", f"{tenant} stands twice")
        if row.fields["quota_gpus"]:
            quotas[tenant] = row.whole("quota_gpus")
    return quotas


def _runs(jobs: Iterable[str], period: LogPeriod) -> Iterable[LoggedRun]:
    """Yield the runs of the period. A run of less than a second counts as one second."""
    for row in rows("philly jobs", jobs, JOBS):
        submitted = row.number("submit_s")
        if period.holds(submitted):
            seconds = max(1, round(row.number("duration_s")))
            yield LoggedRun(row.text("job_id"), row.text("tenant"), submitted, row.whole("gpus"), seconds)
