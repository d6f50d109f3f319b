"""Questions about what would have happened if a job had said something else in one interval, and their answers."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from scheduling.models.jobs import TrainingJob
from scheduling.models.market import Interval
from scheduling.models.verification import OPEN_WORK, WorkState
from tenants.scoping import TenantOwned


class WhatIf(TenantOwned):
    """A question about a tenant's job. It belongs to that tenant and is shown to the person who asked. It changes
    nothing, and expires."""

    interval = models.ForeignKey(Interval, on_delete=models.PROTECT, related_name="+")
    job = models.ForeignKey(TrainingJob, on_delete=models.PROTECT, related_name="+")
    field = models.CharField(max_length=40)  # of the job's specification
    said = models.JSONField(null=True, blank=True)  # null where the job did not give the field
    instead = models.JSONField(null=True, blank=True)
    state = models.CharField(max_length=10, choices=WorkState.choices, default=WorkState.WAITING)
    done = models.PositiveSmallIntegerField(default=0)  # steps that are done
    total = models.PositiveSmallIntegerField()
    tries = models.PositiveSmallIntegerField(default=0)
    code = models.CharField(max_length=40, blank=True)  # why it failed
    sentence = models.TextField(blank=True)
    result = models.JSONField(null=True, blank=True)  # for all; `what_if.seen` shows each what it may see
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    asked_at = models.DateTimeField()
    began_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()

    class Meta(TenantOwned.Meta):
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["id"], condition=Q(state__in=OPEN_WORK), name="what_if_open"),
            models.Index(fields=["asked_by", "-id"], name="what_if_of_person"),
            models.Index(fields=["expires_at"], name="what_if_to_expire"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=WorkState.values), name="what_if_state_known"),
            models.CheckConstraint(condition=Q(done__lte=F("total")), name="what_if_within_total"),
            models.CheckConstraint(condition=~Q(state="done") | Q(result__isnull=False), name="what_if_answered"),
        ]

    def __str__(self) -> str:
        return f"what if {self.pk} about job {self.job_id}"
