"""Optimus' figures (its section 6), with jobs of known models on thirteen machines and slots of ten minutes."""

from __future__ import annotations

from scheduling.lab.reproduction.describing import Claim, Figure, FigureLine, Omitted, Scale

WORLD = {
    "preset": "dl2",
    "tenants": 1,
    "cells": False,
    "slot_seconds": 600.0,
    "span": 20.0,
    "servers": 13,
    "slots": 800,
    "longest": 2,
}
MOST = 52  # every container of the testbed: the paper caps no job
CONTAINERS = (("containers", 4.0),)
TESTBED = (*CONTAINERS, ("uncapped", 4.0), ("measured", 0.5))  # half of the jobs train synchronously
OURS = FigureLine("optimus", {"name": "optimus", "young": 1.0, "max_ps": MOST, "max_workers": MOST})
STRICT = FigureLine("optimus, strict", {**OURS.policy, "placement": "strict"})
DRF = FigureLine("drf", {"name": "dominant_resource_fairness"})
TETRIS = FigureLine("tetris", {"name": "tetris", "max_workers": MOST})
FEW_WORKERS = FigureLine("tetris, four workers", {"name": "tetris", "max_workers": 4})
LINES = (OURS, STRICT, DRF, TETRIS)
MEASURES = ("mean_completion", "makespan")
JOBS_OF_THE_PAPER = 9
FEW = {"servers": 4}
STRICTLY = (
    "an asynchronous job gains from every container, so all are given away, and a gang that finds no exact split runs "
    "with one worker and one parameter server"
)
NOTE = (
    "Thirteen machines of four equal containers, each for one worker or one parameter server. Synchronous jobs are as "
    "fast as was measured with DL2, asynchronous ones as in Optimus' Table 2; nobody is capped, who is moved or "
    "resized loses 30 s under every policy, and drf and tetris have one parameter server for each worker. Jobs are so "
    "long that a run takes about as many hours as in the paper. `optimus` places a gang as evenly as there is room, "
    "`strict` exactly so or not at all."
)
ONE_SPEED = "no job here is slowed down by many workers, which is what the paper's DRF loses most by (0060)"


def better(line: str, numbers: tuple[float | None, float | None], at: float, unless: str = "") -> tuple[Claim, ...]:
    """Return the claims that the line is below the two others: the paper's figures against drf, and directions against
    tetris."""
    words = ("completion time", "makespan")
    return tuple(
        Claim("more", f"{what} with {other}, times that of {line}", other, line, measure, number, unless, at)
        for other, printed in (("drf", numbers), ("tetris", (None, None)))
        for what, measure, number in zip(words, MEASURES, printed, strict=True)
    )


