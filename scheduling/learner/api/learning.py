"""A pool's learner for programs: how it stands, what it may do, and which weights decide."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.views import NO_REASON, PoolView
from scheduling.learner.promotion import EVERY, SLOTS, learner_set, weights_take
from scheduling.learner.read_learner import LearnerSettings, learner_state
from scheduling.models import CandidateState
from tenants.access import Refused
from tenants.api.fields import Answer, Flag, Form, Moment, Real, Text, Whole, Word
from tenants.api.operations import operation
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST


class LearnerSet(Form):
    is_on = Flag(help_text="Whether it learns beside the pool.")
    promotes = Flag(required=False, help_text="Whether it puts in place by itself what has won (default: no).")
    every_seconds = Whole(required=False, min_value=EVERY[0], max_value=EVERY[1], help_text="Between two steps.")
    shadow_slots = Whole(
        required=False, min_value=SLOTS[0], max_value=SLOTS[1], help_text="Slots in shadow before a verdict."
    )
    margin = Real(required=False, min_value=0.0, max_value=1.0, help_text="The part by which it has to be better.")
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class WeightsTake(Form):
    weights = Text(required=False, max_length=60, help_text="Their name; left out: those that the pool was made with.")
    instead_of = Text(
        required=False, max_length=64, help_text="The digest of those in use, as you saw it: others are kept."
    )
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class SettingsShown(Answer):
    is_on = serializers.BooleanField(help_text="Whether it learns beside the pool.")
    promotes = serializers.BooleanField(help_text="Whether it puts in place by itself what has won.")
    every_seconds = serializers.IntegerField(help_text="Between two steps, at least.")
    shadow_slots = serializers.IntegerField(help_text="Slots in shadow before a verdict.")
    margin = serializers.FloatField(help_text="The part by which a candidate has to be better.")


class CandidateShown(Answer):
    weights = serializers.CharField(help_text="Their name.")
    digest = serializers.CharField(help_text="SHA-256 of their file.")
    state = Word(choices=CandidateState.values)
    made_at = Moment()
    from_slot = serializers.IntegerField(help_text="The first slot that it decided in shadow.")
    shadowed = serializers.IntegerField(help_text="Slots that it has decided so, without effect.")
    judged_at = Moment(allow_null=True)
    lines = serializers.ListField(child=serializers.CharField(), help_text="The verdict, a comparison each.")


class PromotionShown(Answer):
    weights = serializers.CharField(help_text="Their name; empty for those that the pool was made with.")
    digest = serializers.CharField(help_text="SHA-256 of their file; empty likewise.")
    from_slot = serializers.IntegerField(help_text="They decide from this slot on, until a later row does.")
    starts_at = Moment()
    by_rule = serializers.BooleanField(help_text="Whether the learner put them in place by itself.")


class LearnerShown(Answer):
    pool = serializers.CharField()
    learned = serializers.BooleanField(help_text="Whether a network decides the pool's slots.")
    settings = SettingsShown()
    slot = serializers.IntegerField(help_text="The next one that is not decided.")
    weights = serializers.CharField(help_text="What decides it, by name; empty for those that the pool was made with.")
    digest = serializers.CharField(help_text="SHA-256 of their file.")
    step = serializers.IntegerField(help_text="Steps that the learner has done.")
    worked_at = Moment(allow_null=True)
    sentence = serializers.CharField(help_text="Why it does not go on; empty where it does.")
    candidates = CandidateShown(many=True, help_text="The newest 20, the newest first.")
    promotions = PromotionShown(many=True, help_text="The newest 20, the newest first.")


REQUEST: dict[str, Any] = {"is_on": True, "shadow_slots": 50, "margin": 0.02, "reason": "Jobs have changed."}
TAKE: dict[str, Any] = {"weights": "elastic-learnt-12", "reason": "It has won for two days."}
DIGEST = "3b1f0c57a2d4e6887c9b0a1d2e3f405162738495a6b7c8d9eaf0b1c2d3e4f506"
EXAMPLE: dict[str, Any] = {
    "pool": "elastic",
    "learned": True,
    "settings": {"is_on": True, "promotes": False, "every_seconds": 600, "shadow_slots": 50, "margin": 0.02},
    "slot": 120,
    "weights": "elastic-learnt-12",
    "digest": DIGEST,
    "step": 31,
    "worked_at": "2026-03-02T12:19:51Z",
    "sentence": "",
    "candidates": [
        {
            "weights": "elastic-learnt-12",
            "digest": DIGEST,
            "state": "taken",
            "made_at": "2026-03-02T11:10:00Z",
            "from_slot": 60,
            "shadowed": 52,
            "judged_at": "2026-03-02T12:18:00Z",
            "lines": ["held: work done in a slot that the pool decided (ours 1.08 ± 0.03)"],
        }
    ],
    "promotions": [
        {
            "weights": "elastic-learnt-12",
            "digest": DIGEST,
            "from_slot": 119,
            "starts_at": "2026-03-02T12:19:50Z",
            "by_rule": False,
        }
    ],
}


class _LearnerView(PoolView):
    def _state(self) -> HttpResponse:
        return self.shown(LearnerShown, learner_state(self.pool, timezone.now()))


class LearnerOfPool(_LearnerView):
    @operation(
        "learner_read",
        summary="The learner beside a pool",
        description="What decides, what the learner offers and how that did. Only elastic pools of DL2 have one.",
        permission=Permission.PRICES_VIEW,
        answer=LearnerShown,
        answer_example=EXAMPLE,
        tag="pools",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self._state()

    @operation(
        "learner_set",
        summary="Switch the learner",
        description="What is left out is as usual. It changes no decision; weights_take does. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=LearnerSet,
        answer=LearnerShown,
        request_example=REQUEST,
        answer_example=EXAMPLE,
        refusals=("not_learned", "invalid_learner", *NO_REASON),
        tag="pools",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        body = dict(self.read(LearnerSet))
        reason = body.pop("reason")
        settings = LearnerSettings(**body)
        outcome = learner_set(pool=self.pool, settings=settings, by=self.access, reason=reason, at=timezone.now())
        return self.refused(outcome) if isinstance(outcome, Refused) else self._state()


class WeightsOfPool(_LearnerView):
    @operation(
        "weights_take",
        summary="Put weights in place",
        description="Those that the learner offers, or some that decided before. They decide from the next boundary "
        "on; what is decided keeps its weights. Said again, nothing changes. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=WeightsTake,
        answer=LearnerShown,
        request_example=TAKE,
        answer_example=EXAMPLE,
        refusals=("not_learned", "not_offered", "weights_moved", *NO_REASON),
        tag="pools",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        body = dict(self.read(WeightsTake))
        body.setdefault("weights", "")
        outcome = weights_take(pool=self.pool, by=self.access, at=timezone.now(), **body)
        return self.refused(outcome) if isinstance(outcome, Refused) else self._state()
