"""Studies of the lab: what was requested about which history, how far it is, and the files that it reads and makes."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from scheduling.models.cluster import Pool


class StudyState(models.TextChoices):
    READING = "reading"  # the history is being read, and the cost estimated
    READY = "ready"  # it waits for somebody to start it
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


STUDY_AT_WORK = (StudyState.READING, StudyState.WAITING, StudyState.RUNNING)
STUDY_OPEN = (*STUDY_AT_WORK, StudyState.READY)


class LabStudy(models.Model):
    """A study that a person requested. It changes nothing in the market. `document` is the content of the study's
    file."""

    title = models.CharField(max_length=200)
    document = models.JSONField()
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, null=True, related_name="+")  # whose past it studies
    first_at = models.DateTimeField(null=True, blank=True)  # the span of that past, to `last_at`
    last_at = models.DateTimeField(null=True, blank=True)
    digest = models.CharField(max_length=64, blank=True)  # of the study and its files; empty until they are read
    state = models.CharField(max_length=10, choices=StudyState.choices, default=StudyState.READING)
    starts_at_once = models.BooleanField(default=False)  # nobody needs to confirm the cost, or somebody has
    is_shown = models.BooleanField(default=False)  # whether it is shown to the owners that it is about
    owners = models.JSONField(default=list, blank=True)  # their names, in the order of the history
    history = models.JSONField(default=dict, blank=True)  # what was read: counts, days, notes
    minutes = models.FloatField(null=True, blank=True)  # the estimated duration, from the reading
    done = models.PositiveIntegerField(default=0)  # replays that are done
    total = models.PositiveIntegerField(default=0)
    part = models.FloatField(default=0.0)  # the finished part of the running replay
    tries = models.PositiveSmallIntegerField(default=0)  # tries of the next piece
    answer = models.JSONField(default=dict, blank=True)  # the one number: rule, against, saved, low, high, waited
    sentence = models.TextField(blank=True)  # the answer in words, or why there is none
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    asked_at = models.DateTimeField()
    began_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["id"], condition=Q(state__in=STUDY_AT_WORK), name="lab_study_at_work")]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=StudyState.values), name="lab_study_state_known"),
            models.CheckConstraint(condition=Q(done__lte=F("total")), name="lab_study_within_total"),
            models.CheckConstraint(
                condition=Q(state__in=STUDY_OPEN, ended_at=None)
                | (~Q(state__in=STUDY_OPEN) & Q(ended_at__isnull=False)),
                name="lab_study_ends_once",
            ),
        ]

    def __str__(self) -> str:
        return f"study {self.pk}"

    @property
    def answer_if_known(self) -> dict[str, Any] | None:
        """Return the one number, or None while there is none."""
        return self.answer or None


class LabFile(models.Model):
    """A piece of a file of a study, in order: what it reads, finished replays, and its results."""

    study = models.ForeignKey(LabStudy, on_delete=models.CASCADE, related_name="files", db_index=False)
    name = models.CharField(max_length=120)
    place = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        ordering = ["study", "name", "place"]
        constraints = [models.UniqueConstraint(fields=["study", "name", "place"], name="lab_file_once")]

    def __str__(self) -> str:
        return f"part {self.place} of {self.name} of study {self.study_id}"
