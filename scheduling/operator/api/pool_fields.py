"""What a pool looks like to a program, and the form of a new one; with examples."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.market.view import AmountSteps, amount_text
from scheduling.models import AlonePlan
from tenants.api.fields import Answer, Credits, Flag, Form, Moment, Numbers, Several, Text, Whole
from tenants.services.members import REASON_LONGEST

MOST_RESOURCES = 100
MOST = 2**31 - 1  # the largest number that the columns hold
AMOUNT = r"^[0-9]{1,9}(\.[0-9]{1,6})?$"
STATES = ("open", "held", "draining")


class UsePrices(serializers.DictField):
    """Resource -> credits, as everywhere in decimal texts."""

    child = Credits()

    def to_internal_value(self, data: Any) -> dict[str, int]:
        if isinstance(data, dict) and len(data) > MOST_RESOURCES:
            raise serializers.ValidationError(f"Must name at most {MOST_RESOURCES} resources.", "max_length")
        return dict(super().to_internal_value(data))


@extend_schema_field({"type": "string", "pattern": AMOUNT, "examples": ["0.25"], "description": "An exact decimal."})
class Amount(serializers.Field[Any, Any, Any, Any]):
    """Of a resource: a decimal text, for a step is exact."""

    default_error_messages = {"invalid": 'Write an amount as a text, "0.25", with up to six digits after the point.'}

    def to_internal_value(self, data: Any) -> Decimal:
        if not isinstance(data, str) or not re.fullmatch(AMOUNT, data):
            self.fail("invalid")
        return Decimal(data)

    def to_representation(self, value: Decimal) -> str:
        return amount_text(value)


class NewSteps(Form):
    least = Amount(help_text="The least that one worker or parameter server takes, if it takes any.")
    step = Amount(help_text="Between the amounts that it may take; the least is some of them.")


class StepsOfResources(serializers.DictField):
    """Resource -> its steps."""

    child = NewSteps()

    def to_internal_value(self, data: Any) -> dict[str, AmountSteps]:
        if isinstance(data, dict) and len(data) > MOST_RESOURCES:
            raise serializers.ValidationError(f"Must name at most {MOST_RESOURCES} resources.", "max_length")
        return {name: AmountSteps(**each) for name, each in super().to_internal_value(data).items()}


class Reason(Form):
    """The body of a change that needs nothing but its reason."""

    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class NewStepsOfResources(Form):
    steps = StepsOfResources(help_text="Resource -> its least amount and step; what is not named keeps its own.")
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class NewServersReturn(Form):
    servers_return = Flag(help_text="Whether servers that the engine lost are in service again by themselves.")
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class NewResource(Form):
    name = Text(max_length=40, help_text="As specifications and scenario files say it.")
    label = Text(  # type: ignore[assignment]  # the framework takes declared fields off the class
        max_length=60, help_text="What a sentence calls one."
    )
    least = Amount(
        required=False, help_text="The least that one worker or parameter server takes, if it takes any; 1 if left out."
    )
    step = Amount(required=False, help_text="Between the amounts that it may take; 1 if left out.")


class NewPool(Form):
    slug = Text(max_length=40, help_text="The short name in addresses; it never changes.")
    name = Text(max_length=120)
    slot_seconds = Whole(min_value=1, max_value=MOST)
    clock_first = Whole(min_value=1, max_value=MOST, help_text="Slots of the first interval; each next one doubles.")
    clock_cap = Whole(min_value=1, max_value=MOST, help_text="Slots of the longest interval.")
    clock_restart = Flag(help_text="Whether the clock begins anew when nothing waits.")
    batch_policy = Numbers(
        help_text="By its name and fields, as in a scenario file. One that decides single slots makes the pool elastic."
    )
    instant_policy = Numbers(required=False, allow_null=True, help_text="Left out: the instant lane is closed.")
    resources = Several(child=NewResource(), min_length=1, max_length=MOST_RESOURCES)
    epoch_at = Moment(help_text="When slot 0 begins.")
    outage_grace_seconds = Whole(
        required=False, allow_null=True, min_value=0, max_value=MOST, help_text="Null: what was sold was delivered."
    )
    instant_share_percent = Whole(
        required=False, min_value=1, max_value=100, help_text="Of the pool, what one instant job may take at once."
    )
    instant_cooling_slots = Whole(
        required=False, min_value=0, max_value=MOST, help_text="Before a refused job is looked at again."
    )
    engine = Text(
        required=False, max_length=20, help_text="Who runs what is awarded: `local`, or a name of the operator's file."
    )
    use_prices = UsePrices(
        required=False, help_text="Of an elastic pool: resource -> credits for a unit and slot. Not named: free."
    )
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class ResourceShown(Answer):
    name = serializers.CharField()
    label = serializers.CharField(help_text="What a sentence calls one.")  # type: ignore[assignment]
    least = Amount(help_text="The least that one worker or parameter server takes, if it takes any.")
    step = Amount(help_text="Between the amounts that it may take.")


class PoolShown(Answer):
    slug = serializers.CharField(source="pool.slug", help_text="As it stands in addresses.")
    name = serializers.CharField(source="pool.name")
    state = serializers.ChoiceField(
        STATES, help_text="`held`: nothing new is decided; `draining`: nothing new is accepted either."
    )
    slot_seconds = serializers.IntegerField(source="pool.slot_seconds")
    epoch_at = Moment(source="pool.epoch_at", help_text="When slot 0 began.")
    slot = serializers.IntegerField(help_text="The running one.")
    frontier_slot = serializers.IntegerField(source="frontier", help_text="Plans reach up to this slot.")
    settled_slot = serializers.IntegerField(help_text="The last slot that is paid; -1 before the first.")
    interval_closes_at = Moment(source="closes_at", help_text="The next interval is decided then at the earliest.")
    elastic = serializers.BooleanField(
        source="pool.is_elastic", help_text="Whether jobs are sized anew in every slot, and pay for what they use."
    )
    resources = ResourceShown(many=True, help_text="What is counted, in the pool's order.")


class PoolWithSettings(PoolShown):
    clock_first = serializers.IntegerField(source="pool.clock_first", help_text="Slots of the first interval.")
    clock_cap = serializers.IntegerField(source="pool.clock_cap", help_text="Slots of the longest interval.")
    clock_restart = serializers.BooleanField(source="pool.clock_restart")
    batch_policy = Numbers(source="pool.batch_policy")
    instant_policy = Numbers(source="pool.instant_policy", allow_null=True, help_text="Null: the lane is closed.")
    cancellation_keep_percent = serializers.IntegerField(
        source="pool.cancellation_keep_percent", help_text="Of what is not settled, what the owners keep."
    )
    outage_grace_seconds = serializers.IntegerField(source="pool.outage_grace_seconds", allow_null=True)
    instant_share_percent = serializers.IntegerField(source="pool.instant_share_percent")
    instant_cooling_slots = serializers.IntegerField(source="pool.instant_cooling_slots")
    engine = serializers.CharField(source="pool.engine", help_text="Who runs what is awarded.")
    servers_return = serializers.BooleanField(
        source="pool.servers_return",
        help_text="Whether servers that the engine lost are in service again by themselves, once they are up.",
    )
    usual_plan = serializers.ChoiceField(
        AlonePlan.choices,
        source="pool.usual_plan",
        help_text="How jobs are planned at home for tenants that said nothing about it: places are given once, or "
        "planned anew at each interval.",
    )


EXAMPLE: dict[str, Any] = {
    "slug": "main",
    "name": "Main pool",
    "state": "open",
    "slot_seconds": 10,
    "epoch_at": "2026-03-02T12:00:00Z",
    "slot": 119,
    "frontier_slot": 120,
    "settled_slot": 118,
    "interval_closes_at": "2026-03-02T12:20:00Z",
    "elastic": False,
    "resources": [
        {"name": "worker", "label": "worker", "least": "1", "step": "1"},
        {"name": "ps", "label": "parameter server", "least": "1", "step": "1"},
    ],
}
BOUNDS = {"floor": 0.05, "ceiling": {"worker": 2.0, "ps": 2.0}}
SETTINGS: dict[str, Any] = {
    "clock_first": 1,
    "clock_cap": 8,
    "clock_restart": True,
    "batch_policy": {"name": "astraea", "mode": "guarantee"},
    "instant_policy": {"name": "oasis", "worker_price": BOUNDS, "ps_price": BOUNDS},
    "outage_grace_seconds": 60,
    "instant_share_percent": 50,
    "instant_cooling_slots": 12,
    "engine": "local",
}
WHOLE_EXAMPLE = EXAMPLE | SETTINGS | {"cancellation_keep_percent": 0, "servers_return": False, "usual_plan": "renew"}
NEW_EXAMPLE: dict[str, Any] = SETTINGS | {
    "slug": "main",
    "name": "Main pool",
    "slot_seconds": 10,
    "resources": EXAMPLE["resources"],
    "epoch_at": "2026-03-02T12:00:00Z",
    "reason": "The cluster opens.",
}
STEPS_EXAMPLE = {"steps": {"memory": {"least": "0.5", "step": "0.25"}}, "reason": "Memory is dealt out in quarters."}
SERVERS_RETURN_EXAMPLE = {"servers_return": True, "reason": "Nobody is here at night."}
REASON_EXAMPLE = {"reason": "The power supply is changed on Sunday."}
