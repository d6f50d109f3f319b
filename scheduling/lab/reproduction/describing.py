"""The description of a paper's figure as the engine needs it: its source, what is swept and measured, what runs, and
what it claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.core.scenario import BadScenario

SCALES = ("full", "small")

LAST = float("inf")  # as a mark of a training: the best network on the draws to choose by

Adjustment = tuple[str, float | None]  # (name in `adjusting.ADJUSTMENTS`, number); None for the swept value
FIRST_SEED = 1


@dataclass(frozen=True)
class Training:
    """The course of training of a line's network: first some steps of lessons, then rewards until `Effort.steps`.

    A step is one update of the policy's network; with rewards there is one after every slot. `types` says from which
    step on jobs of how many models come: ((0, 4), (1000, 8)).
    """

    teacher: str = "dominant_resource_fairness"
    lessons: float | None = None  # steps, or None for `Effort.lessons`
    rewards: bool = True
    clusters: int = 1
    first_bundle: bool = True  # whether each job surely has its least gang; then nothing is left to explore
    rules: tuple[tuple[str, Any], ...] = ()  # changes of `learning.RULES`
    types: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Effort:
    """The amount of training at a scale. `jobs` is J, the number of jobs that the network sees at once."""

    steps: int  # steps of lessons and rewards together
    lessons: int  # steps of lessons
    jobs: int
    watched: int = 8  # lessons are taken from the teacher on so many draws
    every: int = 6  # rounds between two evaluations on the `checks` draws to choose by
    checks: int = 4
    trainings: int = 1  # each with its own seed; the runs of a point use them in turn
    hidden: int = 256


@dataclass(frozen=True)
class FigureLine:
    """One curve: a policy's settings, how its network is trained, and what is changed about them or about its world."""

    label: str
    policy: Mapping[str, Any]
    adjust: tuple[Adjustment, ...] = ()
    training: Training | None = None
    belief: str = ""  # a key of `misjudging.BELIEFS`, where the figure does not sweep it


@dataclass(frozen=True)
class Scale:
    """The size of a repetition: the values swept, how many seeds, arguments of the workload, and how much is
    trained."""

    values: tuple[float, ...]
    seeds: int
    world: Mapping[str, Any] = field(default_factory=dict)
    effort: Effort | None = None


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper as numbers. `kind` says how it is judged, see `judging`.

    `number` is the paper's figure, where it prints one; `unless` is why it does not come out here, as far as known.
    With `at` only the swept value nearest to it is judged.
    """

    kind: str
    words: str
    line: str
    other: str = ""
    measure: str = ""  # empty for the figure's first
    number: float | None = None
    unless: str = ""
    at: float | None = None
    beside: tuple[str, str] | None = None  # another pair of lines, to compare this pair's lead with


@dataclass(frozen=True)
class RunCheck:
    """A figure that is at least `least` in every single run of a line unless the code is wrong. So it is no claim."""

    words: str
    line: str
    measure: str
    least: float


@dataclass(frozen=True)
class Figure:
    """One published comparison.

    `swept` is an argument of the synthetic workload, an adjustment, a part of the training (`learning.SWEPT`) or a
    belief (`misjudging.BELIEFS`); `axis` is what it is called in a plot. The preset and the arguments in `world` hold
    for every scale.
    """

    name: str
    paper: str
    title: str
    swept: str
    axis: str
    lines: tuple[FigureLine, ...]
    measures: tuple[str, ...]
    claims: tuple[Claim, ...]
    full: Scale
    small: Scale
    world: Mapping[str, Any] = field(default_factory=dict)
    adjust: tuple[Adjustment, ...] = ()
    table: str = ""  # a key of `tabling.TABLES`, for a figure that needs no market
    checks: tuple[RunCheck, ...] = ()
    speed: str = ""  # a key of `other_speeds.SPEEDS`; empty for the one speed of all policies (0060)
    first_seed: int = FIRST_SEED  # of its draws; another one where a network was trained on the first draws
    note: str = ""

    def scale(self, name: str) -> Scale:
        """Return the scale of that name."""
        if name not in SCALES:
            raise BadScenario("--scale", f"must be one of {', '.join(SCALES)}, not {name}")
        value: Scale = getattr(self, name)
        return value


@dataclass(frozen=True)
class Omitted:
    """A published comparison that is not repeated, and why."""

    name: str
    paper: str
    reason: str
