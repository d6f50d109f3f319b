"""A pool as the core sees it: the cluster, and which row of the database each index stands for.

Tenants and servers come in the order of their ids and have their ids as names, so that a stored interval still names
the right ones after a renaming. A lost server has no units and no cells. A server that is draining keeps both, since
what is promised there is still delivered, but hosts nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from scheduling.core.parts import Parts, parts_of
from scheduling.core.types import Cluster, FloatArray, Tenant, read_only
from scheduling.market.view.pool_rows import CACHE_SIZE, SharingRow, live_tenants, pool_text, rows_of
from scheduling.models import Pool, ServerState, TenantPolicy
from tenants.ledger.amounts import credits_of

SMALLEST = credits_of(1)  # the unit of the ledger, one micro-credit
OPERATOR_ID = 0  # stands for the operator in lists of owners' ids
_UNSAID = TenantPolicy()  # not saved: its fields are what holds for a tenant without a row


@dataclass(frozen=True, eq=False)
class PoolShape:
    """The part of a pool that stays the same from one reading to the next. `cluster` is the whole pool, home and
    operator parts together."""

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

    @cached_property
    def parts(self) -> Parts:
        return parts_of(self.cluster)

    @cached_property
    def with_budgets(self) -> tuple[Tenant, ...]:
        """The tenants, each with a budget; a tenant without one gets a budget of 0. So a job that was submitted under a
        budget stays readable when its owner no longer has one, but cannot pay anything."""
        return tuple(
            tenant if tenant.budget is not None else replace(tenant, budget=0.0) for tenant in self.cluster.tenants
        )


@dataclass(frozen=True, eq=False)
class PoolFrame:
    """A pool and its shape. The pool's row is the one that the caller has read; the shape is shared between callers."""

    pool: Pool
    shape: PoolShape

    @property
    def cluster(self) -> Cluster:
        return self.shape.cluster

    @property
    def tenant_ids(self) -> tuple[int, ...]:
        return self.shape.tenant_ids

    @property
    def server_ids(self) -> tuple[int, ...]:
        return self.shape.server_ids

    @property
    def resource_ids(self) -> tuple[int, ...]:
        return self.shape.resource_ids

    @property
    def cells(self) -> FloatArray:
        return self.shape.cells

    @property
    def lost(self) -> frozenset[int]:
        return self.shape.lost

    @property
    def tenant_index(self) -> Mapping[int, int]:
        return self.shape.tenant_index

    @property
    def server_index(self) -> Mapping[int, int]:
        return self.shape.server_index

    @property
    def resource_index(self) -> Mapping[int, int]:
        return self.shape.resource_index

    @property
    def owner_ids(self) -> tuple[int, ...]:
        """The ids of all owners, in the order of every owners axis; the operator is last."""
        return (*self.tenant_ids, OPERATOR_ID)

    @property
    def home(self) -> Cluster:
        """The cluster of cells alone, which the batch lane plans where an instant lane sells the operator's units."""
        return self.shape.parts.home

    @property
    def with_budgets(self) -> tuple[Tenant, ...]:
        return self.shape.with_budgets

    @property
    def batch_cluster(self) -> Cluster:
        """The cluster that the batch lane plans: the home part if the pool has an instant lane, else the whole pool."""
        return self.cluster if self.pool.instant_policy is None else self.home


def pool_frame(pool: Pool, *, also: Iterable[int] = ()) -> PoolFrame:
    """Read the pool as it is now. Its tenants are those with cells, and those whose ids are in `also`."""
    return frame_of(pool, pool_text(pool), also=also)


def frame_of(pool: Pool, text: str, *, also: Iterable[int] = ()) -> PoolFrame:
    """Return the pool that a text of `pool_text` describes. Its tenants are those with cells, and those in `also`."""
    tenant_ids = tuple(sorted(rows_of(text).owners | set(also)))
    return PoolFrame(pool, _shape(text, tenant_ids, float(pool.slot_seconds), pool.usual_plan))


def planning_frame(pool: Pool, waiting: Iterable[int]) -> PoolFrame:
    """Read the pool with all tenants whose jobs concern a plan: those with waiting jobs (`waiting` has the ids), with
    awards, or with floors."""
    return pool_frame(pool, also=live_tenants(pool) | set(waiting))


@lru_cache(maxsize=CACHE_SIZE)
def _shape(text: str, tenant_ids: tuple[int, ...], slot_seconds: float, usual_plan: str) -> PoolShape:
    rows = rows_of(text)
    unsaid = SharingRow(str(_UNSAID.rent), _UNSAID.budget, str(_UNSAID.lend), dict(_UNSAID.reserve_price), usual_plan)
    resource_ids, server_ids, lost = rows.resource_ids, rows.server_ids, list(rows.lost)
    names = tuple(name for _, name in rows.resources)
    cells = _counted(rows.cells, resource_ids, tenant_ids, server_ids)
    capacity = _counted(rows.stock, resource_ids, server_ids)
    cells[..., lost] = capacity[..., lost] = 0.0
    cells = read_only(cells)
    in_service = np.array([state == ServerState.IN_SERVICE for _, state, _, _ in rows.servers], dtype=bool)
    cluster = Cluster(
        resources=names,
        servers=tuple(str(server_id) for server_id in server_ids),
        tenants=tuple(_tenant(tenant_id, rows.sharing.get(tenant_id, unsaid), names) for tenant_id in tenant_ids),
        slot_seconds=slot_seconds,
        capacity=capacity,
        quota=cells.sum(axis=2),
        hosts_workers=in_service & np.array([workers for _, _, workers, _ in rows.servers], dtype=bool),
        hosts_ps=in_service & np.array([ps for _, _, _, ps in rows.servers], dtype=bool),
        cells=cells,
        least_payment=SMALLEST,
    )
    return PoolShape(cluster, tenant_ids, server_ids, resource_ids, cells, rows.lost)


def _counted(rows: Iterable[tuple[int, ...]], *axes: tuple[int, ...]) -> FloatArray:
    """Return units as an array with one axis for each column of ids. The last column of a row is the number of
    units."""
    places = [{row_id: index for index, row_id in enumerate(axis)} for axis in axes]
    array = np.zeros([len(axis) for axis in axes])
    for *ids, units in rows:
        array[tuple(place[row_id] for place, row_id in zip(places, ids, strict=True))] = units
    return array


def _tenant(tenant_id: int, sharing_row: SharingRow, resources: Sequence[str]) -> Tenant:
    return Tenant(
        name=str(tenant_id),
        reserve_price=np.array([sharing_row.reserve_price.get(name, 0.0) for name in resources]),
        rent=sharing_row.rent,
        budget=None if sharing_row.budget is None else credits_of(sharing_row.budget),
        lend=sharing_row.lend,
        plan=sharing_row.plan,
    )
