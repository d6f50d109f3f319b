"""Learning beside a pool: how far the learner is, which weights it offers and how they did, and which were put in
place."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduling.models.cluster import Pool
from scheduling.models.weights import PolicyWeights


class WeightsPromotion(models.Model):
    """Which weights a pool decides with from a slot on. Rows never change: among the rows that begin at or before a
    slot, the one with the latest `from_slot`, and among equals the highest id, decides that slot. Without weights the
    pool decides with the weights that it was made with."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    weights = models.ForeignKey(PolicyWeights, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    from_slot = models.BigIntegerField()
    by_rule = models.BooleanField(default=False)
    made_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["pool", "-from_slot", "-id"], name="promotion_newest")]

    def __str__(self) -> str:
        return f"weights {self.weights_id} of pool {self.pool_id} from slot {self.from_slot}"


class PoolLearner(models.Model):
    """A pool's learner: what an operator allows it, and how far it is. `state` is the whole training as bytes. It is
    written together with `step`, so that a second worker, or the next one after a kill, finds all of a step or nothing.
    """

    pool = models.OneToOneField(Pool, on_delete=models.PROTECT, primary_key=True, related_name="+")
    is_on = models.BooleanField(default=False)
    promotes = models.BooleanField(default=False)  # puts better weights in place by itself
    every_seconds = models.PositiveIntegerField(default=600)  # at least this long between two steps
    shadow_slots = models.PositiveIntegerField(default=50)  # slots that a candidate decides before its verdict
    margin = models.FloatField(default=0.02)  # the part by which it has to be better
    step = models.PositiveIntegerField(default=0)
    state = models.BinaryField(null=True)
    began_with = models.CharField(max_length=64, blank=True)  # digest of the weights with which the training began
    curve = models.JSONField(default=list, blank=True)  # a row for each step
    worked_at = models.DateTimeField(null=True, blank=True)
    sentence = models.TextField(blank=True)  # how far it is, or why it does not continue

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(every_seconds__gte=1, shadow_slots__gte=2, margin__gte=0), name="learner_within_limits"
            )
        ]

    def __str__(self) -> str:
        return f"learner of pool {self.pool_id}, step {self.step}"


class CandidateState(models.TextChoices):
    SHADOW = "shadow"  # decides the pool's slots, without effect
    OFFERED = "offered"  # it has beaten the weights in use
    NOT_BETTER = "not_better"
    TAKEN = "taken"
    PASSED = "passed"  # other weights were put in place before these were


class WeightsCandidate(models.Model):
    """Weights that a learner made. `against` is the digest of the weights then in use, with which they are compared."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    weights = models.OneToOneField(PolicyWeights, on_delete=models.PROTECT, related_name="+")
    against = models.CharField(max_length=64)
    from_slot = models.BigIntegerField()  # the first slot that it decides in shadow; it learnt from none of these slots
    state = models.CharField(max_length=10, choices=CandidateState.choices, default=CandidateState.SHADOW)
    verdict = models.JSONField(default=dict, blank=True)
    made_at = models.DateTimeField()
    judged_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=CandidateState.values), name="candidate_state_known"),
            models.UniqueConstraint(
                fields=["pool"], condition=Q(state__in=["shadow", "offered"]), name="candidate_one_open"
            ),
        ]

    def __str__(self) -> str:
        return f"candidate {self.weights_id} of pool {self.pool_id}"


class ShadowSlot(models.Model):
    """One slot that the pool decided and a candidate decided again, with the reward of each plan."""

    candidate = models.ForeignKey(WeightsCandidate, on_delete=models.PROTECT, related_name="slots", db_index=False)
    slot = models.BigIntegerField()
    reward_in_use = models.FloatField()
    reward = models.FloatField()

    class Meta:
        ordering = ["candidate", "slot"]
        constraints = [models.UniqueConstraint(fields=["candidate", "slot"], name="shadow_slot_once")]

    def __str__(self) -> str:
        return f"slot {self.slot} by candidate {self.candidate_id}"
