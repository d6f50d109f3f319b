"""A job's specification on its own, before anything else of the pool is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.scenario.jobs import Jobs
from scheduling.core.types import Job, Tenant
from scheduling.models import Pool, ResourceKind, TenantPolicy, TrainingJob
from tenants.ledger.postings import MICRO

PROGRAM = "program"  # of a specification: what really runs. The core knows jobs, not what they are made of.


def for_the_core(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification without what only an engine needs."""
    return {name: value for name, value in spec.items() if name != PROGRAM}


class SpecReader:
    """Reads the jobs of a pool. Costs one short query, unlike a frame, however many jobs are read."""

    def __init__(self, pool: Pool) -> None:
        resources = list(ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("pk", "name"))
        self.resource_ids = [pk for pk, _ in resources]
        self._names = [name for _, name in resources]
        self._slot_seconds = float(pool.slot_seconds)

    def read(self, row: TrainingJob) -> Job:
        """A job that was accepted. What it was accepted under, its owner's budget, may be gone since."""
        return self.read_spec(row.spec, arrival=row.arrival, lane=row.lane, budget=0.0)

    def read_spec(self, spec: Mapping[str, Any], *, arrival: float, lane: str, budget: float | None) -> Job:
        """The job that the words mean; raises `BadScenario` naming the field that cannot be used."""
        tenant = Tenant(name="tenant", reserve_price=np.zeros(len(self._names)), budget=budget)
        whose = {"name": "job", "tenant": tenant.name, "arrival": arrival, "lane": lane}
        return Jobs(self._names, [tenant], self._slot_seconds).read({**for_the_core(spec), **whose}, 0)


@dataclass(frozen=True)
class SpecRead:
    """A job of the core, and the row of each resource that it counts, in its order."""

    job: Job
    resource_ids: Sequence[int]


def spec_read(pool: Pool, spec: Mapping[str, Any], *, tenant_id: int, arrival: float, lane: str) -> SpecRead:
    """A new job, under its tenant's instructions as they are now; raises `BadScenario`."""
    policy = TenantPolicy.objects.filter(pool=pool, tenant=tenant_id).first()
    budget = None if policy is None or policy.budget is None else policy.budget / MICRO
    reader = SpecReader(pool)
    return SpecRead(reader.read_spec(spec, arrival=arrival, lane=lane, budget=budget), reader.resource_ids)
