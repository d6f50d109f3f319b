"""Trained weights with which a pool's policy may run."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class PolicyWeights(models.Model):
    """A file of weights with a name. It is never changed or removed, since verification decides intervals again with
    the weights that decided them."""

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
