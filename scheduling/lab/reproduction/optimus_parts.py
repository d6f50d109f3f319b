"""Optimus' figures of training modes and of its own parts (its sections 6.3 and 6.4).

Jobs here run at the speed of their mode, and the places of a gang's units determine how much crosses the network.
"""

from __future__ import annotations

from scheduling.lab.reproduction.describing import Claim, Figure, FigureLine, Scale
from scheduling.lab.reproduction.optimus import (
    CONTAINERS,
    DRF,
    FEW,
    JOBS_OF_THE_PAPER,
    LINES,
    MEASURES,
    NOTE,
    OURS,
    TESTBED,
    TETRIS,
    WORLD,
)

ASYNCHRONOUS, SYNCHRONOUS = 0.0, 1.0
FAIRNESS = "dominant_resource_fairness"
WORDS = ("completion time", "makespan")
BY_PLACE = (
    f"{NOTE} Here an exchange takes as long as what crosses the network from where the units are, so that a placement "
    "can win."
)


def _modes() -> tuple[Claim, ...]:
    """Return the claims that Optimus is better in both modes, and by more where all jobs train synchronously."""
    named = ((ASYNCHRONOUS, "asynchronous"), (SYNCHRONOUS, "synchronous"))
    return (
        *(
            Claim(
                "more", f"{mode}: {what} with {other}, times that of optimus", other, "optimus", measure, None, "", at
            )
            for at, mode in named
            for other in ("drf", "tetris")
            for what, measure in zip(WORDS, MEASURES, strict=True)
        ),
        Claim("pulls away", "optimus gains more on drf where all are synchronous", "optimus", "drf"),
        Claim("pulls away", "optimus gains more on tetris where all are synchronous", "optimus", "tetris"),
    )


def _parts(of: str, drf: tuple[float, float], tetris: tuple[float | None, float | None]) -> tuple[Claim, ...]:
    """Return the claims that a part of another policy makes completion and makespan longer. `drf` and `tetris` are how
    many times as long they are with that policy's part."""
    return tuple(
        Claim("more", f"{what} with {other} {of}, times that of optimus", f"{other} {of}", "optimus", measure, number)
        for other, numbers in (("drf's", drf), ("tetris'", tetris))
        for what, measure, number in zip(WORDS, MEASURES, numbers, strict=True)
    )


FIGURES = (
    Figure(
        name="optimus-16",
        paper="Optimus, Fig. 16",
        title="Training modes",
        swept="measured",
        axis="part of the jobs that train synchronously",
        lines=tuple(FigureLine(line.label, line.policy, (("measured", None),)) for line in LINES),
        measures=MEASURES,
        claims=_modes(),
        world={**WORLD, "jobs": JOBS_OF_THE_PAPER},
        full=Scale((ASYNCHRONOUS, 0.5, SYNCHRONOUS), 8),
        small=Scale((ASYNCHRONOUS, SYNCHRONOUS), 2, {**FEW, "jobs": 5}),
        adjust=(*CONTAINERS, ("uncapped", 4.0)),
        speed="measured",
        note=NOTE,
    ),
    Figure(
        name="optimus-16b",
        paper="Optimus, Fig. 16, at its printed equations",
        title="Training modes, with the coefficients of Table 2 in both modes",
        swept="synchronous",
        axis="part of the jobs that train synchronously",
        lines=tuple(FigureLine(line.label, line.policy, (("synchronous", None),)) for line in (OURS, DRF, TETRIS)),
        measures=MEASURES,
        claims=_modes(),
        world={**WORLD, "longest": 6, "jobs": 15},
        full=Scale((ASYNCHRONOUS, SYNCHRONOUS), 6),
        small=Scale((ASYNCHRONOUS, SYNCHRONOUS), 2, {**FEW, "jobs": 8}),
        adjust=CONTAINERS,
        speed="mode",
        note="Equations 3 and 4 with one model's coefficients, sixteen workers at most (0173).",
    ),
    Figure(
        name="optimus-18",
        paper="Optimus, Fig. 18",
        title="The allocation of others, with Optimus' placement",
        swept="jobs",
        axis="jobs",
        lines=(
            OURS,
            FigureLine("drf's numbers", {**OURS.policy, "allocation": FAIRNESS}),
            FigureLine("tetris' numbers", {**OURS.policy, "allocation": "tetris"}),
        ),
        measures=MEASURES,
        claims=_parts("numbers", (2.63, 1.45), (None, None)),
        world=WORLD,
        full=Scale((JOBS_OF_THE_PAPER,), 10),
        small=Scale((5,), 2, FEW),
        adjust=TESTBED,
        speed="measured",
        note=NOTE,
    ),
    Figure(
        name="optimus-19",
        paper="Optimus, Fig. 19",
        title="The placement of others, with Optimus' allocation",
        swept="jobs",
        axis="jobs",
        lines=(
            OURS,
            FigureLine("drf's places", {**OURS.policy, "placement": FAIRNESS}),
            FigureLine("tetris' places", {**OURS.policy, "placement": "tetris"}),
        ),
        measures=MEASURES,
        claims=_parts("places", (1.18, 1.18), (1.11, 1.11)),
        world=WORLD,
        full=Scale((JOBS_OF_THE_PAPER,), 10),
        small=Scale((5,), 2, FEW),
        adjust=TESTBED,
        speed="measured by place",
        note=BY_PLACE,
    ),
)
