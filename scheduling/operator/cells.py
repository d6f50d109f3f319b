"""Change which units belong to whom: every cell on one server, or every cell of one tenant in a pool.

Cells are read when an interval is decided, so a change takes effect at the next interval that is not decided yet. It
never goes below what is awarded, or reserved by a floor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from scheduling.cluster import may_change_cluster, pool_lock
from scheduling.market.decide import lanes_lock, promises_kept
from scheduling.models import Cell, Pool, ResourceKind, Server, ServerCapacity
from scheduling.operator.servers import Units, kinds_by_name, units_refusal
from tenants import history
from tenants.access import Access, Refused
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tenants.services.members import unknown_tenant

_WHY = "an operator's change moves cells of several tenants"


class CellPlace(NamedTuple):
    server_id: int
    resource_id: int
    tenant_id: int


@dataclass(frozen=True)
class AboveCapacity(Refused):
    server: str
    resource: str
    asked: int  # wanted by all cells there together
    capacity: int


@dataclass(frozen=True)
class CellsChange:
    """The changed cells of one tenant: server -> resource -> units."""

    tenant: Tenant
    before: dict[str, dict[str, int]]
    after: dict[str, dict[str, int]]


@transaction.atomic
def cells_change_on_server(
    *, server: Server, cells: Mapping[str, Units], by: Access, reason: str, at: datetime
) -> list[CellsChange] | Refused:
    """Replace the cells on a server. `cells` maps tenant slug -> resource -> units. Tenants that are not named have
    nothing on the server afterwards."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    tenants = {tenant.slug: tenant for tenant in Tenant.objects.filter(slug__in=cells)}
    if unknown := [slug for slug in cells if slug not in tenants]:
        return unknown_tenant(unknown[0])
    wanted = [(server, tenants[slug], units) for slug, units in cells.items()]
    with scope_disabled(_WHY):
        standing = Cell.objects.filter(server=server)
        return _replace(server.pool, standing, wanted, by=by, reason=reason, at=at)


@transaction.atomic
def cells_change_of_tenant(
    *, pool: Pool, tenant: Tenant, cells: Mapping[str, Units], by: Access, reason: str, at: datetime
) -> list[CellsChange] | Refused:
    """Replace the cells of a tenant. `cells` maps server name -> resource -> units. On servers that are not named the
    tenant has nothing afterwards."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    servers = {server.name: server for server in Server.objects.filter(pool=pool, name__in=cells)}
    if unknown := [name for name in cells if name not in servers]:
        return Refused("unknown_server", f"The pool has no server {unknown[0]}.")
    wanted = [(servers[name], tenant, units) for name, units in cells.items()]
    with scope_disabled(_WHY):
        standing = Cell.objects.filter(tenant=tenant, server__pool=pool)
        return _replace(pool, standing, wanted, by=by, reason=reason, at=at)


def _replace(
    pool: Pool,
    standing: QuerySet[Cell],
    wanted: list[tuple[Server, Tenant, Units]],
    *,
    by: Access,
    reason: str,
    at: datetime,
) -> list[CellsChange] | Refused:
    pool_lock(pool)
    slot = lanes_lock(pool)
    kinds = kinds_by_name(pool)
    for _, _, units in wanted:
        if refusal := units_refusal(units, kinds):
            return refusal
    before = {CellPlace(row.server_id, row.resource_id, row.tenant_id): row.units for row in standing}
    after = {
        CellPlace(server.pk, kinds[resource].pk, tenant.pk): number
        for server, tenant, units in wanted
        for resource, number in units.items()
        if number > 0
    }
    if refusal := _above_capacity(before, after):
        return refusal
    _write(standing, before, after)
    if broken := promises_kept(pool, {place.server_id for place in before.keys() | after.keys()}, slot):
        transaction.set_rollback(True)
        return broken
    changes = _changes(before, after)
    for change in changes:
        _remember(pool, change, by=by, reason=reason, at=at)
    return changes


def _above_capacity(before: Mapping[CellPlace, int], after: Mapping[CellPlace, int]) -> AboveCapacity | None:
    """Return a refusal for the first server and resource where the cells that stay and the new ones exceed the
    capacity."""
    units_wanted: defaultdict[tuple[int, int], int] = defaultdict(int)
    for server_id, resource_id, _ in after:
        units_wanted[server_id, resource_id] = 0
    touched = Cell.objects.filter(server__in={server_id for server_id, _ in units_wanted})
    everywhere = {CellPlace(row.server_id, row.resource_id, row.tenant_id): row.units for row in touched}
    staying = {place: units for place, units in everywhere.items() if place not in before}
    for (server_id, resource_id, _), units in [*staying.items(), *after.items()]:
        units_wanted[server_id, resource_id] += units
    capacities = {
        (row.server_id, row.resource_id): row.units
        for row in ServerCapacity.objects.filter(server__in={server_id for server_id, _ in units_wanted})
    }
    for place, units in units_wanted.items():
        if units > capacities.get(place, 0):
            return _refusal(*place, total=units, capacity=capacities.get(place, 0))
    return None


def _refusal(server_id: int, resource_id: int, *, total: int, capacity: int) -> AboveCapacity:
    server, resource = Server.objects.get(pk=server_id).name, ResourceKind.objects.get(pk=resource_id).name
    sentence = f"{server} has {capacity} units of {resource}; the cells would take {total}."
    return AboveCapacity("above_capacity", sentence, server, resource, total, capacity)


def _write(standing: QuerySet[Cell], before: Mapping[CellPlace, int], after: Mapping[CellPlace, int]) -> None:
    for place, units in before.items():
        rows = standing.filter(**place._asdict())
        if place not in after:
            rows.delete()
        elif after[place] != units:
            rows.update(units=after[place])
    Cell.objects.bulk_create(
        Cell(**place._asdict(), units=units) for place, units in after.items() if place not in before
    )


def _changes(before: Mapping[CellPlace, int], after: Mapping[CellPlace, int]) -> list[CellsChange]:
    """Return the changes per tenant, by slug, for tenants whose cells differ."""
    places = before.keys() | after.keys()
    servers = Server.objects.in_bulk({place.server_id for place in places})
    kinds = ResourceKind.objects.in_bulk({place.resource_id for place in places})
    moved = {place.tenant_id for place in places if before.get(place) != after.get(place)}

    def of(tenant: Tenant, cells: Mapping[CellPlace, int]) -> dict[str, dict[str, int]]:
        units_by_owner: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for place, units in sorted(cells.items()):
            if place.tenant_id == tenant.pk:
                units_by_owner[servers[place.server_id].name][kinds[place.resource_id].name] = units
        return dict(units_by_owner)

    tenants = Tenant.objects.filter(pk__in=moved).order_by("slug")
    return [CellsChange(tenant, of(tenant, before), of(tenant, after)) for tenant in tenants]


def _remember(pool: Pool, change: CellsChange, *, by: Access, reason: str, at: datetime) -> None:
    """Write one line of the history per tenant, under its name, so that each owner finds every change to its cells."""
    history.append(
        at=at,
        by=by,
        tenant=change.tenant,
        action="cells_change",
        subject=f"cells of {change.tenant.slug} in pool {pool.slug}",
        reason=reason,
        before=change.before,
        after=change.after,
    )
