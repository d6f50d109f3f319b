"""What happened, in order, for everyone who follows it: events and posted prices. Events are only ever appended."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduling.models.cluster import Pool, ResourceKind
from scheduling.models.jobs import Lane
from tenants.ledger.amounts import plain
from tenants.models import Tenant


class Event(models.Model):
    """One thing that happened. `tenant` None means that everybody may see it. The id is the cursor.

    Transactions commit in another order than they take ids. A trigger therefore takes a lock for each transaction that
    writes events, and readers stop before the ids that may still appear (`scheduling.feed`); so no event is ever
    skipped.
    """

    id = models.BigAutoField(primary_key=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    kind = models.CharField(max_length=40)
    subject = models.CharField(max_length=80, blank=True)  # "job 12", "interval 3 of main"
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["tenant", "id"], name="event_of_tenant"),
            # For the page of one job: what happened to it.
            models.Index(
                fields=["tenant", "subject", "-id"], condition=Q(tenant__isnull=False), name="event_about_subject"
            ),
            # Before a tenant is warned again, its last warning is looked up; a tenant has few among very many events.
            models.Index(fields=["tenant", "-id"], condition=Q(kind="low_balance"), name="event_low_balance"),
            # The same for events of its budgets.
            models.Index(
                fields=["tenant", "at"],
                condition=Q(kind__in=["budget_passed", "budget_reached"]),
                name="event_budget",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class FeedSeal(models.Model):
    """A closed block of events, from after the last block up to `last_event_id`, chained to that block.

    `members` is, for each event in the order of ids, 8 bytes of id and 32 bytes of digest.
    """

    number = models.BigIntegerField(primary_key=True)
    last_event_id = models.BigIntegerField(unique=True)
    sealed_at = models.DateTimeField()
    members = models.BinaryField()
    previous = models.CharField(max_length=64)  # digest of the seal before; 64 zeros for the first
    digest = models.CharField(max_length=64)

    class Meta:
        ordering = ["number"]

    def __str__(self) -> str:
        return f"seal {self.number} of the feed"


class PriceTick(models.Model):
    """The posted price of one unit of a resource in a slot, as a lane last published it."""

    pk = models.CompositePrimaryKey("pool_id", "lane", "resource_id", "slot")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    lane = models.CharField(max_length=8, choices=Lane.choices)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+", db_index=False)
    slot = models.BigIntegerField()
    price = models.FloatField(null=True)  # credits per unit and slot; null where no unit is for sale
    offered = models.FloatField(default=0.0)  # units for sale
    sold = models.FloatField(default=0.0)

    class Meta:
        indexes = [models.Index(fields=["pool", "slot"], name="price_of_slot")]

    def __str__(self) -> str:
        price = "no price" if self.price is None else plain(self.price)
        return f"{price} in slot {self.slot}"
