"""What each of a tenant's units does in one slot: runs its own jobs, is lent, or stands idle; and what it rents.

A unit for rent has no owner's name on it: what runs in the cells of a server is laid on its owners in proportion to
what they leave idle there. So a lent number need not be whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BooleanField, Q
from django.db.models.expressions import RawSQL

from scheduling.cluster import CapacityView, PoolOverview, pool_overview
from scheduling.core.types import OWN
from scheduling.models import ALIVE, Award, Pool
from tenants.scoping import scope_disabled

OPERATOR = 0
MOST_SQUARES = 64


@dataclass(frozen=True)
class UnitRun:
    """Squares of one kind, side by side: own | lent | idle | rent."""

    kind: str
    squares: tuple[int, ...]  # their x


@dataclass(frozen=True)
class UnitRow:
    """A tenant's units of one resource on one server."""

    server: str
    resource: str
    label: str
    units: int
    used: float
    lent: float

    @property
    def idle(self) -> float:
        return max(self.units - self.used - self.lent, 0.0)

    @property
    def runs(self) -> tuple[UnitRun, ...]:
        """As squares; what is not whole is rounded so that they are as many as the units."""
        used = min(round(self.used), self.units)
        lent = min(round(self.lent), self.units - used)
        counts = (("own", used), ("lent", lent), ("idle", self.units - used - lent))
        at, runs = 0, []
        for kind, count in counts:
            runs.append(UnitRun(kind, tuple(range(at * STEP, (at + count) * STEP, STEP))))
            at += count
        return tuple(runs)

    @property
    def width(self) -> int:
        return max(self.units * STEP - 4, 1)

    @property
    def has_squares(self) -> bool:
        return 0 < self.units <= MOST_SQUARES


STEP = 20  # a square of 16 and the gap to the next one


@dataclass(frozen=True)
class ResourceShare:
    """Sums over all servers."""

    name: str
    label: str
    units: int
    used: float
    lent: float
    rented: float

    @property
    def idle(self) -> float:
        return max(self.units - self.used - self.lent, 0.0)


@dataclass(frozen=True)
class RentedRow:
    """What the tenant rents on one server now."""

    server: str
    resource: str
    label: str
    units: float
    whose: str  # others' cells | operator


@dataclass(frozen=True)
class UnitsNow:
    slot: int
    rows: tuple[UnitRow, ...]
    totals: tuple[ResourceShare, ...]
    rented: tuple[RentedRow, ...]
    own_jobs: int
    rented_jobs: int

    @property
    def servers(self) -> tuple[tuple[str, tuple[UnitRow, ...]], ...]:
        """Server name -> its rows, in the order of the pool."""
        units_by_server: dict[str, list[UnitRow]] = {}
        for row in self.rows:
            units_by_server.setdefault(row.server, []).append(row)
        return tuple((name, tuple(rows)) for name, rows in units_by_server.items())


Place = tuple[int, str]  # server id, resource name
Amounts = Mapping[Place, float]


@dataclass(frozen=True, slots=True)
class Holding:
    """What an award holds in one slot, by place; `on_operator`: of that, the operator's."""

    tenant_id: int
    is_own: bool
    units: Amounts
    on_operator: Amounts


def holdings_in(pool: Pool, slot: int, *, near: int | None = None) -> list[Holding]:
    """Whatever holds units in the slot, whoever's it is. For sums only: no row of others is shown. `near`: no more than
    what a tenant's own share is counted from, which is on servers where it has cells, and its own."""
    with scope_disabled("what is lent is the difference between all that runs on a server and what its owners run"):
        rows = Award.objects.filter(pool=pool, state__in=ALIVE, start__lte=slot, end__gt=slot)
        rows = rows.filter(Q(cut_at=None) | Q(cut_at__gt=slot))
        if near is not None:
            rows = rows.alias(here=_on_servers_of(near)).filter(Q(tenant=near) | Q(here=True))
        return [_holding(row, slot) for row in rows.order_by("pk").values_list(*_HELD)]


_HELD = (
    "tenant_id", "phase", "worker_type", "ps_type", "allocation", "on_operator",
    "job__spec__worker_demand", "job__spec__ps_demand",
)  # fmt: skip


def _on_servers_of(tenant_id: int) -> RawSQL:
    return RawSQL(
        "EXISTS (SELECT FROM jsonb_array_elements(scheduling_award.allocation) AS row"
        " WHERE (row ->> 0)::bigint = ANY (ARRAY(SELECT server_id FROM scheduling_cell WHERE tenant_id = %s)))",
        [tenant_id],
        output_field=BooleanField(),
    )


def _holding(row: Sequence[Any], slot: int) -> Holding:
    tenant_id, phase, worker_type, ps_type, allocation, on_operator, worker, ps = row
    demands = demand_of(worker, worker_type), demand_of(ps, ps_type)
    return Holding(tenant_id, phase == OWN, _amounts(demands, allocation, slot), _amounts(demands, on_operator, slot))


