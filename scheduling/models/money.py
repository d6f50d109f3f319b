"""Budgets: how much a tenant allows itself, or one of its members, to spend in a period."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from tenants.scoping import TenantOwned


class Period(models.TextChoices):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class Budget(TenantOwned):
    """A limit per period of UTC. Passing the soft limit gives a notice; nothing is bought beyond the hard limit."""

    member = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )  # None means the whole tenant
    period = models.CharField(max_length=8, choices=Period.choices)
    soft_limit = models.BigIntegerField(null=True, blank=True)  # micro-credits
    hard_limit = models.BigIntegerField(null=True, blank=True)

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "member", "period"], name="budget_once_per_period", nulls_distinct=False
            ),
            models.CheckConstraint(condition=Q(period__in=Period.values), name="budget_period_known"),
            models.CheckConstraint(
                condition=(Q(soft_limit__isnull=True) | Q(soft_limit__gte=0))
                & (Q(hard_limit__isnull=True) | Q(hard_limit__gte=0)),
                name="budget_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"budget of tenant {self.tenant_id} per {self.period}"
