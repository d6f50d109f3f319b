"""What tenants submit: training jobs, with the floors and the start estimates that the market gave them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from scheduling.models.cluster import Pool
from tenants.ledger.amounts import plain
from tenants.scoping import TenantOwned


class Lane(models.TextChoices):
    BATCH = "batch"  # waits for the next interval
    INSTANT = "instant"  # is answered at once


class JobState(models.TextChoices):
    QUEUED = "queued"
    AWARDED = "awarded"  # has a schedule that has not begun
    RUNNING = "running"
    FINISHED = "finished"
    REJECTED = "rejected", "Refused"  # people see one word for refusals; programs know the code
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"
    STOPPED = "stopped"


LIVE_STATES = (JobState.QUEUED, JobState.AWARDED, JobState.RUNNING)
# Fields of a specification that only the market uses: the core knows jobs, not what they run.
PROGRAM = "program"  # what really runs
UNTIL = "until_converged"  # the job trains until its loss has stopped falling
AFTER_OTHERS = 2**53  # `not_before` of a job that waits for other jobs: a slot that never comes


class JobArray(TenantOwned):
    """Jobs that were submitted in one act and are alike but for their index. Each member is paid and reported by
    itself, and decided by itself too unless they are bought together."""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=200)
    indexes = models.JSONField()  # the indexes of its members, in order
    submitted_at = models.DateTimeField()
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta(TenantOwned.Meta):
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.name} (A-{self.pk})"


class TrainingJob(TenantOwned):
    """One job. Its id is its number in the core, in the order of submission."""

    # Indexes below begin with the tenant; an index of its own would only cost a write at every submission.
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=200)
    lane = models.CharField(max_length=8, choices=Lane.choices)
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.QUEUED)
    # Why the job is in its state: a code of `scheduling.reasons` and its numbers. It is never empty while the job
    # waits.
    reason_code = models.CharField(max_length=40, blank=True)
    reason_numbers = models.JSONField(default=dict, blank=True)
    # The job as the tenant wrote it, in the words of a scenario file, without name, tenant, lane and arrival.
    spec = models.JSONField()
    submitted_at = models.DateTimeField()
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    arrival = models.FloatField()  # slots of the pool since its epoch; kept when the job is queued again
    # Where its worth names a moment: the latest arrival from which the specification counts that. The worth stays where
    # it is when the arrival is set to later than this. NULL: it counts from whatever is the arrival.
    worth_from = models.FloatField(null=True, blank=True)
    # The client's own key of the submission. The same key means the same job, also after a lost reply.
    client_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001  NULL: the client gave none
    request_digest = models.CharField(max_length=64)
    attempt = models.PositiveSmallIntegerField(default=0)  # how often it was requeued after a platform failure
    # The first slot in which it is considered: later after a failure of the platform, and `AFTER_OTHERS` while jobs
    # in `after` have not ended.
    not_before = models.BigIntegerField(default=0)
    after = models.JSONField(default=list, blank=True)  # numbers of the tenant's jobs that must have ended well before
    ended_at = models.DateTimeField(null=True, blank=True)
    # For a job that was begun in pieces and has no schedule at home: how many credits the finished part is worth to its
    # owner, by the last interval (D4).
    worth = models.FloatField(null=True, blank=True)
    array = models.ForeignKey(JobArray, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    array_place = models.PositiveSmallIntegerField(default=0)  # its position; lists show the first for all
    # Whether the waiting members of its array are bought in one interval, all or none.
    together = models.BooleanField(default=False, db_default=False)

    class Meta(TenantOwned.Meta):
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["pool", "lane", "arrival", "id"], condition=Q(state="queued"), name="job_queue_in_order"
            ),
            models.Index(fields=["pool", "state"], condition=Q(state__in=LIVE_STATES), name="job_alive"),
            models.Index(fields=["pool", "id"], condition=Q(state="queued", not_before=AFTER_OTHERS), name="job_held"),
            models.Index(fields=["tenant", "-id"], name="job_newest_of_tenant"),
            # For the page of jobs: newest first, of one state, by name. It reads one page even of a million jobs.
            models.Index(fields=["tenant", "-submitted_at", "-id"], name="job_of_tenant_by_time"),
            models.Index(fields=["tenant", "state", "-submitted_at", "-id"], name="job_of_tenant_in_state"),
            # The interface lists one state in the order of ids, also where no job is in that state.
            models.Index(fields=["tenant", "state", "-id"], name="job_in_state_newest"),
            models.Index(fields=["tenant", "name", "id"], name="job_of_tenant_by_name"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "client_key"], condition=Q(client_key__isnull=False), name="job_client_key_once"
            ),
            models.UniqueConstraint(
                fields=["array", "array_place"], condition=Q(array__isnull=False), name="job_of_array_once"
            ),
            models.CheckConstraint(condition=Q(lane__in=Lane.values), name="job_lane_known"),
            models.CheckConstraint(condition=Q(state__in=JobState.values), name="job_state_known"),
            models.CheckConstraint(
                condition=~Q(state__in=["queued", "rejected", "expired", "cancelled", "failed", "stopped"])
                | ~Q(reason_code=""),
                name="job_not_running_has_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.pk})"


class Described(models.TextChoices):
    HOURS = "hours"
    SCRIPT = "script"  # a batch script


class JobDescription(TenantOwned):
    """A job in its submitter's own words, where these were not a specification. It is shown to people; no decision
    reads it, since the market decides on the job's specification."""

    job = models.OneToOneField(TrainingJob, on_delete=models.PROTECT, related_name="+", primary_key=True)
    how = models.CharField(max_length=8, choices=Described.choices)
    said = models.JSONField()
    lines = models.JSONField(default=list)  # for a script: rows [line, option, verdict, sentence], as they were shown

    class Meta(TenantOwned.Meta):
        constraints = [
            models.CheckConstraint(condition=Q(how__in=Described.values), name="description_known"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} as it was said, by {self.how}"


class JobFloor(TenantOwned):
    """What the job would have got if its owner were alone, as an interval planned it. A row is never changed.

    Among a job's rows for its latest attempt, the row of the latest interval is valid. A draft is a projection: later
    intervals may replace it until the job starts in the world in which its owner is alone, or is dropped there. A row
    that is no draft is final.
    """

    job = models.ForeignKey(TrainingJob, on_delete=models.PROTECT, related_name="+")
    attempt = models.PositiveSmallIntegerField(default=0)
    interval = models.ForeignKey("scheduling.Interval", on_delete=models.PROTECT, related_name="+")
    value = models.FloatField()
    start = models.BigIntegerField()  # start and end are 0 where no schedule at home is worth anything
    end = models.BigIntegerField()
    worker_type = models.PositiveSmallIntegerField(default=0)
    ps_type = models.PositiveSmallIntegerField(default=0)
    allocation = models.JSONField()  # rows [server id, start, end, workers, parameter servers]
    draft = models.BooleanField(default=False, db_default=False)

    class Meta(TenantOwned.Meta):
        indexes = [models.Index(fields=["end"], name="floor_to_end")]  # a snapshot reads the floors that have not ended
        constraints = [
            models.UniqueConstraint(fields=["job", "attempt", "interval"], name="floor_once_per_interval"),
            models.CheckConstraint(condition=Q(end__gte=F("start"), value__gte=0), name="floor_possible"),
        ]

    def __str__(self) -> str:
        return f"floor of {self.job_id}: {plain(self.value)}"


class StartEstimate(TenantOwned):
    """The market's estimate of a job's start, kept so that a page can show how often estimates were right."""

    job = models.ForeignKey(TrainingJob, on_delete=models.PROTECT, related_name="+")
    made_at = models.DateTimeField()
    earliest = models.BigIntegerField()  # slots
    latest = models.BigIntegerField()
    price_low = models.BigIntegerField()  # micro-credits
    price_high = models.BigIntegerField()
    started = models.BigIntegerField(null=True, blank=True)  # the slot in which it really started
    paid = models.BigIntegerField(null=True, blank=True)

    class Meta(TenantOwned.Meta):
        indexes = [
            models.Index(fields=["tenant", "-id"], condition=Q(started__isnull=False), name="estimate_that_came_true")
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(latest__gte=F("earliest"), price_high__gte=F("price_low")), name="estimate_is_a_range"
            )
        ]

    def __str__(self) -> str:
        return f"start of {self.job_id} between {self.earliest} and {self.latest}"


class SavedView(TenantOwned):
    """A filter and order of the list of jobs that a person saved, as the query of its address."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=500, blank=True)

    class Meta(TenantOwned.Meta):
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "person", "name"], name="view_name_once_per_person")]

    def __str__(self) -> str:
        return self.name
