"""How each of a tenant's units is used in one slot (by its own jobs, lent, or idle), and what the tenant rents.

Rented units have no particular owner: what is rented in the cells of a server is split between the owners in proportion
to their idle units there. So the number of lent units need not be whole.
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
    """Neighbouring squares of one kind: own | lent | idle | rent."""

    kind: str
    squares: tuple[int, ...]  # the x of each square


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
        """The units as squares. Numbers that are not whole are rounded so that there are as many squares as units."""
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
    """A tenant's units of one resource, summed over all servers."""

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
    """What the tenant rents of one resource on one server now."""

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
        """Pairs of a server's name and its rows, in the order of the pool."""
        units_by_server: dict[str, list[UnitRow]] = {}
        for row in self.rows:
            units_by_server.setdefault(row.server, []).append(row)
        return tuple((name, tuple(rows)) for name, rows in units_by_server.items())


Place = tuple[int, str]  # server id, resource name
Amounts = Mapping[Place, float]


@dataclass(frozen=True, slots=True)
class Holding:
    """What an award holds in one slot, by place. `on_operator` is the part of it on the operator's units."""

    tenant_id: int
    is_own: bool
    units: Amounts
    on_operator: Amounts


def holdings_in(pool: Pool, slot: int, *, near: int | None = None) -> list[Holding]:
    """Return what all awards hold in the slot, no matter whose they are. It is for sums only: no row of another tenant
    may be shown. With `near`, a tenant's id, only what its share is computed from is read: its own awards, and those on
    servers where it has cells."""
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
    """Return how the tenant's units are used in the slot. `holdings` comes from `holdings_in`. `overview` is that of
    the pool, if the caller has read it already."""
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
    """Map (server, resource) to the amount that these rows of an allocation hold in the slot."""
    worker = demand_of(award.job.spec.get("worker_demand"), award.worker_type)
    return _amounts((worker, demand_of(award.job.spec.get("ps_demand"), award.ps_type)), rows, slot)


def _amounts(
    demands: tuple[Mapping[str, float], Mapping[str, float]], rows: Iterable[Sequence[int]], slot: int
) -> dict[Place, float]:
    """Map (server, resource) to the amount that these rows hold in the slot. `demands` are those of a worker and of a
    parameter server."""
    amounts: defaultdict[Place, float] = defaultdict(float)
    for server_id, start, end, *counts in rows:
        if start <= slot < end:
            for demand, count in zip(demands, counts, strict=True):
                for resource, amount in demand.items():
                    amounts[server_id, resource] += amount * count
    return {place: amount for place, amount in amounts.items() if amount}


def demand_of(demand: Any, index: int) -> Mapping[str, float]:
    """Return what a unit takes by resource name. `demand` is a field of a specification: a list if the job has several
    types."""
    if isinstance(demand, list):
        demand = demand[index] if index < len(demand) else {}
    return demand if isinstance(demand, Mapping) else {}


def _used(holdings: Iterable[Holding]) -> dict[tuple[int, str, int], float]:
    """Map (server, resource, tenant) to the amount of its own cells that the tenant's jobs hold."""
    used_units: defaultdict[tuple[int, str, int], float] = defaultdict(float)
    for holding in holdings:
        if holding.is_own:
            for (server_id, resource), amount in holding.units.items():
                used_units[server_id, resource, holding.tenant_id] += amount
    return used_units


def _rented(holdings: Iterable[Holding]) -> dict[Place, float]:
    """Map (server, resource) to the amount rented in the cells there."""
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
