"""What the units of every owner do in one slot, all owners in one pass: for sums over a whole pool.

The rule is that of `share_units`: what is rented in the cells of a server is laid on their owners in proportion to what
they leave idle there. What is rented of no cell is the operator's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduling.cluster import PoolOverview
from scheduling.market.reads.share_units import OPERATOR, Holding, Place
from scheduling.models import ServerState


@dataclass(frozen=True)
class OwnerShare:
    """Units of one resource. `down`: on servers that are lost. `rented`: what the tenant's own jobs hold of others."""

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


def owners_now(*, holdings: Iterable[Holding], overview: PoolOverview) -> Mapping[str, tuple[OwnerShare, ...]]:
    """Resource name -> every owner and every renter; `holdings`: those of `holdings_in`. Costs one step for each
    place that is held and one for each cell."""
    used: defaultdict[tuple[Place, int], float] = defaultdict(float)
    in_cells: defaultdict[Place, float] = defaultdict(float)
    of_operator: defaultdict[Place, float] = defaultdict(float)
    sums: dict[tuple[str, int], OwnerShare] = {}

    def add(resource: str, share: OwnerShare) -> None:
        before = sums.get((resource, share.tenant_id))
        sums[resource, share.tenant_id] = share if before is None else before.plus(share)

    for holding in holdings:
        for place, amount in holding.units.items():
            if holding.is_own:
                used[place, holding.tenant_id] += amount
            else:
                of_operator[place] += holding.on_operator.get(place, 0.0)
                in_cells[place] += amount - holding.on_operator.get(place, 0.0)
                add(place[1], OwnerShare(holding.tenant_id, rented=amount))
    shares_operator = overview.pool.instant_policy is None
    for server in overview.servers:
        is_down = server.state == ServerState.LOST
        for capacity in server.capacities:
            place = (server.id, capacity.resource)
            cells = {cell.tenant_id: float(cell.units) for cell in capacity.cells}
            own = {tenant_id: min(used.get((place, tenant_id), 0.0), units) for tenant_id, units in cells.items()}
            idle = {tenant_id: units - own[tenant_id] for tenant_id, units in cells.items()}
            if shares_operator:
                idle[OPERATOR] = float(capacity.operator_units)
            part = in_cells.get(place, 0.0) / max(sum(idle.values()), 1e-12)
            for tenant_id, units in cells.items():
                lent = min(part * idle[tenant_id], idle[tenant_id])
                down = units - own[tenant_id] - lent if is_down else 0.0
                add(capacity.resource, OwnerShare(tenant_id, units, own[tenant_id], lent, down=down))
            left = float(capacity.operator_units)
            lent = min(of_operator.get(place, 0.0) + part * idle.get(OPERATOR, 0.0), left)
            if left:
                add(capacity.resource, OwnerShare(OPERATOR, left, 0.0, lent, down=left - lent if is_down else 0.0))
    names = [total.resource for total in overview.totals]
    return {name: tuple(share for (resource, _), share in sums.items() if resource == name) for name in names}
