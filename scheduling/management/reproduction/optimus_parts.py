"""Optimus' figures of training modes and of its own parts (its sections 6.3 and 6.4).

Jobs here run at the speed of their mode, and where a gang's units are tells how much crosses the network.
"""

from __future__ import annotations

from scheduling.management.reproduction.describing import Claim, Figure, Line, Scale
from scheduling.management.reproduction.optimus import (
    CONTAINERS,
    DRF,
    FEW,
    MANY,
    MEASURES,
    OURS,
    SCATTERED,
    TETRIS,
    WORLD,
)

ASYNCHRONOUS, SYNCHRONOUS = 0.0, 1.0
EITHER = (*CONTAINERS, ("synchronous", 0.5))  # each job trains in the one mode or the other
FAIRNESS = "dominant_resource_fairness"
UNEVEN = (
    "where gains are above zero to the last container, most gangs find no even split and run with one worker and one "
    "parameter server; fewer containers each find one more easily"
)
LONG_FIRST = "the largest gain is a long job's, and an asynchronous one is slowed down by many workers only little"
LITTLE = (
    "three jobs share the containers at a time, and the last worker and parameter server that fairness gives a gang "
    "still bring it 12 %: little is wasted"
)
WHOLE = "a gang that finds no even split goes unit by unit, and four containers to a machine leave few splits even"
WORDS = ("completion time", "makespan")
NOTE = (
    "Machines of four equal containers, and jobs that train as fast as the paper's equations 3 and 4 have it, with the "
    "coefficients of its Table 2. Whoever is moved or resized loses 30 s, under every policy. `scattered` places a "
    "gang unit by unit where no even split is left, which the paper does not."
)


def _with(part: str, other: str, label: str) -> tuple[Line, Line]:
    """Optimus with one part of another policy, by the paper's rules and scattered."""
    return (
        Line(label, {**OURS.policy, part: other}),
        Line(f"{label}, scattered", {**SCATTERED.policy, part: other}),
    )


def _modes(line: str, unless: str) -> tuple[Claim, ...]:
    """Optimus is better in both modes, and by more where all jobs train synchronously."""
    named = ((ASYNCHRONOUS, "asynchronous"), (SYNCHRONOUS, "synchronous"))
    return (
        *(
            Claim("more", f"{mode}: {what} with {other}, times that of {line}", other, line, measure, None, unless, at)
            for at, mode in named
            for other in ("drf", "tetris")
            for what, measure in zip(WORDS, MEASURES, strict=True)
        ),
        Claim("pulls away", f"{line} gains more on drf where all are synchronous", line, "drf", unless=unless),
        Claim("pulls away", f"{line} gains more on tetris where all are synchronous", line, "tetris", unless=unless),
    )


def _numbers(ours: str, ending: str, unless: str) -> tuple[Claim, ...]:
    """The allocation makes jobs and all of them together shorter, against fairness by 62 and 31 %."""
    return tuple(
        Claim("more", f"{what} with {theirs}, times that of {ours}", f"{theirs}{ending}", ours, measure, number, unless)
        for theirs, numbers in (("drf's numbers", (2.63, 1.45)), ("tetris' numbers", (None, None)))
        for what, measure, number in zip(WORDS, MEASURES, numbers, strict=True)
    )


def _places(ours: str, unless: str) -> tuple[Claim, ...]:
    """The placement makes both shorter by about 15 % against fairness and 10 % against Tetris."""
    return tuple(
        Claim("more", f"{what} with {theirs}, times that of {ours}", theirs, ours, measure, number, unless)
        for theirs, number in (("drf's places", 1.18), ("tetris' places", 1.11))
        for what, measure in zip(WORDS, MEASURES, strict=True)
    )


ALLOCATIONS = (
    OURS,
    SCATTERED,
    *_with("allocation", FAIRNESS, "drf's numbers"),
    *_with("allocation", "tetris", "tetris' numbers"),
)
PLACEMENTS = (
    OURS,
    SCATTERED,
    Line("drf's places", {**OURS.policy, "placement": FAIRNESS}),
    Line("tetris' places", {**OURS.policy, "placement": "tetris"}),
)

FIGURES = (
    Figure(
        name="optimus-16",
        paper="Optimus, Fig. 16",
        title="Training modes",
        swept="synchronous",
        axis="part of the jobs that train synchronously",
        lines=tuple(Line(line.label, line.policy, (("synchronous", None),)) for line in (OURS, SCATTERED, DRF, TETRIS)),
        measures=MEASURES,
        claims=(*_modes("optimus", UNEVEN), *_modes("optimus, scattered", LONG_FIRST)),
        world={**WORLD, "jobs": 15},
        full=Scale((ASYNCHRONOUS, 0.5, SYNCHRONOUS), 6),
        small=Scale((ASYNCHRONOUS, SYNCHRONOUS), 2, {"servers": 4, "jobs": 8}),
        adjust=CONTAINERS,
        speed="mode",
        note=NOTE,
    ),
    Figure(
        name="optimus-18",
        paper="Optimus, Fig. 18",
        title="The allocation of others, with Optimus' placement",
        swept="jobs",
        axis="jobs",
        lines=ALLOCATIONS,
        measures=MEASURES,
        claims=(*_numbers("optimus", "", UNEVEN), *_numbers("optimus, scattered", ", scattered", LITTLE)),
        world=WORLD,
        full=MANY,
        small=FEW,
        adjust=EITHER,
        speed="mode",
        note=NOTE,
    ),
    Figure(
        name="optimus-19",
        paper="Optimus, Fig. 19",
        title="The placement of others, with Optimus' allocation",
        swept="jobs",
        axis="jobs",
        lines=PLACEMENTS,
        measures=MEASURES,
        claims=(*_places("optimus", UNEVEN), *_places("optimus, scattered", WHOLE)),
        world=WORLD,
        full=MANY,
        small=FEW,
        adjust=EITHER,
        speed="mode",
        note=NOTE,
    ),
)
