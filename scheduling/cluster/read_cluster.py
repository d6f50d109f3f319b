"""Reads of the cluster, as frozen values.

Tens of thousands of cells are read for every other page, and they seldom change. So the database returns all of them as
one JSON text, and the values made from a text are cached under that text. A change gives another text, so nothing has
to be invalidated.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from django.db import connection

from scheduling.models import Pool, ResourceKind

MOST_TEXTS = 8  # texts that each process caches, with the values made from them

_TEXT = """
SELECT json_build_object(
         'servers', (SELECT json_agg(json_build_array(id, name, state, hosts_workers, hosts_ps) ORDER BY id)
                       FROM scheduling_server WHERE pool_id = %(pool)s),
         'units', (SELECT json_agg(json_build_array(server_id, resource_id, units) ORDER BY server_id, resource_id)
                     FROM scheduling_servercapacity WHERE pool_id = %(pool)s),
         'cells', (SELECT json_agg(json_build_array(c.server_id, c.resource_id, c.tenant_id, c.units) ORDER BY c.id)
                     FROM scheduling_cell c JOIN scheduling_server s ON s.id = c.server_id
                    WHERE s.pool_id = %(pool)s),
         'owners', (SELECT json_agg(json_build_array(id, slug, name) ORDER BY id) FROM tenants_tenant
                     WHERE id IN (SELECT c.tenant_id FROM scheduling_cell c JOIN scheduling_server s
                                      ON s.id = c.server_id WHERE s.pool_id = %(pool)s)))::text
"""


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
    """Return every server of the pool with its cells and their owners. Owners see each other here: who owns the cluster
    is no secret in a coalition (what runs on it is)."""
    kinds = tuple(ResourceKind.objects.filter(pool=pool))
    with connection.cursor() as cursor:
        cursor.execute(_TEXT, {"pool": pool.pk})
        (text,) = cursor.fetchone()
    totals, servers = _cluster_of(text, tuple((kind.pk, kind.name, kind.label) for kind in kinds))
    return PoolOverview(pool, totals, servers, kinds)


Kind = tuple[int, str, str]  # id, name, label


@lru_cache(maxsize=MOST_TEXTS)
def _cluster_of(text: str, kinds: tuple[Kind, ...]) -> tuple[tuple[ResourceTotal, ...], tuple[ServerView, ...]]:
    rows = {name: values or () for name, values in json.loads(text).items()}
    units = {(server, resource): number for server, resource, number in rows["units"]}
    owners = {tenant_id: (name, slug) for tenant_id, slug, name in rows["owners"]}
    cells: defaultdict[tuple[int, int], list[OwnedUnits]] = defaultdict(list)
    for server, resource, tenant_id, number in sorted(rows["cells"], key=lambda cell: owners[cell[2]]):
        name, slug = owners[tenant_id]
        cells[server, resource].append(OwnedUnits(tenant_id, slug, name, number))

    def capacities(server: int) -> tuple[CapacityView, ...]:
        return tuple(
            CapacityView(kind, units.get((server, number), 0), tuple(cells.get((server, number), ())))
            for number, kind, _ in kinds
        )

    servers = tuple(
        ServerView(name, state, hosts_workers, hosts_ps, capacities(number), number)
        for number, name, state, hosts_workers, hosts_ps in rows["servers"]
    )
    totals = tuple(_total(kind, [server.capacities[index] for server in servers]) for index, kind in enumerate(kinds))
    return totals, servers


def _total(kind: Kind, capacities: list[CapacityView]) -> ResourceTotal:
    by_tenant: defaultdict[int, int] = defaultdict(int)
    for capacity in capacities:
        for cell in capacity.cells:
            by_tenant[cell.tenant_id] += cell.units
    units = sum(capacity.units for capacity in capacities)
    operator_units = sum(capacity.operator_units for capacity in capacities)
    number, name, label = kind
    return ResourceTotal(name, label, units, operator_units, MappingProxyType(dict(by_tenant)), number)
