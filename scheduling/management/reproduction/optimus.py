"""Optimus' figures (its section 6): jobs of known models on thirteen machines, slots of ten minutes."""

from __future__ import annotations

from scheduling.management.reproduction.describing import Claim, Figure, Line, Omitted, Scale

WORLD = {
    "preset": "dl2",
    "tenants": 1,
    "cells": False,
    "slot_seconds": 600.0,
    "span": 20.0,
    "servers": 13,
    "slots": 400,
    "longest": 6,
}
CONTAINERS = (("containers", 4.0),)
OURS = Line("optimus", {"name": "optimus", "young": 1.0})
SCATTERED = Line("optimus, scattered", {**OURS.policy, "scatter": True})
DRF = Line("drf", {"name": "dominant_resource_fairness"})
TETRIS = Line("tetris", {"name": "tetris"})
MEASURES = ("mean_completion", "makespan")
MANY = Scale((9, 15), 6)
FEW = Scale((5, 8), 2, {"servers": 4})
UNEVEN = (
    "no gain is ever negative here, so all containers are given away, and most gangs then find no even split: "
    "they run with one worker and one parameter server"
)
ONE_SPEED = "no job here is slowed down by many workers, which is what the paper's DRF loses most by (0060)"
NOTE = (
    "Machines of four equal containers, each for one worker or one parameter server, as in the paper's testbed. "
    "Jobs whose shortest run is six slots at most: the paper cut its large ones down, too. "
    "`scattered` places a gang unit by unit where no even split is left, which the paper does not."
)


def _better(drf: float | None, makespan: float | None) -> tuple[Claim, ...]:
    """Optimus below the others, by the paper's rules and scattered."""
    rows = (("optimus", UNEVEN), ("optimus, scattered", ONE_SPEED))
    return tuple(
        claim
        for line, unless in rows
        for claim in (
            Claim("more", f"drf's completion time, times that of {line}", "drf", line, "", drf, unless),
            Claim("more", f"drf's makespan, times that of {line}", "drf", line, "makespan", makespan, unless),
            Claim("more", f"tetris' completion time, times that of {line}", "tetris", line, "", None, unless),
            Claim("more", f"tetris' makespan, times that of {line}", "tetris", line, "makespan", None, unless),
        )
    )


FIGURES = (
    Figure(
        name="optimus-11",
        paper="Optimus, Fig. 11",
        title="Completion time and makespan",
        swept="jobs",
        axis="jobs",
        lines=(OURS, SCATTERED, DRF, TETRIS),
        measures=MEASURES,
        claims=_better(2.39, 1.63),
        world=WORLD,
        full=MANY,
        small=FEW,
        adjust=CONTAINERS,
        note=f"{NOTE} DRF keeps the parameter servers that its workers need; the paper's has as many as workers.",
    ),
    Figure(
        name="optimus-15",
        paper="Optimus, Fig. 15",
        title="Errors of the predicted speed",
        swept="speed_error",
        axis="relative error",
        lines=(Line(SCATTERED.label, SCATTERED.policy, (("speed_error", None),)),),
        measures=MEASURES,
        claims=(
            Claim(
                "rises",
                "completion rises with the error",
                "optimus, scattered",
                unless="the work of two jobs differs by more than their speeds are off, so the order of gains stays",
            ),
            Claim("steady", "worst over best, no more than about 1.15", "optimus, scattered", number=1.15),
        ),
        world={**WORLD, "jobs": 15},
        adjust=CONTAINERS,
        full=Scale((0.0, 0.1, 0.2, 0.4), 12),
        small=Scale((0.0, 0.4), 2, {"servers": 4, "jobs": 8}),
        note="A job's whole speed function is off by the error, up or down. An error of the epochs to go would do the "
        "same to every gain, so one curve stands for both; the paper's errors shrink as jobs go on, these do not.",
    ),
    Figure(
        name="optimus-17",
        paper="Optimus, Fig. 17",
        title="Arrivals in bursts",
        swept="arrivals_in_bursts",
        axis="slots between bursts",
        lines=tuple(
            Line(line.label, line.policy, (("arrivals_in_bursts", None),)) for line in (OURS, SCATTERED, DRF, TETRIS)
        ),
        measures=MEASURES,
        claims=_better(None, None),
        world={**WORLD, "jobs": 15},
        full=Scale((1, 5, 10), 6),
        small=Scale((1, 5), 2, {"servers": 4, "jobs": 8}),
        adjust=CONTAINERS,
        note=f"{NOTE} Bursts instead of the two traces, which are not at hand.",
    ),
    Figure(
        name="optimus-t3",
        paper="Optimus, Table 3",
        title="Parameters of a ResNet-50 on ten parameter servers",
        swept="servers",
        axis="parameter servers",
        lines=(Line("optimus", {}), Line("mxnet", {})),
        measures=("size_difference", "request_difference", "requests"),
        claims=(
            Claim("mean is", "difference of sizes, millions", "optimus", number=0.1),
            Claim("mean is", "difference of requests", "optimus", measure="request_difference", number=1.0),
            Claim("mean is", "requests in all", "optimus", measure="requests", number=157.0),
            Claim("mean is", "mxnet: difference of sizes, millions", "mxnet", number=3.6),
            Claim(
                "mean is",
                "mxnet: difference of requests",
                "mxnet",
                measure="request_difference",
                number=43.0,
                unless="MXNet deals small blocks at random; which of its versions the paper ran is not said",
            ),
            Claim("mean is", "mxnet: requests in all", "mxnet", measure="requests", number=247.0),
        ),
        table="parameter_blocks",
        full=Scale((10,), 20),
        small=Scale((10,), 5),
    ),
)

OMITTED = (
    Omitted("optimus-12", "Optimus, Fig. 12", "time of one scheduling round: `make bench ONLY=optimus` has ours"),
)
