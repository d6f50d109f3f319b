"""Read one server, or a pool's cells one by one, as everybody in the coalition sees them."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.cluster.read_cluster import ServerView, pool_overview
from scheduling.models import Pool, Server


@dataclass(frozen=True)
class CellLine:
    server: str
    resource: str
    tenant: str  # short name
    units: int


def server_by_name(pool: Pool, name: str) -> Server | None:
    return Server.objects.select_related("pool").filter(pool=pool, name=name).first()


def server_view(server: Server) -> ServerView:
    """Return the server with its capacities and cells as they are now."""
    return next(view for view in pool_overview(server.pool).servers if view.name == server.name)


def cell_lines(pool: Pool) -> list[CellLine]:
    """Return all cells of the pool: by server and resource in the pool's order, then by the owner's name."""
    return [
        CellLine(server.name, capacity.resource, cell.slug, cell.units)
        for server in pool_overview(pool).servers
        for capacity in server.capacities
        for cell in capacity.cells
    ]
