"""Choose which servers of a large pool a page shows: a filter by owner, state and name, and pages of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from scheduling.cluster import PoolOverview, ServerView
from scheduling.models import ServerState

FEW = 24  # a pool with at most this many servers is shown whole
ROWS = 16  # servers on a page of a larger pool
MINE, OPERATOR = "@mine", "@operator"  # used in addresses; no tenant has such a slug


@dataclass(frozen=True)
class OwnerGroup:
    """One owner's part of the pool. `units` are those of each resource, in the pool's order."""

    value: str  # the owner in an address
    name: str
    servers: int
    units: tuple[int, ...]


@dataclass(frozen=True)
class ServersAsked:
    """The filter and the page that an address asks for. Without any known value it means every server."""

    owner: str
    state: str
    name: str
    page: int

    @property
    def is_filter(self) -> bool:
        return bool(self.owner or self.state or self.name)

    def query(self, **instead: str | int) -> str:
        """Return the same filter as the end of an address's query, with the fields in `instead` replaced."""
        fields = {"owner": self.owner, "state": self.state, "name": self.name, "page": self.page} | instead
        parameters = {name: value for name, value in fields.items() if value and (name, value) != ("page", 1)}
        return f"&{urlencode(parameters)}" if parameters else ""


@dataclass(frozen=True)
class ServersChoice:
    """One page of servers. `overview` is that of the pool with only the servers of this page; its totals are the
    pool's.
    """

    overview: PoolOverview
    wish: ServersAsked
    owners: tuple[OwnerGroup, ...]
    states: tuple[tuple[str, str, int], ...]  # (value, words, servers)
    fitting: int
    servers: int
    pages: int

    @property
    def previous(self) -> str:
        return self.wish.query(page=self.wish.page - 1) if self.wish.page > 1 else ""

    @property
    def next(self) -> str:
        return self.wish.query(page=self.wish.page + 1) if self.wish.page < self.pages else ""

    @property
    def has_previous(self) -> bool:
        return self.wish.page > 1

    @property
    def query(self) -> str:
        return self.wish.query()


def servers_choice(overview: PoolOverview, tenant_id: int, address: Mapping[str, str]) -> ServersChoice | None:
    """Choose the servers of a page. Servers on which the reader owns units come first. Return None if the pool is small
    enough to be shown whole."""
    if len(overview.servers) <= FEW:
        return None
    owners = _owners(overview, tenant_id)
    choice = _wish(address, {group.value for group in owners})
    fitting = [server for server in overview.servers if _fits(server, choice, tenant_id)]
    fitting.sort(key=lambda server: not _units(server, MINE, tenant_id))
    pages = max(-(-len(fitting) // ROWS), 1)
    choice = replace(choice, page=min(choice.page, pages))
    page_servers = tuple(fitting[ROWS * (choice.page - 1) : ROWS * choice.page])
    states = Counter(server.state for server in overview.servers)
    return ServersChoice(
        overview=replace(overview, servers=page_servers),
        wish=choice,
        owners=owners,
        states=tuple((state.value, state.label, states[state]) for state in ServerState if states[state]),
        fitting=len(fitting),
        servers=len(overview.servers),
        pages=pages,
    )


def _wish(address: Mapping[str, str], owners: set[str]) -> ServersAsked:
    owner, state, page = address.get("owner", ""), address.get("state", ""), address.get("page", "")
    return ServersAsked(
        owner=owner if owner in owners else "",
        state=state if state in ServerState.values else "",
        name=address.get("name", "").strip()[:60],
        page=max(int(page), 1) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
    )


def _fits(server: ServerView, servers_asked: ServersAsked, tenant_id: int) -> bool:
    return (
        (not servers_asked.state or server.state == servers_asked.state)
        and servers_asked.name.lower() in server.name.lower()
        and (not servers_asked.owner or any(_units(server, servers_asked.owner, tenant_id)))
    )


def _units(server: ServerView, owner: str, tenant_id: int) -> tuple[int, ...]:
    """Return this owner's units of each resource on the server; an empty tuple if it has none at all."""
    if owner == OPERATOR:
        units = tuple(capacity.operator_units for capacity in server.capacities)
    elif owner == MINE:
        units = tuple(capacity.units_of(tenant_id) for capacity in server.capacities)
    else:
        units = tuple(
            sum(cell.units for cell in capacity.cells if cell.slug == owner) for capacity in server.capacities
        )
    return units if any(units) else ()


def _owners(overview: PoolOverview, tenant_id: int) -> tuple[OwnerGroup, ...]:
    """Return the owners' parts: the reader's own first, then the others by name, the operator last."""
    owners: dict[str, tuple[str, int, list[int]]] = {}
    for server in overview.servers:
        on_this: set[str] = set()
        for place, capacity in enumerate(server.capacities):
            parts = [
                (MINE if cell.tenant_id == tenant_id else cell.slug, cell.name, cell.units) for cell in capacity.cells
            ]
            for value, name, units in [*parts, (OPERATOR, "Operator", capacity.operator_units)]:
                if units:
                    _, servers, sums = owners.get(value, (name, 0, [0] * len(overview.totals)))
                    sums[place] += units
                    owners[value] = (name, servers + (value not in on_this), sums)
                    on_this.add(value)
    groups = [OwnerGroup(value, name, servers, tuple(sums)) for value, (name, servers, sums) in owners.items()]
    return tuple(sorted(groups, key=lambda group: (group.value != MINE, group.value == OPERATOR, group.name)))
