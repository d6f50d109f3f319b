"""The two answers of a search: a schedule, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.policies.astraea.ways.candidates import Pair
from scheduling.core.types import Allocation, FloatArray

TOO_LONG, NO_ROOM, TOO_DEAR = "too_long", "no_room", "too_dear"
NEVER, OVER_BUDGET, OVER_MAX_PRICE, LOW_BALANCE = "never", "over_budget", "over_max_price", "low_balance"


@dataclass(frozen=True, eq=False)
class Schedule:
    """A way to run a job in a window. Its slots count from the window's beginning."""

    pair: Pair
    central: bool
    start: int
    end: int
    workers: int
    ps: int
    rows: tuple[Allocation, ...]
    candidate: int = 0  # its index among the ways that were searched

    @property
    def amounts(self) -> FloatArray:
        """Return (resources,) what the schedule takes in each of its slots."""
        amounts: FloatArray = self.workers * self.pair.worker.demand + self.ps * self.pair.ps.demand
        return amounts


@dataclass(frozen=True)
class Shortfall:
    """Why there is no schedule: more units are asked for than are free, or the best schedule's value does not exceed
    its price."""

    kind: str  # one of the codes above
    value: float = 0.0
    price: float = 0.0
    units: int = 0  # workers, or parameter servers, that the job needs
    free: int = 0
    limit: float = 0.0  # the budget or balance that is left, or the most that the job may pay
