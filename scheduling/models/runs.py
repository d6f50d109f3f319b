"""What engines do for awards: one row for each gang that was started, and what its program reported."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduling.models.jobs import TrainingJob
from scheduling.models.market import Award
from tenants.scoping import TenantOwned


class RunState(models.TextChoices):
    STARTING = "starting"  # the row was written; the engine may or may not have begun
    RUNNING = "running"
    FINISHED = "finished"  # the program did all of its work
    STOPPED = "stopped"  # its time was over, or its award was taken back
    PAUSED = "paused"  # to go on later: another run of the same award continues it
    FAILED = "failed"  # the program's own fault
    LOST = "lost"  # the platform's fault


OPEN = (RunState.STARTING, RunState.RUNNING)


class EnginePulse(models.Model):
    """When an engine last worked, and what it reported then. It is written every few seconds, and only shown."""

    name = models.CharField(max_length=20, primary_key=True)
    alive_at = models.DateTimeField()
    servers = models.JSONField(default=dict)  # by name: state, since (seconds since 1970), reason
    alerts = models.JSONField(default=list)  # sentences about what is wrong with its cluster now
    figures = models.TextField(blank=True)  # counted since it was started, in the text format of Prometheus

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"engine {self.name} at {self.alive_at}"


class Run(TenantOwned):
    """One gang. `key` is our name of it for its engine; `reference` is the engine's own data to find the gang again."""

    job = models.ForeignKey(TrainingJob, on_delete=models.PROTECT, related_name="+")
    award = models.ForeignKey(Award, on_delete=models.PROTECT, related_name="+")
    number = models.PositiveSmallIntegerField(default=0)  # among the award's runs; each pause adds one
    engine = models.CharField(max_length=20)
    key = models.CharField(max_length=32, unique=True)
    program = models.CharField(max_length=40)
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.STARTING)
    reference = models.JSONField(default=dict, blank=True)  # empty while it is unknown whether the engine began
    ends_at = models.DateTimeField()  # the end that the engine was given
    due_at = models.DateTimeField()  # when it could begin: its slot, or its award if that came later
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField()  # when its engine last checked it
    exit_code = models.IntegerField(null=True, blank=True)
    detail = models.CharField(max_length=200, blank=True)
    restarts = models.PositiveSmallIntegerField(default=0)  # restarts because workers were lost
    delivered = models.JSONField(default=list, blank=True)  # [server, from, to] in seconds since 1970, once it ended
    progress = models.JSONField(default=dict, blank=True)  # the newest epoch: epoch, epochs, loss, speeds

    class Meta(TenantOwned.Meta):
        ordering = ["id"]
        indexes = [
            models.Index(fields=["engine"], condition=Q(state__in=OPEN), name="run_open"),
            models.Index(fields=["tenant", "program", "-id"], name="run_of_program"),
            models.Index(fields=["job", "-id"], name="run_of_job"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["award", "number"], name="run_number_once"),
            models.UniqueConstraint(fields=["award"], condition=Q(state__in=OPEN), name="run_open_once_per_award"),
            models.CheckConstraint(condition=Q(state__in=RunState.values), name="run_state_known"),
        ]

    def __str__(self) -> str:
        return f"run {self.number} of award {self.award_id}: {self.state}"


class JobReport(TenantOwned):
    """What the program of a job in an elastic pool has reported over all of its runs, and what follows from it.

    Its engine writes it as reports arrive, so that deciding a slot only reads it. The values that a decision used are
    part of the interval's stored view.
    """

    job = models.OneToOneField(TrainingJob, on_delete=models.PROTECT, related_name="+", primary_key=True)
    heard_at = models.DateTimeField()
    # For a job that ends when it has converged: the loss of epochs 1, 2, ..., null where none was reported.
    losses = models.JSONField(default=list, blank=True)
    speeds = models.JSONField(default=list, blank=True)  # rows [parameter servers, workers, mini-batches a second]
    speed = models.JSONField(default=list, blank=True)  # coefficients of the speed function fitted to them
    # The outlook after these epochs, see `scheduling.core.estimates.live`; empty for jobs with a number of epochs.
    source = models.CharField(max_length=10, blank=True)
    epochs_left = models.FloatField(null=True, blank=True)
    epochs_low = models.FloatField(null=True, blank=True)
    epochs_high = models.FloatField(null=True, blank=True)
    curve = models.JSONField(default=list, blank=True)  # b0, b1, b2 and the scale of the fitted curve
    # The first estimate of its total number of epochs: after how many epochs it was made, and its range. It is kept to
    # be compared with the end.
    first_after = models.PositiveIntegerField(null=True, blank=True)
    first_low = models.FloatField(null=True, blank=True)
    first_high = models.FloatField(null=True, blank=True)
    ended_after = models.PositiveIntegerField(null=True, blank=True)  # epochs after which it ended by itself

    class Meta(TenantOwned.Meta):
        indexes = [
            models.Index(
                fields=["tenant", "-job"],
                condition=Q(ended_after__isnull=False, first_after__isnull=False),
                name="report_that_was_foretold",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(epochs_left__isnull=True)
                | Q(epochs_low__lte=F("epochs_left"), epochs_left__lte=F("epochs_high")),
                name="report_outlook_in_its_range",
            )
        ]

    def __str__(self) -> str:
        return f"what job {self.job_id} reported"
