"""What became of all units, hour by hour: sums of what awards held, written once a slot is settled.

Amounts are millionths of a unit times slots, so that they are whole numbers and add up: in every row the capacity is
the sum of its parts, which the database checks. An hour is an hour of UTC, and contains the slots that begin in it. The
sums are shown to people; no decision reads them.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduling.models.cluster import Pool, ResourceKind, Server
from tenants.scoping import TenantOwned


class PoolHour(models.Model):
    """One resource of a pool in an hour. `used` is the use by jobs on their owners' cells, `unsold` is idle, and `down`
    is on servers that were lost, or while the market stood still."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+", db_index=False)
    hour = models.DateTimeField()
    until_slot = models.BigIntegerField()  # the first slot that is not counted
    slots = models.PositiveIntegerField()
    capacity = models.BigIntegerField()
    used = models.BigIntegerField()
    rented = models.BigIntegerField()
    unsold = models.BigIntegerField()
    down = models.BigIntegerField()
    # About the batch lane's posted prices: how many slots had one, and their sum in credits.
    priced_slots = models.PositiveIntegerField()
    price_sum = models.FloatField()

    class Meta:
        ordering = ["pool", "hour", "resource"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "hour", "resource"], name="pool_hour_once"),
            models.CheckConstraint(
                condition=Q(capacity=F("used") + F("rented") + F("unsold") + F("down")), name="pool_hour_adds_up"
            ),
            models.CheckConstraint(
                condition=Q(used__gte=0, rented__gte=0, unsold__gte=0, down__gte=0), name="pool_hour_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"resource {self.resource_id} of pool {self.pool_id} from {self.hour}"


class TenantHour(TenantOwned):
    """One tenant's units of a resource in an hour, and how much it rents from others."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+", db_index=False)
    hour = models.DateTimeField()
    capacity = models.BigIntegerField()
    used = models.BigIntegerField()
    lent = models.BigIntegerField()
    unsold = models.BigIntegerField()
    down = models.BigIntegerField()
    rented = models.BigIntegerField()

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(fields=["tenant", "pool", "hour", "resource"], name="tenant_hour_once"),
            models.CheckConstraint(
                condition=Q(capacity=F("used") + F("lent") + F("unsold") + F("down")), name="tenant_hour_adds_up"
            ),
            models.CheckConstraint(
                condition=Q(used__gte=0, lent__gte=0, unsold__gte=0, down__gte=0, rented__gte=0),
                name="tenant_hour_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"tenant {self.tenant_id}: resource {self.resource_id} from {self.hour}"


class ServerHour(models.Model):
    """One server's units of a resource in an hour, for the chart of servers by hour. Rows are kept for some days
    only."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="+", db_index=False)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+", db_index=False)
    hour = models.DateTimeField()
    capacity = models.BigIntegerField()
    taken = models.BigIntegerField()
    down = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pool", "hour", "resource", "server"], name="server_hour_once"),
            models.CheckConstraint(
                condition=Q(taken__gte=0, down__gte=0, capacity__gte=F("taken") + F("down")),
                name="server_hour_within_capacity",
            ),
        ]

    def __str__(self) -> str:
        return f"server {self.server_id}: resource {self.resource_id} from {self.hour}"
