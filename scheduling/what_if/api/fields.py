"""A question about the past and its answer, as programs send and get them; with examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.models import WorkState
from scheduling.what_if.asking import what_if_fields
from tenants.api.fields import Answer, CoreCredits, Form, Moment, Text, Whole, Word

OPERATOR = "operator"


@extend_schema_field(
    {
        "type": ["object", "array", "string", "number", "boolean"],
        "items": {},
        "additionalProperties": True,
        "description": "As the specification of a job has it; null: not said.",
    }
)
class FieldValue(serializers.Field[Any, Any, Any, Any]):
    """What a job says in one of its fields: whoever reads it says what it may be."""

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class NewWhatIf(Form):
    pool = Text(max_length=40, help_text="The pool's short name.")
    interval = Whole(min_value=1, help_text="Its number in the pool.")
    job = Whole(min_value=1, help_text="One that waited when the interval was decided.")
    field = Word(choices=what_if_fields(), help_text="Of its specification, or `arrival`: slots of the pool.")
    value = FieldValue(allow_null=True, help_text="What it would have said instead.")


class OutcomeShown(Answer):
    state = serializers.CharField(help_text="`awarded`, `waiting`, `rejected`, `expired`, or `absent`: not there yet.")
    reason = serializers.CharField(allow_null=True, default=None, help_text="Why it got nothing; null: not told.")
    phase = serializers.CharField(help_text="`own`: on the tenant's cells; `shared`: rented; else empty.")
    start_slot = serializers.IntegerField(source="start", allow_null=True)
    end_slot = serializers.IntegerField(source="end", allow_null=True, help_text="The first slot after it.")
    workers = serializers.IntegerField()
    parameter_servers = serializers.IntegerField(source="ps")
    price = CoreCredits(source="paid")
    worth = CoreCredits(source="value", allow_null=True, default=None, help_text="By what the job really is.")
    floor = CoreCredits(
        allow_null=True, default=None, help_text="What it is promised at home while it waits; null: not the reader's."
    )


class WhatIfJob(Answer):
    job = serializers.IntegerField(allow_null=True, help_text="Null: another tenant's.")
    tenant = serializers.CharField(allow_null=True, help_text="Its short name.")
    asked = serializers.BooleanField(source="is_asked", help_text="Whether the question is about it.")
    before = OutcomeShown(help_text="As it was.")
    after = OutcomeShown(help_text="As it would have been.")


class WhatIfTenant(Answer):
    tenant = serializers.CharField(allow_null=True, help_text=f"Its short name, or `{OPERATOR}`; null: another one.")
    before = CoreCredits(allow_null=True, help_text="Gain in the interval; null where it is not the reader's.")
    after = CoreCredits(allow_null=True)
    difference = CoreCredits()
    promised = CoreCredits(help_text="By how much more the floors are worth of its jobs that go on waiting.")


class WhatIfPrice(Answer):
    resource = serializers.CharField()
    before = CoreCredits(help_text="The highest posted for one unit in a slot.")
    after = CoreCredits()


class WhatIfResult(Answer):
    in_words = serializers.CharField(help_text="What it would have meant for the job, in one sentence.")
    whole = serializers.BooleanField(source="is_whole", help_text="Whether everybody is named.")
    jobs = WhatIfJob(many=True, help_text="The one asked about, and those that would have got something else.")
    tenants = WhatIfTenant(many=True)
    prices = WhatIfPrice(many=True)


class WhatIfRow(Answer):
    id = serializers.IntegerField()
    pool = serializers.CharField()
    interval = serializers.IntegerField(source="seen.number")
    job = serializers.IntegerField(source="seen.job_id")
    field = serializers.CharField(source="seen.field")
    said = FieldValue(source="seen.said", allow_null=True, help_text="What it said.")
    instead = FieldValue(source="seen.instead", allow_null=True, help_text="What it would have said.")
    state = serializers.ChoiceField(WorkState.choices, source="seen.state")
    done = serializers.IntegerField(source="seen.done", help_text="Steps.")
    total = serializers.IntegerField(source="seen.of")
    code = serializers.CharField(source="seen.code", help_text="Why it failed; else empty.")
    detail = serializers.CharField(source="seen.sentence", help_text="The same in a sentence.")
    asked_at = Moment(source="seen.asked_at")
    expires_at = Moment(source="seen.expires_at", help_text="When the answer is forgotten.")


class WhatIfShown(WhatIfRow):
    result = WhatIfResult(allow_null=True, help_text="Null until it is done.")


class WhatIfField(Answer):
    field = serializers.CharField()
    title = serializers.CharField()
    meaning = serializers.CharField()
    unit = serializers.CharField(help_text="Of a number; empty where there is none.")


EXAMPLE_ASKED: dict[str, Any] = {
    "pool": "main",
    "interval": 17,
    "job": 4711,
    "field": "value",
    "value": {"kind": "linear", "slope": -9.0, "base": 100.0},
}
_BEFORE: Mapping[str, Any] = {
    "state": "awarded",
    "reason": "",
    "phase": "shared",
    "start_slot": 10,
    "end_slot": 14,
    "workers": 4,
    "parameter_servers": 1,
    "price": "3.200000",
    "worth": "90.000000",
    "floor": "0.000000",
}
ROW_EXAMPLE: dict[str, Any] = {
    "id": 12,
    "pool": "main",
    "interval": 17,
    "job": 4711,
    "field": "value",
    "said": {"kind": "linear", "slope": -1.0, "base": 100.0},
    "instead": EXAMPLE_ASKED["value"],
    "state": "done",
    "done": 4,
    "total": 4,
    "code": "",
    "detail": "",
    "asked_at": "2026-03-02T12:20:00Z",
    "expires_at": "2026-03-09T12:20:00Z",
}
EXAMPLE: dict[str, Any] = ROW_EXAMPLE | {
    "result": {
        "in_words": "J-4711 would have run in slots 8 to 11 in place of 10 to 13, paid 3.20 more, and been worth 2.00 "
        "more.",
        "whole": False,
        "jobs": [
            {
                "job": 4711,
                "tenant": "lumen",
                "asked": True,
                "before": dict(_BEFORE),
                "after": {**_BEFORE, "start_slot": 8, "end_slot": 12, "price": "6.400000", "worth": "92.000000"},
            }
        ],
        "tenants": [
            {
                "tenant": "lumen",
                "before": "86.800000",
                "after": "85.600000",
                "difference": "-1.200000",
                "promised": "0.000000",
            },
            {"tenant": None, "before": None, "after": None, "difference": "3.200000", "promised": "0.000000"},
        ],
        "prices": [{"resource": "worker", "before": "0.250000", "after": "0.400000"}],
    }
}
WAITS_EXAMPLE = ROW_EXAMPLE | {"state": "waiting", "done": 0, "result": None}
FIELD_EXAMPLE = {
    "field": "max_price",
    "title": "Pay at most",
    "meaning": "For the whole run. Nothing: no limit of its own.",
    "unit": "credits",
}
