"""What engines do for awards: one row for each gang that was started."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduling.models.jobs import TrainingJob
from scheduling.models.market import Award
from tenants.scoping import TenantOwned


class RunState(models.TextChoices):
    STARTING = "starting"  # opened; the engine may or may not have begun
    RUNNING = "running"
    FINISHED = "finished"  # the program did all of its work
    STOPPED = "stopped"  # its time was over, or it was taken back
    PAUSED = "paused"  # the market was stopped; another run of the same award goes on
    FAILED = "failed"  # the program's own fault
    LOST = "lost"  # the platform's fault


OPEN = (RunState.STARTING, RunState.RUNNING)


class EnginePulse(models.Model):
    """When an engine was last at work, and what it said then: written anew every few seconds, and only shown."""

    name = models.CharField(max_length=20, primary_key=True)
    alive_at = models.DateTimeField()
    servers = models.JSONField(default=dict)  # by name: state, since (seconds since 1970), reason
    alerts = models.JSONField(default=list)  # sentences: what is wrong with its cluster now
    figures = models.TextField(blank=True)  # since it was started, in the text format of Prometheus

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"engine {self.name} at {self.alive_at}"


class Run(TenantOwned):
    """A gang. `key` is how its engine knows it; `reference` is the engine's own, by which it finds the gang again."""

    job = models.ForeignKey(TrainingJob, on_delete=models.PROTECT, related_name="+")
    award = models.ForeignKey(Award, on_delete=models.PROTECT, related_name="+")
    number = models.PositiveSmallIntegerField(default=0)  # of the award's runs; more than one where it was paused
    engine = models.CharField(max_length=20)
    key = models.CharField(max_length=32, unique=True)
    program = models.CharField(max_length=40)
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.STARTING)
    reference = models.JSONField(default=dict, blank=True)  # empty: nobody knows yet whether the engine began
    ends_at = models.DateTimeField()  # as the engine was told
    due_at = models.DateTimeField()  # when it could begin: its slot, or its award if that came later
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField()  # when its engine last looked
    exit_code = models.IntegerField(null=True, blank=True)
    detail = models.CharField(max_length=200, blank=True)
    restarts = models.PositiveSmallIntegerField(default=0)  # of workers that were lost
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
