"""Price bounds: read and check those that an operator sets (0 < floor <= ceiling, finite), and propose some by jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.scenario import BadScenario
from scheduling.core.types import FloatArray

FLOOR_SHARE = 0.25  # of the median value of a unit: better too low than too high (measured: reading A8)
HOPELESS = 0.01  # of the most valuable job's value: a job whose shortest run is worth less does not count for the floor


@dataclass(frozen=True)
class PriceBounds:
    """Credits per unit and slot: `floor` for an idle server, `ceiling` per resource for a full one."""

    floor: float
    ceiling: Mapping[str, float]

    def ceilings(self, resources: Sequence[str]) -> FloatArray:
        """Return the ceilings (resources,) in the cluster's order; a resource that is not named stays at the floor."""
        return np.array([self.ceiling.get(name, self.floor) for name in resources])


@dataclass(frozen=True)
class WorthBounds:
    """What a job could be worth in its shortest run: in all, and per amount and slot of what it takes."""

    best: float
    per_amount: float


def proposed_floor(jobs: Sequence[WorthBounds]) -> float:
    """Return a quarter of the median value per amount and slot of the jobs that are not hopeless; 1 if there are none.

    A job that ends too late even in its shortest run is worth next to nothing. If half of the jobs are hopeless, the
    median would be one of theirs, and prices would be close to 0 until a machine is full.
    """
    if not jobs:
        return 1.0
    least = HOPELESS * max(job.best for job in jobs)
    return FLOOR_SHARE * float(np.median([job.per_amount for job in jobs if job.best >= least]))


def read_bounds(settings: Any, place: str, resources: Sequence[str]) -> PriceBounds:
    """Return the bounds in a scenario's `{"floor": L, "ceiling": {resource: U}}`; raise `BadScenario` with one clear
    line about what is wrong."""
    if not isinstance(settings, Mapping) or set(settings) != {"floor", "ceiling"}:
        raise BadScenario(place, "must be an object with the fields floor and ceiling")
    floor = _positive(settings["floor"], f"{place}.floor")
    if not isinstance(settings["ceiling"], Mapping):
        raise BadScenario(f"{place}.ceiling", "must be an object with a number per resource")
    ceiling = {}
    for name, number in settings["ceiling"].items():
        if name not in resources:
            raise BadScenario(f"{place}.ceiling.{name}", f"no server has this resource; known: {', '.join(resources)}")
        ceiling[name] = _positive(number, f"{place}.ceiling.{name}")
        if ceiling[name] < floor:
            raise BadScenario(f"{place}.ceiling.{name}", f"must not be below the floor, {floor:g}")
    return PriceBounds(floor, ceiling)


def _positive(number: Any, place: str) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number <= 0:
        raise BadScenario(place, "must be a positive finite number")
    return float(number)
