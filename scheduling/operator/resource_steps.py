"""Change which amounts of a resource one worker or parameter server may take: the least amount and the step. A change
holds for later submissions; accepted jobs stay as they were accepted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from scheduling.cluster import may_change_cluster, pool_lock
from scheduling.market.view import AmountSteps, steps_of
from scheduling.models import Pool, ResourceKind
from scheduling.operator.pools import steps_listed, steps_refusal
from tenants import history
from tenants.access import Access, Refused


@transaction.atomic
def resource_steps_set(
    *, pool: Pool, steps: Mapping[str, AmountSteps], by: Access, reason: str, at: datetime
) -> Mapping[str, AmountSteps] | Refused:
    """Set the steps of the resources in `steps`, which is by name; the others keep theirs. Return the steps of all
    resources afterwards."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    pool_lock(pool)
    before = steps_of(pool)
    if refusal := steps_refusal(steps, before):
        return refusal
    changed = {name: new for name, new in steps.items() if new != before[name]}
    for name, new in changed.items():
        ResourceKind.objects.filter(pool=pool, name=name).update(least=new.least, step=new.step)
    if changed:
        history.append(
            at=at,
            by=by,
            action="resource_steps_set",
            subject=f"pool {pool.slug}",
            reason=reason,
            before={"steps": steps_listed({name: before[name] for name in changed})},
            after={"steps": steps_listed(changed)},
        )
    return before | changed