def units_now(
    *, tenant_id: int, pool: Pool, slot: int, holdings: Sequence[Holding], overview: PoolOverview | None = None
) -> UnitsNow:
    """`holdings`: those of `holdings_in`. `overview`: of the pool, where it is at hand."""
    overview = overview or pool_overview(pool)
    names = {server.name: server.id for server in overview.servers}
    used, rented = _used(holdings), _rented(holdings)
    mine = [holding for holding in holdings if holding.tenant_id == tenant_id]
    rows = tuple(_rows(overview, names, tenant_id, used, rented, with_operator=pool.instant_policy is None))
    renting = tuple(_renting([holding for holding in mine if not holding.is_own], overview, names))
    totals = tuple(
        ResourceShare(
            total.resource,
            total.label,
            total.units_by_tenant.get(tenant_id, 0),
            sum(row.used for row in rows if row.resource == total.resource),
            sum(row.lent for row in rows if row.resource == total.resource),
            sum(row.units for row in renting if row.resource == total.resource),
        )
        for total in overview.totals
    )
    own = sum(holding.is_own for holding in mine)
    return UnitsNow(slot, rows, totals, renting, own, len(mine) - own)


def demand_in(award: Award, rows: Iterable[Sequence[int]], slot: int) -> dict[Place, float]:
    """(server, resource) -> amount that these rows of an allocation hold in the slot."""
    worker = demand_of(award.job.spec.get("worker_demand"), award.worker_type)
    return _amounts((worker, demand_of(award.job.spec.get("ps_demand"), award.ps_type)), rows, slot)


def _amounts(
    demands: tuple[Mapping[str, float], Mapping[str, float]], rows: Iterable[Sequence[int]], slot: int
) -> dict[Place, float]:
    """`demands`: of a worker and of a parameter server."""
    amounts: defaultdict[Place, float] = defaultdict(float)
    for server_id, start, end, *counts in rows:
        if start <= slot < end:
            for demand, count in zip(demands, counts, strict=True):
                for resource, amount in demand.items():
                    amounts[server_id, resource] += amount * count
    return {place: amount for place, amount in amounts.items() if amount}


def demand_of(demand: Any, index: int) -> Mapping[str, float]:
    """What a unit takes, by the resource's name, of a specification. A job that knows several types has a list."""
    if isinstance(demand, list):
        demand = demand[index] if index < len(demand) else {}
    return demand if isinstance(demand, Mapping) else {}


def _used(holdings: Iterable[Holding]) -> dict[tuple[int, str, int], float]:
    """(server, resource, tenant) -> amount of its own cells that its own jobs hold."""
    used_units: defaultdict[tuple[int, str, int], float] = defaultdict(float)
    for holding in holdings:
        if holding.is_own:
            for (server_id, resource), amount in holding.units.items():
                used_units[server_id, resource, holding.tenant_id] += amount
    return used_units


def _rented(holdings: Iterable[Holding]) -> dict[Place, float]:
    """(server, resource) -> amount rented of the cells there."""
    rented_units: defaultdict[Place, float] = defaultdict(float)
    for holding in holdings:
        if not holding.is_own:
            for place, amount in holding.units.items():
                rented_units[place] += amount
            for place, amount in holding.on_operator.items():
                rented_units[place] -= amount
    return rented_units


def _rows(
    overview: PoolOverview,
    names: Mapping[str, int],
    tenant_id: int,
    used: Mapping[tuple[int, str, int], float],
    rented: Amounts,
    *,
    with_operator: bool,
) -> Iterator[UnitRow]:
    labels = {total.resource: total.label for total in overview.totals}
    for server in overview.servers:
        for capacity in server.capacities:
            units = capacity.units_of(tenant_id)
            if not units:
                continue
            place = (names[server.name], capacity.resource)
            idle = _idle(capacity, place, used)
            if with_operator:
                idle[OPERATOR] = float(capacity.operator_units)
            own = min(used.get((*place, tenant_id), 0.0), float(units))
            lent = rented.get(place, 0.0) * idle[tenant_id] / max(sum(idle.values()), 1e-12)
            yield UnitRow(server.name, capacity.resource, labels[capacity.resource], units, own, min(lent, units - own))


def _idle(capacity: CapacityView, place: Place, used: Mapping[tuple[int, str, int], float]) -> dict[int, float]:
    return {cell.tenant_id: max(cell.units - used.get((*place, cell.tenant_id), 0.0), 0.0) for cell in capacity.cells}


def _renting(holdings: Iterable[Holding], overview: PoolOverview, names: Mapping[str, int]) -> Iterator[RentedRow]:
    labels = {total.resource: total.label for total in overview.totals}
    by_id = {number: name for name, number in names.items()}
    sums: dict[str, defaultdict[Place, float]] = {"others' cells": defaultdict(float), "operator": defaultdict(float)}
    for holding in holdings:
        for place, amount in holding.units.items():
            sums["operator"][place] += holding.on_operator.get(place, 0.0)
            sums["others' cells"][place] += amount - holding.on_operator.get(place, 0.0)
    for whose, owner_sums in sums.items():
        for (server_id, resource), amount in sorted(owner_sums.items()):
            if amount > 1e-9:
                yield RentedRow(by_id[server_id], resource, labels.get(resource, resource), amount, whose)
