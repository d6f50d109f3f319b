"""Whether the market was running: when each pool's clock last ticked, and the slots that passed while it stood
still."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduling.models.cluster import Pool


class Pulse(models.Model):
    """When the clock of a pool last ticked. It has a row of its own because it is written while the lanes are
    locked."""

    pool = models.OneToOneField(Pool, on_delete=models.PROTECT, primary_key=True, related_name="+")
    alive_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "pulses"

    def __str__(self) -> str:
        return f"pool {self.pool_id} at {self.alive_at}"


class Outage(models.Model):
    """Slots that passed from beginning to end without a tick. The next tick writes the row, and it is never changed."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    start = models.BigIntegerField()  # slots [start, end)
    end = models.BigIntegerField()
    alive_at = models.DateTimeField()  # the last tick before
    noticed_at = models.DateTimeField()  # the first tick after

    class Meta:
        ordering = ["pool", "start"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "start"], name="outage_once"),
            models.CheckConstraint(condition=Q(end__gt=F("start"), start__gte=0), name="outage_has_slots"),
            models.CheckConstraint(condition=Q(noticed_at__gt=F("alive_at")), name="outage_noticed_afterwards"),
        ]

    def __str__(self) -> str:
        return f"outage of pool {self.pool_id}: [{self.start}, {self.end})"
