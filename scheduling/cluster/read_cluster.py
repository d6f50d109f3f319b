"""Reads of the cluster, as frozen values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.models import Cell, Pool, ResourceKind, Server, ServerCapacity
from tenants.scoping import scope_disabled


@dataclass(frozen=True)
class OwnedUnits:
    tenant_id: int
    slug: str
    name: str
    units: int


@dataclass(frozen=True)
class CapacityView:
    resource: str
    units: int
    cells: tuple[OwnedUnits, ...]  # by the owner's name

    @property
    def operator_units(self) -> int:
        return self.units - sum(cell.units for cell in self.cells)

    def units_of(self, tenant_id: int) -> int:
        return sum(cell.units for cell in self.cells if cell.tenant_id == tenant_id)


@dataclass(frozen=True)
class ServerView:
    name: str
    state: str
    hosts_workers: bool
    hosts_ps: bool
    capacities: tuple[CapacityView, ...]  # one per resource of the pool, in its order; 0 units where it has none
    id: int


@dataclass(frozen=True)
class ResourceTotal:
    resource: str
    label: str
    units: int
    operator_units: int
    units_by_tenant: Mapping[int, int]  # tenant id -> units; owners only
    id: int


@dataclass(frozen=True)
class PoolOverview:
    pool: Pool
    totals: tuple[ResourceTotal, ...]
    servers: tuple[ServerView, ...]
    kinds: tuple[ResourceKind, ...]  # in the order of the totals


def pool_list() -> list[Pool]:
    return list(Pool.objects.all())


def pool_overview(pool: Pool) -> PoolOverview:
    """Every server with whose cells it holds. Owners see each other here: who owns the cluster is no secret
    in a coalition (what runs on it is)."""
    kinds = list(ResourceKind.objects.filter(pool=pool))
    rows = ServerCapacity.objects.filter(pool=pool).values_list("server_id", "resource_id", "units")
    units = {(server, kind): number for server, kind, number in rows}
    cells = _cells_by_place(pool)

    def capacities(server: Server) -> tuple[CapacityView, ...]:
        places = [(kind, (server.pk, kind.pk)) for kind in kinds]
        return tuple(CapacityView(kind.name, units.get(at, 0), tuple(cells.get(at, ()))) for kind, at in places)

    servers = tuple(
        ServerView(server.name, server.state, server.hosts_workers, server.hosts_ps, capacities(server), server.pk)
        for server in Server.objects.filter(pool=pool)
    )
    totals = tuple(_total(kind, [server.capacities[index] for server in servers]) for index, kind in enumerate(kinds))
    return PoolOverview(pool, totals, servers, tuple(kinds))


def _cells_by_place(pool: Pool) -> dict[tuple[int, int], list[OwnedUnits]]:
    """(server id, resource id) -> the cells there, by the owner's name."""
    cells: defaultdict[tuple[int, int], list[OwnedUnits]] = defaultdict(list)
    with scope_disabled("whose cells a server holds is shown to every owner of the pool"):
        rows = Cell.objects.filter(server__pool=pool).values_list(
            "tenant__name", "tenant__slug", "server_id", "resource_id", "tenant_id", "units"
        )
        for name, slug, server, resource, tenant, units in sorted(rows):
            cells[server, resource].append(OwnedUnits(tenant, slug, name, units))
    return cells


def _total(kind: ResourceKind, capacities: list[CapacityView]) -> ResourceTotal:
    by_tenant: defaultdict[int, int] = defaultdict(int)
    for capacity in capacities:
        for cell in capacity.cells:
            by_tenant[cell.tenant_id] += cell.units
    units = sum(capacity.units for capacity in capacities)
    operator_units = sum(capacity.operator_units for capacity in capacities)
    return ResourceTotal(kind.name, kind.label, units, operator_units, dict(by_tenant), kind.pk)
