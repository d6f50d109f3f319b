"""A job's specification on its own, before anything else of the pool is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scheduling.core.scenario.jobs import Jobs
from scheduling.core.types import Job, Tenant
from scheduling.models import Pool, ResourceKind, TenantPolicy
from tenants.ledger.postings import MICRO


def spec_read(
    pool: Pool, spec: Mapping[str, Any], *, tenant_id: int, arrival: float, lane: str, number: int = 0
) -> Job:
    """The job that the words mean; raises `BadScenario` naming the field that cannot be used.

    Costs two short queries, unlike a frame: a submission to the batch lane needs no more than this.
    """
    resources = list(ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("name", flat=True))
    policy = TenantPolicy.objects.filter(pool=pool, tenant=tenant_id).first()
    budget = None if policy is None or policy.budget is None else policy.budget / MICRO
    tenant = Tenant(name=str(tenant_id), reserve_price=np.zeros(len(resources)), budget=budget)
    whose = {"name": str(number), "tenant": tenant.name, "arrival": arrival, "lane": lane}
    return Jobs(resources, [tenant], float(pool.slot_seconds)).read({**spec, **whose}, number)
