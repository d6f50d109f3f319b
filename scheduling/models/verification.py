"""The progress and findings of verifying everything. These rows record work, and are no part of the market."""

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
    """The phases of verifying a pool, in order, and then those of what all pools share."""

    INTERVALS = "intervals"
    ANSWERS = "answers"  # of the instant lane
    INSTANT = "instant"  # awards that were made at once
    JOBS = "jobs"
    END = "end"  # the ends of the chains, and the rows that name them
    DAYS = "days"  # the sums of fairness by day
    BOOK = "book"  # the whole ledger, then the history
    FEED = "feed"  # events under their seals


class VerificationRun(models.Model):
    """A verification of a pool's intervals, or of the book. It is saved after each piece, so that the next worker
    continues from there. It is part of one request to verify everything."""

    audit = models.ForeignKey(AuditRun, on_delete=models.CASCADE, related_name="verifications")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, null=True, related_name="+")  # null for the book
    first = models.BigIntegerField(default=1)  # the first interval that is verified
    state = models.CharField(max_length=10, choices=WorkState.choices, default=WorkState.WAITING)
    phase = models.CharField(max_length=10, choices=Phase.choices, default=Phase.INTERVALS)
    bounds = models.JSONField()  # how far the market's clock, or the book, was when it began
    number = models.BigIntegerField(default=0)  # the last interval done; for the book, steps done
    digest = models.CharField(max_length=64, blank=True)
    memory = models.JSONField(null=True, blank=True)  # what the policy must be given next; null if unknown
    answer_number = models.BigIntegerField(default=0)  # the last answer that is done
    answer_digest = models.CharField(max_length=64, blank=True)
    award_id = models.BigIntegerField(default=0)  # the last instant award that is done
    job_id = models.BigIntegerField(default=0)  # the last job that is done
    day = models.DateField(null=True, blank=True)  # the last day whose sums are done
    done = models.BigIntegerField(default=0)
    total = (
        models.BigIntegerField()
    )  # steps: intervals, answers, instant awards, jobs, the end, the days; or of the book
    tries = models.PositiveSmallIntegerField(default=0)  # tries of the next piece
    intervals = models.BigIntegerField(default=0)  # how many were verified, as for the awards
    awards = models.BigIntegerField(default=0)
    differences = models.BigIntegerField(default=0)
    findings = models.JSONField(default=list, blank=True)  # the first differences, as pairs of where and what
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
