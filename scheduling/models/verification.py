"""Verifying everything of a pool: how far it has come and what it found. A row of work, not of the market."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from scheduling.models.cluster import Pool


class WorkState(models.TextChoices):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_WORK = (WorkState.WAITING, WorkState.RUNNING)


class Phase(models.TextChoices):
    INTERVALS = "intervals"
    INSTANT = "instant"  # awards that were made at once
    BOOK = "book"  # the end of the chain, the sums by day, the whole ledger


class VerificationRun(models.Model):
    """The walk over a pool's intervals, kept after each piece, so that whoever comes next goes on from there."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    first = models.BigIntegerField()  # the first interval looked at
    last = models.BigIntegerField()  # the last one when it was asked for
    state = models.CharField(max_length=10, choices=WorkState.choices, default=WorkState.WAITING)
    phase = models.CharField(max_length=10, choices=Phase.choices, default=Phase.INTERVALS)
    bounds = models.JSONField()  # how far the market's clock had come when it was asked for
    number = models.BigIntegerField()  # of the last interval that was done
    digest = models.CharField(max_length=64)
    memory = models.JSONField(null=True, blank=True)  # what the policy must have been told next; null: not known
    award_id = models.BigIntegerField(default=0)  # of the last instant award that was done
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField()  # intervals, instant awards, and one for the book
    awards = models.BigIntegerField(default=0)
    differences = models.BigIntegerField(default=0)
    findings = models.JSONField(default=list, blank=True)  # the first of them: pairs of where and what
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, blank=True)  # the end of its last piece
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool"], condition=Q(state__in=OPEN_WORK), name="verification_one_open_per_pool"
            ),
            models.CheckConstraint(condition=Q(state__in=WorkState.values), name="verification_state_known"),
            models.CheckConstraint(condition=Q(done__gte=0, done__lte=F("total")), name="verification_within_total"),
        ]

    def __str__(self) -> str:
        return f"verification {self.pk} of pool {self.pool_id}"