FIGURES = (
    Figure(
        name="optimus-11",
        paper="Optimus, Figs. 11, 13 and 14(a)",
        title="Completion time and makespan",
        swept="jobs",
        axis="jobs",
        lines=(*LINES, FEW_WORKERS),
        measures=(*MEASURES, "mean_tasks", "restarting"),
        claims=(
            *better("optimus", (2.39, 1.63), JOBS_OF_THE_PAPER),
            *better("optimus, strict", (2.39, 1.63), JOBS_OF_THE_PAPER, STRICTLY),
            *(
                Claim(
                    "more",
                    f"{what} with tetris, four workers, times that of optimus",
                    FEW_WORKERS.label,
                    "optimus",
                    measure,
                    number,
                    at=JOBS_OF_THE_PAPER,
                )
                for what, measure, number in zip(("completion time", "makespan"), MEASURES, (None, 1.22), strict=True)
            ),
            *(
                Claim(
                    "less",
                    f"{what} with tetris, four workers, times that of drf",
                    FEW_WORKERS.label,
                    "drf",
                    measure,
                    number,
                    at=JOBS_OF_THE_PAPER,
                )
                for what, measure, number in zip(("completion time", "makespan"), MEASURES, (None, 0.75), strict=True)
            ),
            Claim("less", "fewer units at work than with drf", "optimus", "drf", "mean_tasks", at=JOBS_OF_THE_PAPER),
            Claim(
                "mean is",
                "part of the running time that restarts take",
                "optimus",
                measure="restarting",
                number=0.0254,
                at=JOBS_OF_THE_PAPER,
            ),
        ),
        world=WORLD,
        full=Scale((JOBS_OF_THE_PAPER, 15), 10),
        small=Scale((5, 8), 2, FEW),
        adjust=TESTBED,
        speed="measured",
        note=NOTE,
    ),
    Figure(
        name="optimus-11b",
        paper="Optimus, Fig. 11, at one speed",
        title="Completion time and makespan where all policies train at the product's one speed",
        swept="jobs",
        axis="jobs",
        lines=LINES,
        measures=MEASURES,
        claims=better("optimus", (2.39, 1.63), JOBS_OF_THE_PAPER, ONE_SPEED),
        world={**WORLD, "longest": 6, "slots": 400},
        full=Scale((JOBS_OF_THE_PAPER,), 10),
        small=Scale((5,), 2, FEW),
        adjust=CONTAINERS,
        note="What policies run at elsewhere: sixteen workers of a job are sixteen times as fast as one, so that "
        "nothing is won by giving a job fewer.",
    ),
    Figure(
        name="optimus-15",
        paper="Optimus, Fig. 15 (speed)",
        title="Errors of the predicted speed",
        swept="speed_error",
        axis="relative error",
        lines=(FigureLine(OURS.label, OURS.policy, (("speed_error", None),)),),
        measures=MEASURES,
        claims=(
            Claim("rises", "completion rises with the error", "optimus"),
            Claim("steady", "worst over best, no more than about 1.15", "optimus", number=1.15),
        ),
        world={**WORLD, "jobs": JOBS_OF_THE_PAPER},
        adjust=TESTBED,
        speed="measured",
        full=Scale((0.0, 0.1, 0.2, 0.4), 20),
        small=Scale((0.0, 0.4), 2, {**FEW, "jobs": 5}),
        note="A job's whole speed function is off by the error, up or down, for all its life; the paper's errors "
        "shrink as jobs go on.",
    ),
    Figure(
        name="optimus-15b",
        paper="Optimus, Fig. 15 (convergence)",
        title="Errors of the predicted epochs",
        swept="epochs_error",
        axis="relative error",
        lines=(OURS, FigureLine("optimus, young jobs at 0.95", {**OURS.policy, "young": 0.95})),
        measures=MEASURES,
        claims=(
            Claim("rises", "completion rises with the error", "optimus"),
            Claim("steady", "worst over best, no more than about 1.15", "optimus", number=1.15),
            Claim(
                "less",
                "an error of 20 %: completion with the factor 0.95, times that without",
                "optimus, young jobs at 0.95",
                "optimus",
                number=0.9734,
                at=0.2,
            ),
            Claim(
                "less",
                "an error of 20 %: makespan with the factor 0.95, times that without",
                "optimus, young jobs at 0.95",
                "optimus",
                "makespan",
                0.9812,
                at=0.2,
            ),
        ),
        world={**WORLD, "jobs": JOBS_OF_THE_PAPER},
        adjust=TESTBED,
        speed="measured",
        full=Scale((0.0, 0.2, 0.4), 20),
        small=Scale((0.0, 0.4), 2, {**FEW, "jobs": 5}),
        note="Each job trains so many epochs more or fewer than the policy is told. The factor of section 4.1 lowers "
        "the gains of jobs that began only just.",
    ),
    Figure(
        name="optimus-live",
        paper="Optimus, section 3.1: our own measurement",
        title="What loss curves are worth where jobs are declared too long",
        swept="overstated",
        axis="most times as long as they are",
        lines=(
            FigureLine("as declared", OURS.policy, belief="overstated"),
            FigureLine("by reported losses", OURS.policy, belief="reported"),
            FigureLine("true epochs", OURS.policy, belief="known"),
        ),
        measures=MEASURES,
        claims=(
            Claim("less", "completion below that as declared", "by reported losses", "as declared"),
            Claim("as good", "no more than a tenth above the truth", "by reported losses", "true epochs"),
        ),
        world={**WORLD, "jobs": JOBS_OF_THE_PAPER},
        adjust=TESTBED,
        speed="measured",
        full=Scale((5.0,), 10),
        small=Scale((5.0,), 2, {**FEW, "jobs": 5}),
        note="Each job is declared one to so many times as long as it is. Once its losses foretell themselves, Optimus "
        "goes by when they will have converged.",
    ),
    Figure(
        name="optimus-17",
        paper="Optimus, Fig. 17 (Poisson)",
        title="Jobs that arrive in a Poisson process",
        swept="poisson",
        axis="arrivals a slot",
        lines=tuple(FigureLine(line.label, line.policy, (("poisson", None),)) for line in LINES),
        measures=MEASURES,
        claims=better("optimus", (None, None), 3.0),
        world={**WORLD, "jobs": 30},
        full=Scale((1.0, 3.0), 6),
        small=Scale((1.0, 3.0), 2, {**FEW, "jobs": 8}),
        adjust=TESTBED,
        speed="measured",
        note=f"{NOTE} Thirty jobs; the figure's other half follows a log that is not at hand.",
    ),
    Figure(
        name="optimus-t3",
        paper="Optimus, Table 3",
        title="Parameters of a ResNet-50 on ten parameter servers",
        swept="servers",
        axis="parameter servers",
        lines=(FigureLine("optimus", {}), FigureLine("mxnet", {})),
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
    Figure(
        name="optimus-20",
        paper="Optimus, Fig. 20",
        title="Speed of a ResNet-50 with ten workers, parameters dealt evenly or by MXNet",
        swept="servers",
        axis="parameter servers",
        lines=(FigureLine("optimus", {}), FigureLine("mxnet", {})),
        measures=("relative_speed",),
        claims=(
            Claim("more", "faster with parameters dealt evenly", "optimus", "mxnet"),
            Claim("widens", "the more so the more parameter servers", "optimus", "mxnet"),
            Claim("more", "with ten parameter servers, up to 29 %", "optimus", "mxnet", number=1.29, at=10.0),
        ),
        table="parameter_blocks",
        full=Scale((2, 6, 10, 16, 20), 20),
        small=Scale((2, 20), 5),
        note="Synchronous training at the measured function of a ResNet-50; an exchange takes as long as that of the "
        "parameter server that holds most.",
    ),
)

OMITTED = (
    Omitted("optimus-1-10", "Optimus, Figs. 1 to 10, Tables 1 and 2", "measurements of training, and the method"),
    Omitted("optimus-13", "Optimus, Fig. 13", "means and deviations: those of optimus-11 stand in its tables"),
    Omitted("optimus-14", "Optimus, Fig. 14(b), (c)", "processors' use within containers; 14(a) is part of optimus-11"),
    Omitted("optimus-21", "Optimus, Fig. 21", "the blocks of the other models are not printed; optimus-20 has the one"),
    Omitted("optimus-12", "Optimus, Fig. 12", "time of one scheduling round: `make bench ONLY=optimus` has ours"),
)
