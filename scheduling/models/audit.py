"""Sums of fairness by day, operators' alerts on them, what auditors requested, signing keys, and archives of
intervals."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from scheduling.models.cluster import Pool
from tenants.scoping import TenantOwned


class PoolDay(models.Model):
    """Sums over the intervals of one pool that were decided on one day of UTC. They sum only rows that are kept, so
    that they can be added up again at any time (`fairness.days`)."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    day = models.DateField()
    first_number = models.BigIntegerField()
    last_number = models.BigIntegerField()
    intervals = models.PositiveIntegerField(default=0)
    revenue = models.FloatField(default=0.0)
    certificates = models.PositiveIntegerField(default=0)
    broken = models.PositiveIntegerField(default=0)
    broken_intervals = models.PositiveIntegerField(default=0)
    with_renters = models.PositiveIntegerField(default=0)  # counts intervals, as do the next four
    one_bidder = models.PositiveIntegerField(default=0)
    price_jumps = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    idle_beside_waiting = models.PositiveIntegerField(default=0)
    waiting_for = models.JSONField(default=dict, blank=True)  # reason -> jobs, over intervals with unsold units
    unsold = models.JSONField(default=dict, blank=True)  # unit-slots by resource
    highest = models.JSONField(default=dict, blank=True)  # highest price by resource

    class Meta:
        ordering = ["pool", "day"]
        constraints = [models.UniqueConstraint(fields=["pool", "day"], name="pool_day_once")]

    def __str__(self) -> str:
        return f"pool {self.pool_id} on {self.day}"


class TenantDay(TenantOwned):
    """One tenant's sums over the same intervals. `even` is what its gain would be if gains followed the quotas."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    day = models.DateField()
    own_value = models.FloatField(default=0.0)
    rented_value = models.FloatField(default=0.0)
    paid = models.FloatField(default=0.0)
    received = models.FloatField(default=0.0)
    gain = models.FloatField(default=0.0)
    alone = models.FloatField(default=0.0)
    even = models.FloatField(default=0.0)
    earned = models.FloatField(default=0.0)
    contributed = models.FloatField(default=0.0)
    forgone = models.FloatField(default=0.0)
    rent_saved = models.FloatField(default=0.0)
    waiting = models.PositiveIntegerField(default=0)  # intervals after which some of its work still waited
    broken = models.PositiveIntegerField(default=0)
    offered = models.JSONField(default=dict, blank=True)  # unit-slots by resource, as are the next two
    sold = models.JSONField(default=dict, blank=True)
    kept = models.JSONField(default=dict, blank=True)

    class Meta(TenantOwned.Meta):
        constraints = [models.UniqueConstraint(fields=["pool", "day", "tenant"], name="tenant_day_once")]
        indexes = [models.Index(fields=["tenant", "pool", "day"], name="tenant_day_of_tenant")]

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} in pool {self.pool_id} on {self.day}"


class FairnessAlert(models.Model):
    """A limit for one fairness figure of a pool; an event reports once that the figure passes it. `passed_at` is when
    the figure went beyond the limit. While it stays beyond, nothing is reported again."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    measure = models.CharField(max_length=40)
    threshold = models.FloatField()
    value = models.FloatField(null=True, blank=True)  # the figure when it was last checked
    passed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["pool", "measure"]
        constraints = [models.UniqueConstraint(fields=["pool", "measure"], name="fairness_alert_once")]

    def __str__(self) -> str:
        return f"{self.measure} of pool {self.pool_id}"


class AuditKind(models.TextChoices):
    CHARGE = "charge", "a charge"
    INTERVAL = "interval", "an interval"
    EVERYTHING = "everything", "everything"
    BUNDLE = "bundle", "a bundle"


class AuditState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AuditRun(models.Model):
    """A verification or a bundle that an auditor requested and that takes a while. It changes nothing but this row and
    its parts."""

    kind = models.CharField(max_length=12, choices=AuditKind.choices)
    state = models.CharField(max_length=10, choices=AuditState.choices, default=AuditState.QUEUED)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, null=True, related_name="+")
    number = models.BigIntegerField(null=True, blank=True)  # the number of the job or of the interval
    period_start = models.DateTimeField(null=True, blank=True)
    period_end = models.DateTimeField(null=True, blank=True)
    asked_at = models.DateTimeField()
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    began_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    is_clean = models.BooleanField(null=True)  # None where nothing was verified
    sentence = models.TextField(blank=True)
    result = models.JSONField(default=dict, blank=True)  # findings and the arithmetic, see `audit.requests`
    size = models.BigIntegerField(default=0)  # bytes of the file

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running"], ended_at=None)
                | Q(state__in=["done", "failed", "cancelled"], ended_at__isnull=False),
                name="audit_run_ends_once",
            )
        ]

    def __str__(self) -> str:
        return f"audit {self.pk} of {self.kind}"


class SigningKey(models.Model):
    """A key pair that signs bundles. The private half is encrypted (`tenants.common.stored_secrets`), the public half
    is published."""

    public_key = models.CharField(max_length=64, primary_key=True)  # Ed25519, in hexadecimal
    secret = models.TextField()
    made_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, blank=True)  # another key signs since then

    class Meta:
        ordering = ["made_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["retired_at"], condition=Q(retired_at=None), nulls_distinct=False, name="signing_key_one_signs"
            )
        ]

    def __str__(self) -> str:
        return f"signing key {self.public_key}"


class IntervalArchive(models.Model):
    """A signed bundle on disk with the inputs and answers of one day's intervals, which this database no longer has.
    Only the owning role writes rows, and no row is ever changed."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    day = models.DateField()  # the day of UTC on which they were decided
    first = models.BigIntegerField()  # numbers of intervals
    last = models.BigIntegerField()
    file = models.CharField(max_length=120)  # the name of the file, without its folder
    digest = models.CharField(max_length=64)  # SHA-256 of the file
    size = models.BigIntegerField()  # bytes
    public_key = models.CharField(max_length=64)  # the key that signed it
    archived_at = models.DateTimeField()

    class Meta:
        ordering = ["pool", "first"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "day"], name="interval_archive_once"),
            models.CheckConstraint(condition=Q(last__gte=F("first")), name="interval_archive_has_some"),
        ]

    def __str__(self) -> str:
        return self.file


class AuditPart(models.Model):
    """A piece of the file of an `AuditRun`, in order."""

    run = models.ForeignKey(AuditRun, on_delete=models.CASCADE, related_name="parts", db_index=False)
    place = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        ordering = ["run", "place"]
        constraints = [models.UniqueConstraint(fields=["run", "place"], name="audit_part_once")]

    def __str__(self) -> str:
        return f"part {self.place} of audit {self.run_id}"
