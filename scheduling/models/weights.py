"""Trained weights that a pool's policy may be run with."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class PolicyWeights(models.Model):
    """A file of weights under a name. Never changed or removed: intervals that were decided with it are decided again
    when they are verified."""

    name = models.SlugField(max_length=60, unique=True)
    digest = models.CharField(max_length=64)  # SHA-256 of the content
    content = models.BinaryField()  # the .npz as it was trained
    added_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "policy weights"
        constraints = [models.CheckConstraint(condition=~Q(name=""), name="weights_named")]

    def __str__(self) -> str:
        return self.name
