"""A pool as the core sees it: the cluster, and which row stands behind each index.

Tenants and servers come in order of their ids and carry their ids as names: a stored interval must still say whose
it was when somebody was renamed. A server that is lost has no units and no cells. One that is draining keeps both,
for what is promised there is delivered, but hosts nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scheduling.core.types import Cluster, FloatArray, Tenant, read_only
from scheduling.models import Cell, Pool, ResourceKind, Server, ServerCapacity, ServerState, TenantPolicy, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from tenants.ledger.postings import MICRO
from tenants.scoping import scope_disabled

OPERATOR_ID = 0  # in place of a tenant's id, wherever owners are listed


@dataclass(frozen=True, eq=False)
class PoolFrame:
    """`cluster` is the whole pool, home and operator parts together."""

    pool: Pool
    cluster: Cluster
    tenant_ids: tuple[int, ...]
    server_ids: tuple[int, ...]
    resource_ids: tuple[int, ...]
    cells: FloatArray  # (resources, tenants, servers) as in the cluster
    lost: frozenset[int]  # indexes of servers

    @cached_property
    def tenant_index(self) -> Mapping[int, int]:
        return {tenant_id: index for index, tenant_id in enumerate(self.tenant_ids)}

    @cached_property
    def server_index(self) -> Mapping[int, int]:
        return {server_id: index for index, server_id in enumerate(self.server_ids)}

    @cached_property
    def resource_index(self) -> Mapping[int, int]:
        return {resource_id: index for index, resource_id in enumerate(self.resource_ids)}

    @property
    def owner_ids(self) -> tuple[int, ...]:
        """In the order of every owners axis; the operator last."""
        return (*self.tenant_ids, OPERATOR_ID)

    @cached_property
    def home(self) -> Cluster:
        """The cluster of cells alone, which the batch lane plans where an instant lane sells the operator's units."""
        return replace(self.cluster, capacity=self.cells.sum(axis=1))

    @cached_property
    def with_budgets(self) -> tuple[Tenant, ...]:
        """The tenants, each with a budget: what was submitted under one stays readable when its owner no longer has
        one. It may pay nothing."""
        return tuple(
            tenant if tenant.budget is not None else replace(tenant, budget=0.0) for tenant in self.cluster.tenants
        )

    @property
    def batch_cluster(self) -> Cluster:
        """What the batch lane plans."""
        return self.cluster if self.pool.instant_policy is None else self.home


def pool_frame(pool: Pool, *, also: Iterable[int] = ()) -> PoolFrame:
    """The pool as it stands. Tenants: those with cells, with live jobs, and `also` these ids."""
    resources = list(ResourceKind.objects.filter(pool=pool).order_by("pk"))
    servers = list(Server.objects.filter(pool=pool).order_by("pk"))
    lost = frozenset(index for index, server in enumerate(servers) if server.state == ServerState.LOST)
    with scope_disabled("a plan is made for all tenants of a pool at once"):
        held = list(Cell.objects.filter(server__pool=pool).values_list("resource", "tenant", "server", "units"))
        live = TrainingJob.objects.filter(pool=pool, state__in=LIVE_STATES).order_by()
        asking = set(live.values_list("tenant_id", flat=True).distinct())
        policies = {row.tenant_id: row for row in TenantPolicy.objects.filter(pool=pool)}
    tenant_ids = tuple(sorted({row[1] for row in held} | asking | set(also)))
    resource_ids = tuple(resource.pk for resource in resources)
    server_ids = tuple(server.pk for server in servers)
    cells = _counted(held, resource_ids, tenant_ids, server_ids)
    stock = ServerCapacity.objects.filter(pool=pool).values_list("resource", "server", "units")
    capacity = _counted(stock, resource_ids, server_ids)
    cells[..., list(lost)] = capacity[..., list(lost)] = 0.0
    cells = read_only(cells)
    cluster = Cluster(
        resources=tuple(resource.name for resource in resources),
        servers=tuple(str(server_id) for server_id in server_ids),
        tenants=_tenants(tenant_ids, policies, resources),
        slot_seconds=float(pool.slot_seconds),
        capacity=capacity,
        quota=cells.sum(axis=2),
        hosts_workers=np.array([_open(server) and server.hosts_workers for server in servers], dtype=bool),
        hosts_ps=np.array([_open(server) and server.hosts_ps for server in servers], dtype=bool),
        cells=cells,
    )
    return PoolFrame(pool, cluster, tenant_ids, server_ids, resource_ids, cells, lost)


def _counted(rows: Iterable[tuple[int, ...]], *axes: tuple[int, ...]) -> FloatArray:
    """Units in an array with one axis for each column of ids; the last column of a row is the number."""
    places = [{row_id: index for index, row_id in enumerate(axis)} for axis in axes]
    array = np.zeros([len(axis) for axis in axes])
    for *ids, units in rows:
        array[tuple(place[row_id] for place, row_id in zip(places, ids, strict=True))] = units
    return array


def _open(server: Server) -> bool:
    return server.state == ServerState.IN_SERVICE


def _tenants(
    tenant_ids: Iterable[int], policies: Mapping[int, TenantPolicy], resources: Iterable[ResourceKind]
) -> tuple[Tenant, ...]:
    """Those without instructions of their own are alike but for their names."""
    names = [resource.name for resource in resources]
    usual = _tenant("", TenantPolicy(), names)
    return tuple(
        _tenant(str(tenant_id), policies[tenant_id], names) if tenant_id in policies else _named(usual, str(tenant_id))
        for tenant_id in tenant_ids
    )


def _named(tenant: Tenant, name: str) -> Tenant:
    return Tenant(name, tenant.reserve_price, tenant.rent, tenant.budget, tenant.lend)


def _tenant(name: str, policy: TenantPolicy, resources: Iterable[str]) -> Tenant:
    return Tenant(
        name=name,
        reserve_price=np.array([policy.reserve_price.get(resource, 0.0) for resource in resources]),
        rent=str(policy.rent),
        budget=None if policy.budget is None else policy.budget / MICRO,
        lend=str(policy.lend),
    )
