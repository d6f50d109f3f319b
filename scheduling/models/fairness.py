"""The fairness of each interval, computed once after it closed. Rows never change; a verification computes them
again."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduling.models.cluster import Pool
from scheduling.models.market import Interval
from tenants.ledger.amounts import micro
from tenants.scoping import TenantOwned


class IntervalFairness(models.Model):
    """The figures of one interval as a whole. `broken` lists rows of job, tenant, got, alone and which promise was
    broken."""

    interval = models.OneToOneField(Interval, on_delete=models.PROTECT, related_name="fairness")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    number = models.BigIntegerField()  # the interval's
    decided_at = models.DateTimeField()  # the interval's
    with_floors = models.BooleanField()  # whether the policy promises floors; if not, `alone` is by the same policy
    revenue = models.FloatField(default=0.0)
    ratio_variance = models.FloatField(null=True, blank=True)
    jain_index = models.FloatField(null=True, blank=True)
    reward_dispersion = models.FloatField(null=True, blank=True)
    worst_off = models.BigIntegerField(null=True, blank=True)  # tenant id
    certificates = models.PositiveIntegerField(default=0)
    broken_count = models.PositiveIntegerField(default=0)
    broken = models.JSONField(default=list, blank=True)
    renters = models.PositiveIntegerField(default=0)
    top_prices = models.JSONField(default=dict, blank=True)  # by resource
    unsold = models.JSONField(default=dict, blank=True)  # unit-slots by resource
    waiting_for = models.JSONField(default=dict, blank=True)  # reason -> jobs

    class Meta:
        verbose_name_plural = "interval fairness"
        ordering = ["pool", "number"]
        indexes = [
            models.Index(fields=["pool", "decided_at"], name="fairness_in_period"),
            models.Index(fields=["pool", "-number"], condition=Q(broken_count__gt=0), name="fairness_broken"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["pool", "number"], name="fairness_once_per_interval"),
            models.CheckConstraint(condition=Q(broken_count__lte=F("certificates")), name="fairness_broken_counted"),
        ]

    def __str__(self) -> str:
        return f"fairness of interval {self.number} of pool {self.pool_id}"

    @property
    def left_unsold(self) -> dict[str, float]:
        """Return `unsold` as it is shown, never below zero. A window can sell more than was idle when renting began,
        because the place at home of a job that rented is for sale from then on (G6)."""
        return {name: max(units, 0.0) for name, units in self.unsold.items()}


class TenantFairness(TenantOwned):
    """The figures of one tenant in one interval: those of `core.metrics.fairness.TenantFairness`."""

    fairness = models.ForeignKey(IntervalFairness, on_delete=models.PROTECT, related_name="+", db_index=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    number = models.BigIntegerField()
    own_value = models.FloatField()
    rented_value = models.FloatField()
    paid = models.FloatField()
    received = models.FloatField()
    gain = models.FloatField()
    alone = models.FloatField()
    share = models.FloatField()
    ratio = models.FloatField(null=True, blank=True)
    earned = models.FloatField()
    contributed = models.FloatField()
    reward = models.FloatField(null=True, blank=True)
    offered = models.JSONField(default=dict, blank=True)  # unit-slots by resource, as are the next two
    sold = models.JSONField(default=dict, blank=True)
    kept = models.JSONField(default=dict, blank=True)
    forgone = models.FloatField()
    rent_saved = models.FloatField()
    waiting = models.PositiveIntegerField()

    class Meta(TenantOwned.Meta):
        verbose_name_plural = "tenant fairness"
        indexes = [models.Index(fields=["tenant", "pool", "-number"], name="fairness_of_tenant")]
        constraints = [
            models.UniqueConstraint(fields=["fairness", "tenant"], name="fairness_once_per_tenant"),
        ]

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} in interval {self.number} of pool {self.pool_id}"

    @property
    def gain_shown(self) -> int:
        """Return the gain in micro-credits as the sum of its four parts as they are shown, so that a reader who adds
        them up gets it."""
        return micro(self.own_value) + micro(self.rented_value) - micro(self.paid) + micro(self.received)
