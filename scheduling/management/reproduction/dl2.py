"""DL2's figures (its section 6). The comparison runs with the weights that are shipped; the rest trains networks anew.

Another figure is one more `Figure` here, its line naming `{"name": "dl2", "weights": "mine/weights.npz"}`.
"""

from __future__ import annotations

from scheduling.management.reproduction.describing import Claim, Figure, Line, Omitted, Scale

OURS = Line("dl2", {"name": "dl2"})
DRF = Line("drf", {"name": "dominant_resource_fairness"})
TETRIS = Line("tetris", {"name": "tetris"})
OPTIMUS = Line("optimus", {"name": "optimus"})
OFFLINE = Line("offline_rl", {"name": "offline_rl"})

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
        world={"preset": "dl2", "tenants": 1, "cells": False, "span": 20.0, "servers": 20},
        full=Scale((20, 30), 5),
        small=Scale((10,), 2, {"servers": 8}),
        note="Weights trained on draws of the same preset (0157); the paper's saw the jobs of its testbed.",
    ),
)

OMITTED = tuple(
    Omitted(f"dl2-{number}", f"DL2, {where}", "trains networks anew for every point: hours; see `manage.py train_dl2`")
    for number, where in (
        ("10", "Fig. 10"),
        ("13", "Fig. 13"),
        ("14", "Fig. 14"),
        ("15", "Fig. 15"),
        ("16", "Fig. 16"),
        ("17", "Fig. 17"),
        ("t2", "Table 2"),
    )
)
