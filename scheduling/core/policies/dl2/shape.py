"""The input of the networks: one row for each of J jobs, with L columns for its type and five numbers beside them.

    d  slots in which it ran           log1p(d) / log1p(longest)
    e  work left                       part of all its work
    r  its dominant share of the cluster in this slot
    w  workers in this slot            part of the cap
    u  parameter servers in this slot  part of the cap

Rows are in order of arrival; rows without a job are zero. A type that the network does not know has the last column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

NUMBERS = 5  # beside the type: d, e, r, w, u
ACTIONS = 3  # for each job: a worker, a parameter server, one of each
WORKER_ONLY, PS_ONLY, BOTH = 0, 1, 2


@dataclass(frozen=True)
class NetworkShape:
    """The sizes and scales for which weights were made. Weights of another shape would misread the input."""

    jobs: int = 40  # J
    columns: int = 8  # L
    types: tuple[str, ...] = ()  # the types with a column each, fewer than `columns`
    hidden: int = 256
    longest: int = 1000  # slots
    max_workers: int = 16  # the most workers of any job
    max_ps: int = 16
    first_bundle: bool = True  # whether each job gets its least gang before the network decides

    @property
    def row(self) -> int:
        """Return how many numbers the row of one job has."""
        return self.columns + NUMBERS

    @property
    def inputs(self) -> int:
        """Return how many numbers a state has."""
        return self.jobs * self.row

    @property
    def void(self) -> int:
        """Return the last action, which deals out no more units."""
        return ACTIONS * self.jobs

    @property
    def actions(self) -> int:
        """Return how many outputs the policy's network has."""
        return self.void + 1

    def column(self, model: str) -> int:
        """Return the column of a job's type in its row."""
        return self.types.index(model) if model in self.types else self.columns - 1

    def age(self, slots: int) -> float:
        """Return `d`, scaled."""
        return math.log1p(slots) / math.log1p(self.longest)

    def document(self) -> dict[str, Any]:
        """Return the shape as plain JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"types": list(self.types)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> NetworkShape:
        """Read the shape from plain JSON. Raises `ValueError` where a field is missing, unknown or not valid."""
        names = {field.name for field in fields(cls)}
        if set(document) != names:
            raise ValueError(f"has the fields {', '.join(sorted(document))}")
        types, bundle = document["types"], document["first_bundle"]
        numbers = {name: document[name] for name in names - {"types", "first_bundle"}}
        if not all(type(number) is int and 0 < number <= 10**5 for number in numbers.values()):
            raise ValueError("has sizes that are no positive integers")
        if not isinstance(types, list) or not all(isinstance(name, str) for name in types) or type(bundle) is not bool:
            raise ValueError("has types that are no list of names, or no first bundle")
        if len(types) >= numbers["columns"]:
            raise ValueError("has no column left for unknown types")
        return cls(types=tuple(types), first_bundle=bundle, **numbers)
