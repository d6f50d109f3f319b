"""Verifying everything: how far it has come and what it found. A row of work, not of the market."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduling.models.audit import AuditRun
from scheduling.models.cluster import Pool


class WorkState(models.TextChoices):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_WORK = (WorkState.WAITING, WorkState.RUNNING)


class Phase(models.TextChoices):
    """Those of a pool, in this order; then those of what is common to all pools."""

    INTERVALS = "intervals"
    ANSWERS = "answers"  # of the instant lane
    INSTANT = "instant"  # awards that were made at once
    JOBS = "jobs"
    END = "end"  # of the chains, and what stands at the end of them
    DAYS = "days"  # the sums of fairness by day
    BOOK = "book"  # the whole ledger, then the history
    FEED = "feed"  # events under their seals


class VerificationRun(models.Model):
    """The walk over a pool's intervals, or over the book, kept after each piece, so that whoever comes next goes on
    from there. Part of one request to verify everything."""

    audit = models.ForeignKey(AuditRun, on_delete=models.CASCADE, related_name="verifications")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, null=True, related_name="+")  # null: the book
    first = models.BigIntegerField(default=1)  # the first interval looked at
    state = models.CharField(max_length=10, choices=WorkState.choices, default=WorkState.WAITING)
    phase = models.CharField(max_length=10, choices=Phase.choices, default=Phase.INTERVALS)
    bounds = models.JSONField()  # how far the market's clock, or the book, had come when it began
    number = models.BigIntegerField(default=0)  # of the last interval that was done; of the book, steps done
    digest = models.CharField(max_length=64, blank=True)
    memory = models.JSONField(null=True, blank=True)  # what the policy must have been told next; null: not known
    answer_number = models.BigIntegerField(default=0)  # of the last answer that was done
    answer_digest = models.CharField(max_length=64, blank=True)
    award_id = models.BigIntegerField(default=0)  # of the last instant award that was done
    job_id = models.BigIntegerField(default=0)  # of the last job that was done
    day = models.DateField(null=True, blank=True)  # the last one whose sums were done
    done = models.BigIntegerField(default=0)
    total = (
        models.BigIntegerField()
    )  # steps: intervals, answers, instant awards, jobs, the end, the days; or of the book
    tries = models.PositiveSmallIntegerField(default=0)  # of the piece that comes next
    intervals = models.BigIntegerField(default=0)  # looked at, as are the awards
    awards = models.BigIntegerField(default=0)
    differences = models.BigIntegerField(default=0)
    findings = models.JSONField(default=list, blank=True)  # the first of them: pairs of where and what
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
        return f"verification {self.pk} of {'the book' if self.pool_id is None else f'pool {self.pool_id}'}"
