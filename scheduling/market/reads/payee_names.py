"""The payees of a payment by name, with the colour that each owner has on every page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Q

from tenants.models import Tenant

OPERATOR_ID = 0
COLOURS = 8  # colour 1 is always the reader's own tenant
OTHERS = "Others"


@dataclass(frozen=True)
class NamedPayee:
    """A payee. `colour` is 1 to 8, or 0 for the operator, which is drawn striped. Amounts are micro-credits."""

    name: str
    colour: int
    amount: int
    settled: int
    x: float = 0.0  # per cent of the whole payment, as `width`
    width: float = 0.0

    @property
    def held(self) -> int:
        return self.amount - self.settled


def payees(own_id: int, amounts: Mapping[int, int], settled: Mapping[int, int] | None = None) -> tuple[NamedPayee, ...]:
    """Return the payees in the usual order of owners, the operator last. Takes one query."""
    ids = sorted((owner for owner in amounts if amounts[owner]), key=lambda owner: (owner == OPERATOR_ID, owner))
    names = _names(own_id, ids)
    total, before, parts = sum(amounts.values()), 0, []
    for owner in ids:
        name, colour = names[owner]
        span = (100 * before / total, 100 * amounts[owner] / total)
        parts.append(NamedPayee(name, colour, amounts[owner], (settled or {}).get(owner, 0), *span))
        before += amounts[owner]
    return tuple(parts)


def _names(own_id: int, ids: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Map each owner to its name and colour. A tenant has the same colour everywhere as long as there are no more
    tenants than colours."""
    wanted = set(ids)
    first = Tenant.objects.order_by("pk").values("pk")[: COLOURS + 1]
    rows = list(Tenant.objects.filter(Q(pk__in=wanted) | Q(pk__in=first)).order_by("pk").values_list("pk", "name"))
    if len(rows) > COLOURS:
        rows = [(pk, name) for pk, name in rows if pk in wanted]
    others = [pk for pk, _ in rows if pk != own_id]
    colours = {own_id: 1} | {pk: 2 + place % (COLOURS - 1) for place, pk in enumerate(others)}
    return {OPERATOR_ID: ("Operator", 0)} | {pk: (name, colours[pk]) for pk, name in rows}
