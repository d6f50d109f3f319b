"""The form of a server's cells. While it is filled in, it shows the rule that cells never exceed the capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms

from scheduling.cluster import CapacityView
from scheduling.operator.pages.changes import PageChange, WholeChangeForm
from scheduling.operator.servers import MOST_UNITS
from tenants.access import Refused
from tenants.form_fields import WholeField
from tenants.models import Tenant


@dataclass(frozen=True)
class Sum:
    """The units of one resource on the server. `cells` and `rest` are as they would be; `over` is how many units are
    missing."""

    resource: str
    capacity: int
    cells_before: int
    cells: int

    @property
    def rest_before(self) -> int:
        return self.capacity - self.cells_before

    @property
    def rest(self) -> int:
        return self.capacity - self.cells

    @property
    def over(self) -> int:
        return max(-self.rest, 0)


class CellsForm(WholeChangeForm):
    """The form has a field `cells-TENANT-RESOURCE` for each owner and resource; an empty one means none."""

    changed_meanwhile = "The cells were changed while you looked at them. Look again, and send it again."

    def __init__(
        self, places: Sequence[CapacityView], labels: Mapping[str, str], owners: Sequence[Tenant], *args: Any, **kw: Any
    ) -> None:
        self.places, self.owners, self.labels = places, owners, labels
        self.wanted: dict[str, int] = {}  # by field, also values that cannot be
        super().__init__(version_of(places), *args, **kw)
        for owner in owners:
            for place in places:
                self.fields[field_of(owner, place.resource)] = WholeField(
                    label=f"{labels[place.resource].capitalize()}s of {owner.name}",
                    min_value=0,
                    max_value=MOST_UNITS,
                    required=False,
                    initial=place.units_of(owner.pk),
                )
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        names = [field_of(owner, place.resource) for owner in self.owners for place in self.places]
        # A field that the browser did not send stays as it is.
        self.wanted = {name: cleaned[name] or 0 for name in names if name in cleaned and name in self.data}
        for place, total in zip(self.places, self.sums(), strict=True):
            if total.over:
                sentence = (
                    f"{total.over} more than the {total.capacity} units there are: the cells would take {total.cells}."
                )
                for name in self._fields_where(place, grown=True):
                    self.add_error(name, sentence)
        return cleaned

    def complain(self, refused: Refused) -> None:
        """Show a refusal that names a resource at the fields in which its units were changed."""
        place = next((place for place in self.places if place.resource == getattr(refused, "resource", "")), None)
        if place is None:
            super().complain(refused)
            return
        grown = refused.code == "above_capacity"
        for name in self._fields_where(place, grown=grown):
            self.add_error(name, refused.sentence)

    def cells(self) -> dict[str, dict[str, int]]:
        """Return tenant slug -> resource -> units, as the service takes them."""
        return {
            owner.slug: {place.resource: self._wanted(owner, place) for place in self.places} for owner in self.owners
        }

    def sums(self) -> list[Sum]:
        """Return one sum for each resource. A field with an error counts with its present value."""
        return [
            Sum(
                self.labels[place.resource],
                place.units,
                place.units - place.operator_units,
                sum(self._wanted(owner, place) for owner in self.owners),
            )
            for place in self.places
        ]

    def moves(self) -> list[PageChange]:
        moves_made = []
        for owner in self.owners:
            for place in self.places:
                before, after = place.units_of(owner.pk), self._wanted(owner, place)
                if before != after:
                    moves_made.append(
                        PageChange(f"{owner.name}: {self.labels[place.resource]}s", str(before), str(after))
                    )
        return moves_made

    @property
    def rows(self) -> list[tuple[Tenant, list[forms.BoundField]]]:
        return [(owner, [self[field_of(owner, place.resource)] for place in self.places]) for owner in self.owners]

    def _wanted(self, owner: Tenant, place: CapacityView) -> int:
        return self.wanted.get(field_of(owner, place.resource), place.units_of(owner.pk))

    def _fields_where(self, place: CapacityView, *, grown: bool) -> list[str]:
        """Return the fields of the resource that were raised, or lowered; all of them if none was."""
        owners = [
            owner
            for owner in self.owners
            if (self._wanted(owner, place) > place.units_of(owner.pk)) == grown
            and self._wanted(owner, place) != place.units_of(owner.pk)
        ]
        return [field_of(owner, place.resource) for owner in owners or self.owners]


def field_of(owner: Tenant, resource: str) -> str:
    return f"cells-{owner.pk}-{resource}"


def version_of(places: Sequence[CapacityView]) -> str:
    return " ".join(f"{cell.slug}.{place.resource}.{cell.units}" for place in places for cell in place.cells)
