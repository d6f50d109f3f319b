"""A tenant's standing instructions in a pool: what it may rent by itself, and what it lends at what price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.fields import amounts
from scheduling.models import AlonePlan, Lend, Period, Pool, Rent, ResourceKind, TenantPolicy
from scheduling.sharing.read_sharing import nothing_said
from tenants import history
from tenants.access import Access, Refused
from tenants.ledger.amounts import MOST
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED


@dataclass(frozen=True)
class Sharing:
    """A tenant's instructions in one pool. `budget` limits its rent in the batch lane in each period, in micro-credits.
    `reserve_price` maps a resource's name to the credits per unit and slot below which idle cells are not for sale. The
    defaults hold for a tenant that has given no instructions. Where `plan` is None, the pool's usual plan is stored as
    if the tenant had chosen it."""

    rent: str = Rent.AUTO.value
    budget: int | None = None
    budget_period: str = Period.MONTH.value
    lend: str = Lend.LEND.value
    reserve_price: Mapping[str, float] | None = None
    plan: str | None = None

    def as_values(self) -> dict[str, Any]:
        return {
            "rent": self.rent,
            "budget": self.budget,
            "budget_period": self.budget_period,
            "lend": self.lend,
            "plan": self.plan,
            "reserve_price": dict(self.reserve_price or {}),
        }


@transaction.atomic
def sharing_change(
    *, pool: Pool, sharing: Sharing, by: Access, at: datetime, reason: str = ""
) -> TenantPolicy | Refused:
    """Change the tenant's instructions. They hold from the next interval on; earlier awards stay as they are."""
    if by.tenant is None or not by.allows(Permission.SHARING_CHANGE):
        return NOT_ALLOWED
    sharing = replace(sharing, plan=sharing.plan or pool.usual_plan)
    if refusal := _refusal(pool, sharing):
        return refusal
    with scope(by.tenant):
        TenantPolicy.objects.bulk_create([nothing_said(by.tenant, pool)], ignore_conflicts=True)
        row = TenantPolicy.objects.select_for_update().get(pool=pool)
        before, after = _values_of(row), sharing.as_values()
        if before != after:
            TenantPolicy.objects.filter(pk=row.pk).update(**after)
            row.refresh_from_db()
            subject = f"sharing of {by.tenant.slug} in pool {pool.slug}"
            history.append(
                at=at,
                by=by,
                tenant=by.tenant,
                action="sharing_change",
                subject=subject,
                reason=reason,
                before=before,
                after=after,
            )
    return row


def _values_of(row: TenantPolicy) -> dict[str, Any]:
    return Sharing(row.rent, row.budget, row.budget_period, row.lend, row.reserve_price, row.plan).as_values()


def _refusal(pool: Pool, sharing: Sharing) -> Refused | None:
    words = {"rent": Rent.values, "lend": Lend.values, "budget_period": Period.values, "plan": AlonePlan.values}
    for name, codes in words.items():
        if getattr(sharing, name) not in codes:
            return Refused("invalid_sharing", f"{name}: must be one of {', '.join(codes)}.")
    if sharing.budget is None and sharing.rent == Rent.BUDGET:
        return Refused("invalid_sharing", "Renting within a budget needs a budget.")
    if sharing.budget is not None and not 0 <= sharing.budget <= MOST:
        return Refused("invalid_sharing", f"{sharing.budget} micro-credits is not a budget.")
    try:
        resources = list(ResourceKind.objects.filter(pool=pool).values_list("name", flat=True))
        amounts(dict(sharing.reserve_price or {}), "reserve_price", resources)
    except BadScenario as error:
        return Refused("invalid_sharing", f"{error.place}: {error.message}.")
    return None
