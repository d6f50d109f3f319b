"""DL2's figures (its section 6) with existing weights: those shipped, or any that a line names by their file.

Figures that train networks anew are in `dl2_training`.
"""

from __future__ import annotations

from scheduling.lab.reproduction.describing import Claim, Figure, FigureLine, Omitted, Scale

OURS = FigureLine("dl2", {"name": "dl2"})
# It has no guard: the guard counts a slot's work at the one speed, at which the policy that gives all units away does
# most.
MEASURED = FigureLine("dl2", {"name": "dl2", "weights": "shipped:measured", "guard": False})
UNSEEN = 4_000_000  # shipped weights were trained on no seed from here on
DRF = FigureLine("drf", {"name": "dominant_resource_fairness"})
TETRIS = FigureLine("tetris", {"name": "tetris"})
OPTIMUS = FigureLine("optimus", {"name": "optimus"})
OFFLINE = FigureLine("offline_rl", {"name": "offline_rl"})
VARIED = (("speed_variation", None),)
WORLD = {"preset": "dl2", "tenants": 1, "cells": False, "span": 20.0, "servers": 20}
FEW = {"servers": 8, "jobs": 10}
MOST = 32  # most workers, and most parameter servers
BY_TYPE = "the network goes by the types of jobs, and hardly by what is left of them"

FIGURES: tuple[Figure, ...] = (
    Figure(
        name="dl2-9",
        paper="DL2, Fig. 9",
        title="Mean completion time with the shipped weights",
        swept="jobs",
        axis="jobs",
        lines=(OURS, DRF, TETRIS, OPTIMUS, OFFLINE),
        measures=("mean_completion", "makespan"),
        claims=(
            Claim("less", "completion, times that of drf", "dl2", "drf", number=0.559),
            Claim("less", "completion, times that of optimus", "dl2", "optimus", number=0.825),
            Claim("less", "completion below tetris", "dl2", "tetris", unless="short jobs first pays on few machines"),
            Claim("less", "completion below offline_rl", "dl2", "offline_rl"),
        ),
        world=WORLD,
        full=Scale((20, 30), 5),
        small=Scale((10,), 2, {"servers": 8}),
        first_seed=UNSEEN,
        note="Weights trained on draws of the same preset (0157); the paper's saw the jobs of its testbed.",
    ),
    Figure(
        name="dl2-9b",
        paper="DL2, Fig. 9, at the measured speeds",
        title="Mean completion time where jobs are as fast as was measured",
        swept="servers",
        axis="machines",
        lines=(
            MEASURED,
            FigureLine("dl2 of the one speed", {"name": "dl2", "guard": False}),
            DRF,
            FigureLine("tetris", {"name": "tetris", "max_workers": 4}),
            FigureLine("optimus", {"name": "optimus", "max_ps": MOST, "max_workers": MOST}),
        ),
        measures=("mean_completion", "makespan"),
        claims=(
            Claim("less", "completion, times that of drf", "dl2", "drf", number=0.559),
            Claim("less", "completion, times that of optimus", "dl2", "optimus", number=0.825),
            Claim("less", "completion below dl2 of the one speed", "dl2", "dl2 of the one speed"),
            Claim("less", "completion of optimus, times that of drf", "optimus", "drf", number=0.678),
        ),
        world={**WORLD, "jobs": 30, "longest": 1, "slot_seconds": 1200.0, "slots": 800},
        adjust=(("uncapped", 2.0), ("measured", 1.0)),
        speed="measured",
        full=Scale((60, 150), 10),
        small=Scale((20,), 2, {"jobs": 8}),
        note="Thirty jobs, all synchronous, on machines enough for ten to twenty-five workers a job; a slot is twenty "
        "minutes, a change costs 30 s, tetris has four workers a job. Shipped weights, trained in this world on other "
        "draws, beside those of the one speed.",
        first_seed=UNSEEN,
    ),
    Figure(
        name="dl2-13",
        paper="DL2, Fig. 13",
        title="Jobs of a type that train faster or slower than the type does",
        swept="speed_variation",
        axis="variation of speed",
        lines=(
            FigureLine("dl2", OURS.policy, VARIED),
            FigureLine("drf", DRF.policy, VARIED),
            FigureLine("optimus", OPTIMUS.policy, VARIED),
        ),
        measures=("mean_completion", "makespan"),
        claims=(
            Claim("less", "completion below optimus", "dl2", "optimus"),
            Claim("widens", "the gap to optimus widens with the variation", "optimus", "dl2"),
        ),
        world={**WORLD, "jobs": 30},
        full=Scale((0.0, 0.1, 0.2, 0.3, 0.4), 8),
        small=Scale((0.0, 0.4), 2, FEW),
        first_seed=UNSEEN,
        note="Shipped weights. Each job is so much faster or slower than the others of its type for all its life; "
        "Optimus is told the speed function of the type, DL2 sees the type alone.",
    ),
    Figure(
        name="dl2-14",
        paper="DL2, Fig. 14",
        title="Epochs that are estimated wrong",
        swept="epochs_error",
        axis="relative error",
        lines=(OURS, DRF),
        measures=("mean_completion", "makespan"),
        claims=(
            Claim("rises", "completion rises with the error", "dl2", unless=BY_TYPE),
            Claim("steady", "and only slightly", "dl2"),
            Claim(
                "less",
                "with an error of 20 %, times that of drf",
                "dl2",
                "drf",
                number=0.72,
                unless="without errors it is no more, see dl2-9",
                at=0.2,
            ),
        ),
        world={**WORLD, "jobs": 30},
        full=Scale((0.0, 0.05, 0.1, 0.2, 0.4), 8),
        small=Scale((0.0, 0.4), 2, FEW),
        first_seed=UNSEEN,
        note="Shipped weights. The policies are told v epochs, and a job really has v(1 + error) or v(1 - error). One "
        "that has done v and goes on has one more epoch to go, as far as they know.",
    ),
)

OMITTED = (
    Omitted("dl2-1-4", "DL2, Figs. 1 to 4", "measurements of training and of a company's cluster: not of schedulers"),
    Omitted("dl2-5-8", "DL2, Figs. 5 to 8, Table 1", "the system, its networks, its jobs and its log: no comparison"),
    Omitted("dl2-11", "DL2, Fig. 11", "suspension of training while parameter servers are added: MXNet on machines"),
    Omitted("dl2-12", "DL2, Fig. 12", "time of each step of that: MXNet on machines"),
)
