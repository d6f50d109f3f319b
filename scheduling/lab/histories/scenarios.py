"""Reading a scenario file as a history: one that `pool_scenario` wrote of a live pool, or that `scenario` made of a
published log.

Of each job it keeps the most workers that the job may have, and how long they take on one server. It leaves out
parameter servers and all resources but the first, and what the file says of worth. A scenario does not know when jobs
really ran.
"""

from __future__ import annotations

import math

from scheduling.core.gangs import GangUnits, gangs
from scheduling.core.scenario import Scenario
from scheduling.core.types import Job
from scheduling.lab.histories.history import Log, LoggedJob, Machine

RESOURCE = 0
NOTE = "of each job its most workers, without parameter servers; what the file says of worth is not used"


def scenario_log(scenario: Scenario) -> tuple[Log, tuple[Machine, ...], dict[str, int]]:
    """Return the jobs with times from 1970 on, the machines with their units of the first resource, and each owner's
    units."""
    cluster = scenario.cluster
    scenario_jobs = [_job(job, cluster.tenants[job.tenant].name, cluster.slot_seconds) for job in scenario.jobs]
    jobs = tuple(job for job in scenario_jobs if job is not None)
    machines = tuple(
        Machine(name, int(units))
        for name, units in zip(cluster.servers, cluster.capacity[RESOURCE].tolist(), strict=True)
        if units >= 1
    )
    quotas = {tenant.name: int(cluster.quota[RESOURCE, k]) for k, tenant in enumerate(cluster.tenants)}
    left_out = (
        {f"without any {cluster.resources[RESOURCE]}": len(scenario_jobs) - len(jobs)}
        if len(jobs) < len(scenario_jobs)
        else {}
    )
    return Log(jobs, len(scenario_jobs), left_out, (), {}), machines, quotas


def _job(job: Job, owner: str, slot_seconds: float) -> LoggedJob | None:
    """Return the job, or None for one whose workers take nothing of the resource."""
    gang = next(gangs(job, job.max_workers), GangUnits(job.max_workers, 0))
    units = math.ceil(gang.workers * job.worker_types[gang.worker_type].amounts[RESOURCE])
    if not units:
        return None
    seconds = math.ceil(job.work / gang.rate(job, slot_seconds, centralized=True, servers=1) * slot_seconds - 1e-6)
    return LoggedJob(job.name, owner, math.floor(job.arrival * slot_seconds), None, None, max(1, seconds), units)
