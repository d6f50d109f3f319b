"""The reservation calendar: how much each lane holds of each part of a server in a slot. The database refuses to
overbook it."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduling.models.cluster import Pool, ResourceKind, Server
from scheduling.models.transactions import BEFORE_ALL, TransactionField


class Part(models.TextChoices):
    HOME = "home"  # the cells of all tenants together
    OPERATOR = "operator"  # what no cell covers


class CalendarCell(models.Model):
    """What the lanes hold of one part of a server in one slot; there is a row once something is taken. Figures are
    amounts, not units, since a job may take half of a unit."""

    pk = models.CompositePrimaryKey("server_id", "resource_id", "part", "slot")
    # One key, `calendar_on_capacity`, holds all three on the server's capacity (migration 0070).
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    resource = models.ForeignKey(
        ResourceKind, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    part = models.CharField(max_length=8, choices=Part.choices)
    slot = models.BigIntegerField()
    capacity = models.FloatField()
    batch = models.FloatField(default=0.0)
    instant = models.FloatField(default=0.0)
    written_by = TransactionField(editable=False, db_default=BEFORE_ALL)

    class Meta:
        indexes = [
            models.Index(fields=["pool", "slot"], name="calendar_of_slot"),
            models.Index(fields=["pool", "written_by"], name="calendar_written"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(batch__gte=-1e-9, instant__gte=-1e-9), name="calendar_nothing_below_zero"
            ),
            models.CheckConstraint(
                condition=Q(capacity__gte=F("batch") + F("instant") - 1e-9), name="calendar_within_capacity"
            ),
            models.CheckConstraint(condition=Q(part__in=Part.values), name="calendar_part_known"),
        ]

    def __str__(self) -> str:
        return f"{self.part} part of server {self.server_id} in slot {self.slot}"
