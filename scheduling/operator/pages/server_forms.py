"""Forms about servers: to add one, and to change its capacity or state, or declare it lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django import forms

from scheduling.cluster import CapacityView
from scheduling.models import ResourceKind, Server, ServerState
from scheduling.operator.pages.changes import ChangeForm, PageChange, WholeChangeForm
from scheduling.operator.servers import MOST_UNITS
from tenants.access import Refused
from tenants.form_fields import WholeField

DRAIN, RETURN = "drain", "return"
POSSIBLE = MappingProxyType(
    {
        ServerState.IN_SERVICE: (
            (DRAIN, "Drain it", "What is promised there is delivered; nothing new is put on it."),
        ),
        ServerState.DRAINING: ((RETURN, "Return it to service", "The next decision of either lane finds it again."),),
        ServerState.LOST: ((RETURN, "Return it to service", "With the units and cells that it had."),),
    }
)
BECOMES = MappingProxyType({DRAIN: ServerState.DRAINING, RETURN: ServerState.IN_SERVICE})


def units_field(kind_label: str, **fields: Any) -> WholeField:
    return WholeField(label=kind_label.capitalize(), min_value=0, max_value=MOST_UNITS, **fields)


class ServerAddForm(ChangeForm):
    """A new server, with a field `units-NAME` for each resource of the pool."""

    name = forms.CharField(max_length=60, help_text="Letters and digits, joined by hyphens, underscores or dots.")
    hosts_workers = forms.BooleanField(required=False, initial=True, label="Hosts workers")
    hosts_ps = forms.BooleanField(required=False, initial=True, label="Hosts parameter servers")
    fields_of = MappingProxyType({"invalid_server": "name"})

    def __init__(self, kinds: Sequence[ResourceKind], *args: Any, **kwargs: Any) -> None:
        self.kinds = kinds
        super().__init__(*args, **kwargs)
        for kind in kinds:
            self.fields[f"units-{kind.name}"] = units_field(f"{kind.label}s", initial=0)
        self.order_fields(["name", *(f"units-{kind.name}" for kind in kinds), "hosts_workers", "hosts_ps", "reason"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not (cleaned.get("hosts_workers") or cleaned.get("hosts_ps")):
            self.add_error("hosts_workers", "A server hosts workers, parameter servers, or both.")
        return cleaned

    def capacity(self) -> dict[str, int]:
        fields = self.cleaned_data
        return {kind.name: fields[f"units-{kind.name}"] for kind in self.kinds if f"units-{kind.name}" in fields}

    def moves(self) -> list[PageChange]:
        if not self.is_bound or not self.cleaned_data.get("name"):
            return []
        units = ", ".join(f"{number} {name}" for name, number in self.capacity().items())
        return [PageChange(f"Server {self.cleaned_data['name']}", "not there", f"in service with {units}")]

    @property
    def units(self) -> list[forms.BoundField]:
        return [self[f"units-{kind.name}"] for kind in self.kinds]


class CapacityForm(WholeChangeForm):
    """The capacity of a server, with a field `units-NAME` for each resource. It cannot go below the cells on the
    server."""

    def __init__(self, places: Sequence[CapacityView], labels: Mapping[str, str], *args: Any, **kwargs: Any) -> None:
        self.places = places
        self.wanted: dict[str, int | None] = {}  # also values that cannot be
        version = " ".join(f"{place.resource}.{place.units}" for place in places)
        super().__init__(version, *args, **kwargs)
        for place in places:
            field = units_field(f"{labels[place.resource]}s", initial=place.units)
            cells = place.units - place.operator_units
            field.help_text = f"{cells} of them are cells, {place.operator_units} the operator's."
            self.fields[f"units-{place.resource}"] = field
        self.order_fields([*(f"units-{place.resource}" for place in places), "reason"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for place in self.places:
            wanted, cells = cleaned.get(f"units-{place.resource}"), place.units - place.operator_units
            self.wanted[place.resource] = wanted
            if wanted is not None and wanted < cells:
                self.add_error(f"units-{place.resource}", f"Cells take {cells} of them: change the cells first.")
        return cleaned

    def complain(self, refused: Refused) -> None:
        """Show a refusal that names a resource at the field of the resource."""
        name = f"units-{getattr(refused, 'resource', '')}"
        if name in self.fields:
            self.add_error(name, refused.sentence)
        else:
            super().complain(refused)

    def capacity(self) -> dict[str, int]:
        return {place.resource: self.cleaned_data[f"units-{place.resource}"] for place in self.places}

    def moves(self) -> list[PageChange]:
        moves_made = []
        for place in self.places:
            wanted = self.wanted.get(place.resource)
            if wanted is not None and wanted != place.units:
                rest = wanted - (place.units - place.operator_units)
                moves_made.append(PageChange(f"{place.resource}: units", str(place.units), str(wanted)))
                moves_made.append(
                    PageChange(f"{place.resource}: left for the operator", str(place.operator_units), str(rest))
                )
        return moves_made

    @property
    def units(self) -> list[forms.BoundField]:
        return [self[f"units-{place.resource}"] for place in self.places]


class StateForm(ChangeForm):
    action = forms.ChoiceField()
    fields_of = MappingProxyType({"wrong_state": "action"})

    def __init__(self, server: Server, *args: Any, **kwargs: Any) -> None:
        self.server = server
        super().__init__(*args, **kwargs)
        self.options = POSSIBLE[ServerState(server.state)]
        self.fields["action"] = forms.ChoiceField(
            choices=[(code, title) for code, title, _ in self.options],
            error_messages={"invalid_choice": f"{server.name} is {server.get_state_display().lower()} by now."},
        )

    def moves(self) -> list[PageChange]:
        after = BECOMES[self.options[0][0]]
        return [PageChange(f"{self.server.name} is", self.server.get_state_display().lower(), after.label.lower())]


@dataclass(frozen=True)
class Stakes:
    """What a loss would refund, in words."""

    awards: int
    refunded: str
    jobs: int
    floors: int


class LoseForm(ChangeForm):
    """The declaration of a loss. The name has to be typed, because nothing undoes it: refunds stay refunded."""

    name = forms.CharField(max_length=60, label="Its name, to be sure")

    def __init__(self, server: Server, stakes: Stakes, *args: Any, **kwargs: Any) -> None:
        self.server, self.stakes = server, stakes
        super().__init__(*args, **kwargs)

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if name != self.server.name:
            raise forms.ValidationError(f"This is {self.server.name}. Nothing was declared.")
        return name

    def clean(self) -> dict[str, Any]:
        if self.server.state == ServerState.LOST:
            self.add_error(None, f"{self.server.name} is lost already.")
        return self.cleaned_data

    def moves(self) -> list[PageChange]:
        stakes = self.stakes
        return [
            PageChange(f"{self.server.name} is", self.server.get_state_display().lower(), "lost"),
            PageChange("Refunded to tenants", "0.00", stakes.refunded),
            PageChange("Awards cut short", "0", str(stakes.awards)),
            PageChange("Jobs that wait again", "0", str(stakes.jobs)),
            PageChange("Places at home planned again", "0", str(stakes.floors)),
        ]
