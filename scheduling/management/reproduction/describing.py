"""What a figure of a paper is to the engine: whose it is, what is swept and measured, what runs, what it claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.core.scenario import BadScenario

SCALES = ("full", "small")

Adjustment = tuple[str, float | None]  # its name in `adjusting.ADJUSTMENTS`, and its number; None is what is swept


@dataclass(frozen=True)
class Line:
    """One curve: a policy's settings, and what is changed about them or about its world."""

    label: str
    policy: Mapping[str, Any]
    adjust: tuple[Adjustment, ...] = ()


@dataclass(frozen=True)
class Scale:
    """How large the repetition is: the values swept, how many seeds, and arguments of the workload."""

    values: tuple[float, ...]
    seeds: int
    world: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper as numbers. `kind` says how it is judged, see `judging`.

    `number` is the paper's figure, where it prints one; `unless` is why it does not come out here, as far as known.
    """

    kind: str
    words: str
    line: str
    other: str = ""
    measure: str = ""  # "": the figure's first
    number: float | None = None
    unless: str = ""


@dataclass(frozen=True)
class Figure:
    """One published comparison.

    `swept` is an argument of the synthetic workload, or an adjustment; `axis` is what it is called in a plot. The
    preset and the arguments in `world` hold for every scale.
    """

    name: str
    paper: str
    title: str
    swept: str
    axis: str
    lines: tuple[Line, ...]
    measures: tuple[str, ...]
    claims: tuple[Claim, ...]
    full: Scale
    small: Scale
    world: Mapping[str, Any] = field(default_factory=dict)
    adjust: tuple[Adjustment, ...] = ()
    table: str = ""  # in `tabling.TABLES`, for what no market is needed
    note: str = ""

    def scale(self, name: str) -> Scale:
        """The scale by its name."""
        if name not in SCALES:
            raise BadScenario("--scale", f"must be one of {', '.join(SCALES)}, not {name}")
        found: Scale = getattr(self, name)
        return found


@dataclass(frozen=True)
class Omitted:
    """A published comparison that is not repeated, and why."""

    name: str
    paper: str
    reason: str
