"""Add servers, and change how many units they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Sum

from scheduling.cluster import may_change_cluster, pool_lock, server_subject
from scheduling.market.decide import lanes_lock, promises_kept
from scheduling.models import Cell, Pool, ResourceKind, Server, ServerCapacity
from tenants import history
from tenants.access import Access, Refused
from tenants.scoping import scope_disabled
from tenants.services.members import row_refusal

Units = Mapping[str, int]  # resource name -> units


@dataclass(frozen=True)
class BelowCells(Refused):
    server: str
    resource: str
    asked: int
    cells: int


@transaction.atomic
def server_add(
    *,
    pool: Pool,
    name: str,
    capacity: Units,
    hosts_workers: bool = True,
    hosts_ps: bool = True,
    by: Access,
    reason: str,
    at: datetime,
) -> Server | Refused:
    if refusal := may_change_cluster(by, reason):
        return refusal
    pool_lock(pool)
    server = Server(pool=pool, name=name, hosts_workers=hosts_workers, hosts_ps=hosts_ps)
    kinds = kinds_by_name(pool)
    if refusal := row_refusal(server, "invalid_server") or units_refusal(capacity, kinds):
        return refusal
    server.save()
    ServerCapacity.objects.bulk_create(
        ServerCapacity(pool=pool, server=server, resource=kinds[resource], units=units)
        for resource, units in capacity.items()
    )
    after = {"capacity": dict(capacity), "hosts_workers": hosts_workers, "hosts_ps": hosts_ps}
    subject = server_subject(server)
    history.append(at=at, by=by, action="server_add", subject=subject, reason=reason, after=after)
    return server


@transaction.atomic
def server_capacity_change(*, server: Server, capacity: Units, by: Access, reason: str, at: datetime) -> Refused | None:
    """Give the named resources these units; the others keep theirs. It never goes below the cells on the server."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    pool_lock(server.pool)
    slot = lanes_lock(server.pool)
    kinds = kinds_by_name(server.pool)
    if refusal := units_refusal(capacity, kinds) or _below_cells(server, capacity):
        return refusal
    rows = ServerCapacity.objects.filter(server=server).values_list("resource__name", "units")
    before, after = dict(rows), dict(rows) | dict(capacity)
    if before == after:
        return None
    ServerCapacity.objects.bulk_create(
        [
            ServerCapacity(pool=server.pool, server=server, resource=kinds[resource], units=units)
            for resource, units in capacity.items()
        ],
        update_conflicts=True,
        unique_fields=["server", "resource"],
        update_fields=["units"],
    )
    if broken := promises_kept(server.pool, {server.pk}, slot):
        transaction.set_rollback(True)
        return broken
    history.append(
        at=at,
        by=by,
        action="server_capacity_change",
        subject=server_subject(server),
        reason=reason,
        before=before,
        after=after,
    )
    return None


def kinds_by_name(pool: Pool) -> dict[str, ResourceKind]:
    return {kind.name: kind for kind in ResourceKind.objects.filter(pool=pool)}


def units_refusal(units: Units, kinds: Mapping[str, ResourceKind]) -> Refused | None:
    for resource, number in units.items():
        if resource not in kinds:
            return Refused("unknown_resource", f"The pool has no resource {resource}.")
        if not 0 <= number <= MOST_UNITS:
            return Refused("invalid_units", f"{resource}: {number} is not a number of units.")
    return None


def _below_cells(server: Server, capacity: Units) -> BelowCells | None:
    with scope_disabled("a capacity must cover the cells of all owners"):
        rows = Cell.objects.filter(server=server).values_list("resource__name").annotate(Sum("units"))
        cells = dict(rows)
    for resource, units in capacity.items():
        if units < cells.get(resource, 0):
            sentence = f"Cells take {cells[resource]} of the units of {resource} on {server.name}."
            return BelowCells("below_cells", sentence, server.name, resource, units, cells[resource])
    return None


MOST_UNITS = 2**31 - 1  # the largest number of the column
