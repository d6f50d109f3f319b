"""How the units of every owner are used in one slot, for all owners in one pass, for sums over a whole pool.

The rule is that of `share_units`: what is rented in the cells of a server is split between their owners in proportion
to their idle units there. What is rented outside of cells is the operator's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.cluster import PoolOverview
from scheduling.market.reads.share_units import OPERATOR, Holding
from scheduling.models import ServerState


@dataclass(frozen=True)
class OwnerShare:
    """One owner's units of one resource. `down` are units on lost servers. `rented` is what the tenant's jobs hold of
    others' units."""

    tenant_id: int  # 0: the operator
    units: float = 0.0
    used: float = 0.0
    lent: float = 0.0
    rented: float = 0.0
    down: float = 0.0

    @property
    def idle(self) -> float:
        return max(self.units - self.down - self.used - self.lent, 0.0)

    def plus(self, other: OwnerShare) -> OwnerShare:
        return OwnerShare(
            self.tenant_id,
            self.units + other.units,
            self.used + other.used,
            self.lent + other.lent,
            self.rented + other.rented,
            self.down + other.down,
        )


def owners_now(*, holdings: Iterable[Holding], overview: PoolOverview, resource: str) -> tuple[OwnerShare, ...]:
    """Return the shares of every owner and every renter of one resource. `holdings` comes from `holdings_in`. Takes one
    step for each place that is held and one for each cell."""
    used: defaultdict[tuple[int, int], float] = defaultdict(float)  # by server and tenant; the next two by server
    in_cells: defaultdict[int, float] = defaultdict(float)
    of_operator: defaultdict[int, float] = defaultdict(float)
    units, own, lent, rented, down = (defaultdict[int, float](float) for _ in range(5))  # by tenant

    for holding in holdings:
        for place, amount in holding.units.items():
            server_id, name = place
            if name != resource:
                continue
            if holding.is_own:
                used[server_id, holding.tenant_id] += amount
            else:
                on_operator = holding.on_operator.get(place, 0.0)
                of_operator[server_id] += on_operator
                in_cells[server_id] += amount - on_operator
                rented[holding.tenant_id] += amount

    shares_operator = overview.pool.instant_policy is None
    for server in overview.servers:
        is_down = server.state == ServerState.LOST
        for capacity in server.capacities:
            if capacity.resource != resource:
                continue
            busy = {
                cell.tenant_id: min(used.get((server.id, cell.tenant_id), 0.0), cell.units) for cell in capacity.cells
            }
            idle = {cell.tenant_id: cell.units - busy[cell.tenant_id] for cell in capacity.cells}
            operator_units = float(capacity.operator_units)
            idle_all = sum(idle.values()) + (operator_units if shares_operator else 0.0)
            part = in_cells.get(server.id, 0.0) / max(idle_all, 1e-12)
            for cell in capacity.cells:
                owner = cell.tenant_id
                loan = min(part, 1.0) * idle[owner]
                units[owner] += cell.units
                own[owner] += busy[owner]
                lent[owner] += loan
                down[owner] += idle[owner] - loan if is_down else 0.0
            if operator_units:
                loan = min(
                    of_operator.get(server.id, 0.0) + (part * operator_units if shares_operator else 0.0),
                    operator_units,
                )
                units[OPERATOR] += operator_units
                lent[OPERATOR] += loan
                down[OPERATOR] += operator_units - loan if is_down else 0.0
    return tuple(
        OwnerShare(tenant, units[tenant], own[tenant], lent[tenant], rented[tenant], down[tenant])
        for tenant in {**units, **rented}
    )
