"""The rows behind a pool's frame, read in one statement, so that a frame never mixes two moments.

The statement returns one text. The same text means the same rows, so all that is computed from a text is cached under
it, and no cache has to be invalidated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from django.db import connection

from scheduling.models import Pool, ServerState, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from tenants.common.repeated import RepeatedRead, Whose
from tenants.scoping import scope_disabled

CACHE_SIZE = 8  # texts, and frames made from them, in each process

POOL_TEXT = "scheduling_pool_text(%(pool)s)"  # in the migrations' sql/submissions.sql


@dataclass(frozen=True)
class SharingRow:
    """A tenant's standing instructions, as stored. `budget` is in micro-credits."""

    rent: str
    budget: int | None
    lend: str
    reserve_price: Mapping[str, float]
    plan: str


@dataclass(frozen=True)
class PoolRows:
    """The rows of a pool. In a row with units, the last column is their number."""

    resources: tuple[tuple[int, str], ...]
    servers: tuple[tuple[int, str, bool, bool], ...]  # id, state, hosts workers, hosts parameter servers
    stock: tuple[tuple[int, int, int], ...]  # resource, server, units
    cells: tuple[tuple[int, int, int, int], ...]  # resource, tenant, server, units
    sharing: Mapping[int, SharingRow]  # by tenant

    @cached_property
    def resource_ids(self) -> tuple[int, ...]:
        return tuple(resource_id for resource_id, _ in self.resources)

    @cached_property
    def server_ids(self) -> tuple[int, ...]:
        return tuple(server_id for server_id, *_ in self.servers)

    @cached_property
    def lost(self) -> frozenset[int]:
        """Return the indexes of lost servers."""
        return frozenset(index for index, (_, state, *_) in enumerate(self.servers) if state == ServerState.LOST)

    @cached_property
    def owners(self) -> frozenset[int]:
        """Return the tenants that have cells."""
        return frozenset(tenant_id for _, tenant_id, _, _ in self.cells)


def pool_text(pool: Pool) -> str:
    """Return the pool's text, for `rows_of`."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {POOL_TEXT}", {"pool": pool.pk})
        (text,) = cursor.fetchone()
    return str(text)


def live_tenants(pool: Pool) -> frozenset[int]:
    """Return the tenants that have live jobs."""
    with scope_disabled("a plan is made for all tenants of a pool at once"):
        return frozenset(tenant_id for (tenant_id,) in _live(pool_id=pool.pk))


_live = RepeatedRead(
    lambda pool_id: (
        TrainingJob.objects.filter(pool=pool_id, state__in=LIVE_STATES).order_by().values_list("tenant_id").distinct()
    ),
    of=Whose.ALL,
    pool_id=-1,
)


@lru_cache(maxsize=CACHE_SIZE)
def rows_of(text: str) -> PoolRows:
    read = json.loads(text)
    tables: dict[str, Any] = {name: tuple(tuple(row) for row in rows or ()) for name, rows in read.items()}
    tables["sharing"] = {tenant_id: SharingRow(*columns) for tenant_id, *columns in tables["sharing"]}
    return PoolRows(**tables)
