"""Compute the shapes of the chart and table of servers, as one tenant sees them. Lengths are per cent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.cluster import CapacityView, PoolOverview, ResourceTotal, ServerView
from scheduling.models import ServerState

MINE, OTHERS, OPERATOR = "mine", "others", "operator"
MOST_SQUARES = 48  # with more units, single ones would be too narrow to tell apart
_FILLED = 0.86  # the filled part of a unit's width; the rest is the gap to the next one


@dataclass(frozen=True)
class ChartShare:
    """The units of one resource by owner, in the whole pool or on one server."""

    name: str  # ps
    label: str  # parameter server
    mine: int
    others: int
    operator: int

    @property
    def units(self) -> int:
        return self.mine + self.others + self.operator


@dataclass(frozen=True)
class ChartSquare:
    owner: str  # MINE | OTHERS | OPERATOR
    x: float
    width: float


@dataclass(frozen=True)
class Band:
    share: ChartShare
    thick: bool
    squares: tuple[ChartSquare, ...]


@dataclass(frozen=True)
class ChartOwner:
    name: str
    mine: bool


@dataclass(frozen=True)
class ServerRow:
    name: str
    trouble: str  # "" if it is in service
    hosts: str  # "" if it hosts both
    owners: tuple[ChartOwner, ...]  # mine first, then by name
    bands: tuple[Band, ...]  # one per resource of the pool


def shares(overview: PoolOverview, tenant_id: int) -> tuple[ChartShare, ...]:
    return tuple(_share_of_total(total, tenant_id) for total in overview.totals)


def server_rows(overview: PoolOverview, tenant_id: int) -> tuple[ServerRow, ...]:
    widest = _widest(overview)

    def bands(server: ServerView) -> tuple[Band, ...]:
        return tuple(
            Band(share, index == 0, tuple(_squares(share, 100 / fill, whole=fill > MOST_SQUARES)))
            for index, (share, fill) in enumerate(zip(_shares_on(server, overview, tenant_id), widest, strict=True))
        )

    return tuple(
        ServerRow(server.name, _trouble(server), _hosts(server), _owners(server, tenant_id), bands(server))
        for server in overview.servers
    )


def _share_of_total(total: ResourceTotal, tenant_id: int) -> ChartShare:
    mine = total.units_by_tenant.get(tenant_id, 0)
    return ChartShare(
        total.resource, total.label, mine, total.units - mine - total.operator_units, total.operator_units
    )


def _shares_on(server: ServerView, overview: PoolOverview, tenant_id: int) -> list[ChartShare]:
    return [
        _share(capacity, total.label, tenant_id)
        for capacity, total in zip(server.capacities, overview.totals, strict=True)
    ]


def _share(capacity: CapacityView, label: str, tenant_id: int) -> ChartShare:
    mine, operator = capacity.units_of(tenant_id), capacity.operator_units
    return ChartShare(capacity.resource, label, mine, capacity.units - mine - operator, operator)


def _squares(share: ChartShare, unit: float, *, whole: bool) -> Iterator[ChartSquare]:
    """Yield the squares of a server. `unit` is the width of one unit, the same on every server, so that a larger server
    looks larger. `whole` draws one bar per owner instead of one square per unit."""
    at = 0
    for owner, units in ((MINE, share.mine), (OTHERS, share.others), (OPERATOR, share.operator)):
        runs = [units] if whole and units else [1] * units
        for run in runs:
            yield ChartSquare(owner, round(at * unit, 3), round((run - 1 + _FILLED) * unit, 3))
            at += run


def _owners(server: ServerView, tenant_id: int) -> tuple[ChartOwner, ...]:
    names = {cell.tenant_id: cell.name for capacity in server.capacities for cell in capacity.cells}
    owners = [ChartOwner(name, owner_id == tenant_id) for owner_id, name in names.items()]
    return tuple(sorted(owners, key=lambda owner: (not owner.mine, owner.name)))


def _trouble(server: ServerView) -> str:
    return "" if server.state == ServerState.IN_SERVICE else ServerState(server.state).label


def _hosts(server: ServerView) -> str:
    if server.hosts_workers and server.hosts_ps:
        return ""
    return "workers only" if server.hosts_workers else "parameter servers only"


def _widest(overview: PoolOverview) -> list[int]:
    """Return for each resource how many units fill the width. All resources have squares of the same width where these
    fit."""
    columns = range(len(overview.totals))
    most = [max((server.capacities[index].units for server in overview.servers), default=0) for index in columns]
    together = max(most, default=0)
    return [max(together if together <= MOST_SQUARES else units, 1) for units in most]
