"""What a search answers: a schedule, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.policies.astraea.candidates import Pair
from scheduling.core.types import Allocation, FloatArray

TOO_LONG, NO_ROOM, TOO_DEAR = "too_long", "no_room", "too_dear"
NEVER, OVER_BUDGET, OVER_MAX_PRICE, LOW_BALANCE = "never", "over_budget", "over_max_price", "low_balance"


@dataclass(frozen=True, eq=False)
class Schedule:
    """A way to run a job in a window; slots are counted from the window's beginning."""

    pair: Pair
    central: bool
    start: int
    end: int
    workers: int
    ps: int
    rows: tuple[Allocation, ...]
    candidate: int = 0  # index into the ways that were looked at

    @property
    def amounts(self) -> FloatArray:
        """(resources,) what the schedule takes in each of its slots."""
        amounts: FloatArray = self.workers * self.pair.worker.demand + self.ps * self.pair.ps.demand
        return amounts


@dataclass(frozen=True)
class Shortfall:
    """Why there is no schedule: more units are needed than are free, or the best one's value is not worth its price."""

    kind: str  # one of the words above
    value: float = 0.0
    price: float = 0.0
    units: int = 0  # workers, or parameter servers, that the job needs
    free: int = 0
    limit: float = 0.0  # the budget or balance left, or the most the job may pay
