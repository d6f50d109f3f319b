"""Read the jobs that came to a pool in some slots as a scenario, so that another policy can decide about them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduling.core.scenario import Scenario
from scheduling.core.types import Cluster, Job
from scheduling.market.view.frame import PoolFrame, pool_frame
from scheduling.market.view.jobs import JobReader
from scheduling.market.view.policy import batch_settings
from scheduling.models import AFTER_OTHERS, JobState, Pool, Server, TrainingJob
from tenants.models import Tenant

NOTES = (
    "machines, owners' instructions and policies are those of now, not of then",
    "jobs that their owners took back, and those that waited for others and never came in, are left out",
    "each job comes once, when it was submitted, however often it was begun",
)
APART = "jobs of arrays that were bought together are bought one by one"


def pool_scenario(pool: Pool, first: int, last: int, drain: int) -> Scenario:
    """Return the jobs that arrived in the slots [first, last), on the pool as it is now, as a scenario with `drain`
    more slots in which they can end.

    Slot `first` is the scenario's slot 0. Jobs keep their numbers as names, and tenants and servers have the names that
    people know. In an elastic pool the prices of use are those of slot `last`. Needs the scope of all tenants.
    """
    rows = list(
        TrainingJob.objects.filter(pool=pool, arrival__gte=first, arrival__lt=last, not_before__lt=AFTER_OTHERS)
        .exclude(state=JobState.CANCELLED)
        .only("spec", "tenant_id", "arrival", "lane", "worth_from", "array_id", "together")
        .order_by("pk")
    )
    frame = pool_frame(pool, also={row.tenant_id for row in rows})
    reader = JobReader(frame)
    jobs = tuple(
        replace(reader.read(row), number=number, name=f"job {row.pk}", arrival=row.arrival - first, together=None)
        for number, row in enumerate(rows)
    )
    cluster = _named(frame, jobs)
    notes = [*NOTES, *([APART] if any(row.together for row in rows) else [])]
    return Scenario(
        cluster=cluster,
        jobs=jobs,
        slots=last - first + drain,
        policy=batch_settings(pool, cluster.resources, last),
        instant=pool.instant_policy,
        generator={"name": "pool", "args": {"pool": pool.slug, "first": first, "last": last}, "notes": notes},
    )


def _named(frame: PoolFrame, jobs: tuple[Job, ...]) -> Cluster:
    """Return the cluster with the names that people know. Servers that host nothing new are left out."""
    whole = frame.cluster
    hosting = np.flatnonzero(whole.hosts_workers | whole.hosts_ps)
    servers = dict(Server.objects.filter(pk__in=frame.server_ids).values_list("pk", "name"))
    slugs = dict(Tenant.objects.filter(pk__in=frame.tenant_ids).values_list("pk", "slug"))
    by_budget = {job.tenant for job in jobs if job.rent == "budget"}  # the budget may have been removed since
    tenants = (
        replace(frame.with_budgets[index] if index in by_budget else tenant, name=slugs[frame.tenant_ids[index]])
        for index, tenant in enumerate(whole.tenants)
    )
    cells = frame.cells[:, :, hosting]
    return replace(
        whole,
        servers=tuple(servers[frame.server_ids[index]] for index in hosting.tolist()),
        tenants=tuple(tenants),
        capacity=whole.capacity[:, hosting],
        quota=cells.sum(axis=2),
        hosts_workers=whole.hosts_workers[hosting],
        hosts_ps=whole.hosts_ps[hosting],
        cells=cells,
        least_payment=0.0,  # a scenario has no smallest amount
    )
