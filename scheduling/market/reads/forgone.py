"""Compute what idle units would have earned at the posted price: units offered but not sold, and units kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.core.types import OWN, FloatArray
from scheduling.market.reads.share_units import demand_in
from scheduling.market.reads.windows import Published
from scheduling.models import Award, Pool, ResourceKind
from tenants.ledger.amounts import adding_up, micro


@dataclass(frozen=True)
class Forgone:
    """Micro-credits at the price of each slot: of units that were offered and not sold, and of units that were kept."""

    unsold: int
    kept: int

    @property
    def total(self) -> int:
        return self.unsold + self.kept

    @property
    def digits(self) -> int:
        """The number of digits with which the shown parts add up to the shown total."""
        return adding_up((self.unsold, self.kept, -self.total))


def forgone_in(
    *, windows: Iterable[Published], first: int, last: int, quota: Sequence[float], used: FloatArray | None
) -> Forgone:
    """Compute this for the slots [first, last), as far as windows reach. `quota` is (resources,). `used` (resources,
    slots) is what the tenant's own jobs held, if it keeps its idle units; None if it offers them."""
    unsold_value, kept_value = 0.0, 0.0
    for window in windows:
        begin, end = max(window.start, first), min(window.end, last)
        if begin >= end:
            continue
        inside = slice(begin - window.start, end - window.start)
        price, idle = window.prices[:, inside], (window.mine - window.my_sold)[:, inside].clip(min=0.0)
        unsold_value += float((idle * price).sum())
        if used is not None:
            own = (np.array(quota)[:, None] - used[:, begin - first : end - first] - window.mine[:, inside]).clip(0.0)
            kept_value += float((own * price).sum())
    return Forgone(micro(unsold_value), micro(kept_value))


def used_by_own_jobs(*, pool: Pool, tenant_id: int, first: int, last: int) -> FloatArray:
    """Return (resources, slots): the amounts that the tenant's own jobs held at home. Needs the tenant's scope."""
    names = list(ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("name", flat=True))
    used = np.zeros((len(names), max(last - first, 0)))
    rows = Award.objects.filter(pool=pool, tenant=tenant_id, phase=OWN, end__gt=first, start__lt=last)
    for award in rows.select_related("job"):
        for row in award.allocation:
            amounts = demand_in(award, [row], row[1])
            until = min(row[2], award.cut_at if award.cut_at is not None else row[2])
            inside = slice(max(row[1] - first, 0), max(until - first, 0))
            for (_, resource), amount in amounts.items():
                if resource in names:
                    used[names.index(resource), inside] += amount
    return used
