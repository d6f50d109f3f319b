"""What the operator's pages show of servers, cells and pools: every tenant's cells, for the staff."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, IntegerField, OuterRef, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from scheduling.cluster import CapacityView, OwnedUnits
from scheduling.models import (
    ALIVE,
    Award,
    Cell,
    Lane,
    LaneClock,
    Pool,
    Pulse,
    RentState,
    ResourceKind,
    Server,
    ServerCapacity,
)
from tenants.models import AuditEntry
from tenants.scoping import scope_disabled

LATEST = 8  # entries of the history beside a form


@dataclass(frozen=True)
class PoolClock:
    """The clock of a pool, in slots. `behind` is how many boundaries have passed and are not decided. `alive_at` is the
    last tick of the clock."""

    pool: Pool
    at: datetime
    slot: int
    decided: int
    settled: int
    frontier: int
    held: bool
    draining: bool
    alive_at: datetime | None
    servers: int

    @property
    def behind(self) -> int:
        return max(self.slot - self.decided, 0)

    @property
    def late_seconds(self) -> int:
        """Return how long the first undecided boundary has been due."""
        return int((self.at - self.pool.slot_start(self.decided + 1)).total_seconds()) if self.behind else 0

    @property
    def first_at(self) -> datetime | None:
        """Return the boundary that the clock waits for before its first tick, or None where one has passed."""
        return None if self.behind or self.held else self.pool.slot_start(self.slot + 1)

    @property
    def word(self) -> str:
        return "draining" if self.draining else "held" if self.held else "running"

    @property
    def next_at(self) -> datetime:
        """Return the earliest boundary that can decide about a job that is submitted now."""
        return self.pool.slot_start(max(self.slot + 1, self.frontier))


def kinds_of(pool: Pool) -> list[ResourceKind]:
    return list(ResourceKind.objects.filter(pool=pool))


def server_rows(pool: Pool, kinds: Sequence[ResourceKind]) -> QuerySet[Server]:
    """Return servers with `capacity_N` and `cells_N` of each resource N, so that a table can sort by them."""
    rows = Server.objects.filter(pool=pool)
    for kind in kinds:
        capacity = ServerCapacity.objects.filter(server=OuterRef("pk"), resource=kind).values("units")[:1]
        rows = rows.annotate(
            **{f"capacity_{kind.pk}": _number(capacity), f"cells_{kind.pk}": _number(_cells_sum(kind))}
        )
    return rows


def places_of(server: Server) -> tuple[CapacityView, ...]:
    """Return one view for each resource of the server's pool, in its order, with the cells there by the
    owner's name."""
    units = dict(ServerCapacity.objects.filter(server=server).values_list("resource_id", "units"))
    places: defaultdict[int, list[OwnedUnits]] = defaultdict(list)
    with scope_disabled("the operator sees whose cells a server holds"):
        rows = list(Cell.objects.filter(server=server).select_related("tenant").order_by("tenant__name", "pk"))
    for cell in rows:
        owner = OwnedUnits(cell.tenant_id, cell.tenant.slug, cell.tenant.name, cell.units)
        places[cell.resource_id].append(owner)
    return tuple(
        CapacityView(kind.name, units.get(kind.pk, 0), tuple(places[kind.pk])) for kind in kinds_of(server.pool)
    )


def pool_states(at: datetime, pools: Sequence[Pool] | None = None) -> list[PoolClock]:
    """Return the clocks of these pools, or of all, in a fixed number of queries."""
    pools_shown = list(Pool.objects.all()) if pools is None else list(pools)
    clocks = {clock.pool_id: clock for clock in LaneClock.objects.filter(lane=Lane.BATCH, pool__in=pools_shown)}
    alive = dict(Pulse.objects.filter(pool__in=pools_shown).values_list("pool_id", "alive_at"))
    servers: defaultdict[int, int] = defaultdict(int)
    for pool_id in Server.objects.filter(pool__in=pools_shown).values_list("pool_id", flat=True):
        servers[pool_id] += 1
    return [_state(pool, clocks.get(pool.pk), alive.get(pool.pk), servers[pool.pk], at) for pool in pools_shown]


def unsettled(pool: Pool) -> int:
    """Return the micro-credits of ended rents that wait for an interval that settles them: while the pool is on hold
    they stay set aside, and their owners are not paid."""
    with scope_disabled("the operator sees what a hold keeps from owners"):
        over = Award.objects.filter(pool=pool, rent=RentState.OPEN).exclude(state__in=ALIVE)
        return int(over.aggregate(amount=Coalesce(Sum(F("paid") - F("returned")), 0))["amount"])


def entries_about(subject: str) -> list[AuditEntry]:
    """Return the latest changes to one thing, as the history names it, newest first."""
    return list(AuditEntry.objects.filter(subject=subject).order_by("-sequence")[:LATEST])


def entries_of(actions: Sequence[str]) -> list[AuditEntry]:
    """Return the latest changes of these kinds, newest first."""
    rows = AuditEntry.objects.filter(action__in=actions).select_related("tenant")
    return list(rows.order_by("-sequence")[:LATEST])


def _cells_sum(kind: ResourceKind) -> QuerySet[Cell]:
    with scope_disabled("the operator sees how many units of a server are cells"):
        cells = Cell.objects.filter(server=OuterRef("pk"), resource=kind)
    return cells.order_by().values("server").annotate(together=Sum("units")).values("together")


def _number(rows: QuerySet[Any, Any]) -> Coalesce:
    return Coalesce(Subquery(rows, output_field=IntegerField()), Value(0))


def _state(pool: Pool, clock: LaneClock | None, alive_at: datetime | None, servers: int, at: datetime) -> PoolClock:
    return PoolClock(
        pool=pool,
        at=at,
        slot=pool.slot_at(at),
        decided=clock.decided_slot if clock else -1,
        settled=clock.settled_slot if clock else -1,
        frontier=clock.frontier if clock else 0,
        held=bool(clock and clock.held),
        draining=bool(clock and clock.draining),
        alive_at=alive_at,
        servers=servers,
    )
