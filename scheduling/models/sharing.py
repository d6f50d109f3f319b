"""A tenant's instructions to the market about its cells: whether to rent and lend, and at what price."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduling.models.cluster import AlonePlan, Pool
from scheduling.models.money import Period
from tenants.scoping import TenantOwned


class Rent(models.TextChoices):
    NEVER = "never"
    BUDGET = "budget"  # up to a budget of credits per period
    AUTO = "auto"


class Lend(models.TextChoices):
    KEEP = "keep"
    LEND = "lend"


class TenantPolicy(TenantOwned):
    """A tenant's standing instructions in one pool. Without a row the market rents automatically and lends everything,
    without a reserve price and with the pool's usual plan."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    rent = models.CharField(max_length=8, choices=Rent.choices, default=Rent.AUTO)
    budget = models.BigIntegerField(null=True, blank=True)  # micro-credits for rent in the batch lane
    budget_period = models.CharField(max_length=8, choices=Period.choices, default=Period.MONTH)  # of UTC
    lend = models.CharField(max_length=8, choices=Lend.choices, default=Lend.LEND)
    plan = models.CharField(max_length=5, choices=AlonePlan.choices, default=AlonePlan.KEEP, db_default="keep")
    # Resource name -> credits per unit and slot, below which idle cells are not for sale. A resource without a price
    # has no reserve.
    reserve_price = models.JSONField(default=dict, blank=True)

    class Meta(TenantOwned.Meta):
        verbose_name_plural = "tenant policies"
        constraints = [
            models.UniqueConstraint(fields=["pool", "tenant"], name="sharing_once_per_pool"),
            models.CheckConstraint(condition=Q(rent__in=Rent.values, lend__in=Lend.values), name="sharing_known"),
            models.CheckConstraint(
                condition=Q(budget__gte=0) | (Q(budget__isnull=True) & ~Q(rent="budget")), name="sharing_budget_given"
            ),
            models.CheckConstraint(condition=Q(plan__in=AlonePlan.values), name="sharing_plan_known"),
            models.CheckConstraint(condition=Q(budget_period__in=Period.values), name="sharing_period_known"),
        ]

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} in pool {self.pool_id}: rent {self.rent}, {self.lend}"
