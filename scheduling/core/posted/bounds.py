"""Price bounds that an operator sets, checked here: 0 < floor <= ceiling, finite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.scenario import BadScenario
from scheduling.core.types import FloatArray


@dataclass(frozen=True)
class Bounds:
    """Credits per unit and slot: `floor` for an idle server, `ceiling` per resource for a full one."""

    floor: float
    ceiling: Mapping[str, float]

    def ceilings(self, resources: Sequence[str]) -> FloatArray:
        """(resources,) in the cluster's order; a resource that is not named stays at the floor."""
        return np.array([self.ceiling.get(name, self.floor) for name in resources])


def read_bounds(settings: Any, place: str, resources: Sequence[str]) -> Bounds:
    """Bounds from a scenario's `{"floor": L, "ceiling": {resource: U}}`, or one clear line about what is wrong."""
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
    return Bounds(floor, ceiling)


def _positive(number: Any, place: str) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number <= 0:
        raise BadScenario(place, "must be a positive finite number")
    return float(number)
