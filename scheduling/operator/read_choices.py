"""What each choice of plan, price and dividend gains, as `reproduce guarantee` measured it, for the page of a pool."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.market.view import gives_floors
from scheduling.models import Pool

STEADY, MOVES = "moves no price", "moves its own price: saying less pays now and then"


@dataclass(frozen=True)
class PoolChoice:
    """One choice. `more` is the gain in total value against kept places and posted prices; `owners` is the owners'
    percent of what sharing gains. They hold where jobs ask for as much as the cluster has, and the `crowded` ones on
    the overloaded cluster of the paper."""

    words: str
    plan: str
    price: str
    dividend: float
    more: str
    more_crowded: str
    owners: int
    owners_crowded: int
    is_now: bool = False

    @property
    def reports(self) -> str:
        return STEADY if self.price == "posted" and not self.dividend else MOVES


# The table of docs/guide/reproduce.md, "what the guarantee's second edition is worth"; a test compares the two.
MEASURED = (
    ("Places kept, price posted", "keep", "posted", 0.0, "–", "–", 53, 9),
    ("Planned anew, price posted", "renew", "posted", 0.0, "+0.5 %", "+38.2 %", 46, 12),
    ("Planned anew, price searched", "renew", "searched", 0.0, "+1.1 %", "+38.4 %", 48, 68),
    ("Planned anew, price searched, dividend of half", "renew", "searched", 0.5, "+1.2 %", "+38.4 %", 66, 73),
    ("Places kept, price searched, dividend of half", "keep", "searched", 0.5, "+1.1 %", "+0.5 %", 73, 81),
)


def choices_of(pool: Pool) -> tuple[PoolChoice, ...]:
    """Return the choices, none for a pool that promises no places at home. The present plan is that of tenants that
    chose none."""
    if not gives_floors(pool):
        return ()
    price, dividend = pool.batch_policy.get("price", "posted"), pool.batch_policy.get("dividend", 0)
    now = (pool.usual_plan, price, dividend)
    return tuple(PoolChoice(*row, is_now=row[1:4] == now) for row in MEASURED)
