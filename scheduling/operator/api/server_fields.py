"""What a server and its cells look like to a program, and the forms of their changes; with examples."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.models import ServerState
from scheduling.operator.servers import MOST_UNITS
from tenants.api.fields import Answer, Credits, Flag, Form, Text, Whole
from tenants.services.members import REASON_LONGEST

MOST_NAMES = 1_000  # the most names in one object of a body


class Units(serializers.DictField):
    """Resource -> units."""

    child = Whole(min_value=0, max_value=MOST_UNITS)

    def to_internal_value(self, data: Any) -> dict[str, int]:
        require_few(data)
        return dict(super().to_internal_value(data))


class UnitsByName(serializers.DictField):
    """A tenant's or a server's short name -> resource -> units."""

    child = Units()

    def to_internal_value(self, data: Any) -> dict[str, dict[str, int]]:
        require_few(data)
        return dict(super().to_internal_value(data))


def require_few(data: Any) -> None:
    if isinstance(data, dict) and len(data) > MOST_NAMES:
        raise serializers.ValidationError(f"Must have at most {MOST_NAMES} names.", "max_length")


class NewServer(Form):
    name = Text(max_length=60, help_text="Letters and digits, joined by hyphens, underscores or dots.")
    capacity = Units(help_text="Resource -> units.")
    hosts_workers = Flag(required=False, help_text="Else true.")
    hosts_ps = Flag(required=False, help_text="Parameter servers; else true.")
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class NewCapacity(Form):
    capacity = Units(help_text="Resource -> units. Resources that are not named keep theirs.")
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class CellsOfServer(Form):
    cells = UnitsByName(help_text="Tenant -> resource -> units. Who is not named has nothing there afterwards.")
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history of each owner.")


class CellsOfTenant(Form):
    cells = UnitsByName(
        help_text="Server -> resource -> units. On a server that is not named the tenant has nothing afterwards."
    )
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the tenant's history.")


class OwnerShown(Answer):
    tenant = serializers.CharField(source="slug", help_text="The owner's short name.")
    units = serializers.IntegerField()


class CapacityShown(Answer):
    resource = serializers.CharField()
    units = serializers.IntegerField()
    cells = OwnerShown(many=True)
    operator_units = serializers.IntegerField(help_text="What no cell covers.")


class ServerShown(Answer):
    name = serializers.CharField()
    state = serializers.ChoiceField(
        ServerState.choices, help_text="`draining`: delivers what is promised, and is given nothing new."
    )
    hosts_workers = serializers.BooleanField()
    hosts_ps = serializers.BooleanField()
    capacities = CapacityShown(many=True, help_text="One for each resource of the pool.")


class CellShown(Answer):
    server = serializers.CharField()
    resource = serializers.CharField()
    tenant = serializers.CharField(help_text="The owner's short name.")
    units = serializers.IntegerField()


class ServerLostShown(Answer):
    server = ServerShown()
    awards = serializers.IntegerField(help_text="That were cut short.")
    refunded = Credits(help_text="To their tenants.")
    jobs = serializers.IntegerField(help_text="That wait again, with their first arrival.")
    floors = serializers.IntegerField(help_text="Promises to waiting jobs that will be planned anew.")


class CellsChanged(Answer):
    tenant = serializers.CharField(source="tenant.slug")
    before = serializers.DictField(child=serializers.DictField(child=serializers.IntegerField()))
    after = serializers.DictField(child=serializers.DictField(child=serializers.IntegerField()))


class CellsChanges(Answer):
    results = CellsChanged(many=True, help_text="Tenants for whom something is different, by short name.")


EXAMPLE: dict[str, Any] = {
    "name": "s04",
    "state": "in_service",
    "hosts_workers": True,
    "hosts_ps": True,
    "capacities": [
        {
            "resource": "worker",
            "units": 8,
            "cells": [{"tenant": "lumen", "units": 4}, {"tenant": "quarry", "units": 3}],
            "operator_units": 1,
        }
    ],
}
REASON = "Delivered on Monday, rack 7."
NEW_EXAMPLE: dict[str, Any] = {"name": "s04", "capacity": {"worker": 8, "ps": 2}, "reason": REASON}
CAPACITY_EXAMPLE: dict[str, Any] = {"capacity": {"worker": 12}, "reason": "Four more cards."}
CELL_EXAMPLE: dict[str, Any] = {"server": "s04", "resource": "worker", "tenant": "lumen", "units": 4}
LOST_EXAMPLE: dict[str, Any] = {
    "server": EXAMPLE | {"state": "lost"},
    "awards": 2,
    "refunded": "7.250000",
    "jobs": 2,
    "floors": 1,
}
ON_SERVER_EXAMPLE: dict[str, Any] = {
    "cells": {"lumen": {"worker": 4}, "quarry": {"worker": 3}},
    "reason": "As agreed in the contract of March.",
}
OF_TENANT_EXAMPLE: dict[str, Any] = {"cells": {"s04": {"worker": 4}}, "reason": "As agreed in the contract of March."}
CHANGES_EXAMPLE: dict[str, Any] = {
    "results": [{"tenant": "lumen", "before": {"s04": {"worker": 2}}, "after": {"s04": {"worker": 4}}}]
}
