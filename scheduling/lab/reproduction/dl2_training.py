"""DL2's figures that train networks anew: progress, new types, teachers, J, the worth of parts, clusters.

They use half of the jobs of the paper's testbed, and layers of 128 instead of 256, so that a training takes half a
minute.
"""

from __future__ import annotations

from dataclasses import replace

from scheduling.lab.reproduction.describing import Claim, Effort, Figure, FigureLine, Scale, Training

DL2 = {"name": "dl2", "guard": False}
DRF = FigureLine("drf", {"name": "dominant_resource_fairness"})
OURS = FigureLine("dl2", DL2, training=Training())
BARE = Training(first_bundle=False)
WORLD = {"preset": "dl2", "tenants": 1, "cells": False, "span": 15.0, "servers": 10}
FEW = {"span": 8.0, "servers": 5}
MEASURES = ("mean_completion", "makespan")
EFFORT = Effort(steps=2000, lessons=320, jobs=16, checks=3, hidden=128)
LITTLE = Effort(steps=600, lessons=100, jobs=8, watched=3, every=3, checks=2, hidden=64)
NOISE = "what rewards win here is less than the spread over draws"
ASTRAY = "of one training each, that without a critic went astray after a thousand steps"
NO_POOR_STATE = "after lessons that give one of each kind no state is so poor that exploration would mend it"
NOTE = "15 jobs on 10 machines, hidden layers of 128. A step is an update: by 256 samples of lessons, or after a slot."


def _full(*values: float, **world: int) -> Scale:
    return Scale(values, 6, world, EFFORT)


def _few(*values: float, **world: int) -> Scale:
    return Scale(values, 2, {**FEW, **world}, LITTLE)


def _after(teacher: str, name: str, number: float | None) -> tuple[tuple[FigureLine, ...], tuple[Claim, ...]]:
    """Return lines and claims for a teacher: the teacher itself, its lessons alone, and rewards after these lessons."""
    lessons, both = f"lessons of {teacher}", f"dl2 after {teacher}"
    lines = (
        FigureLine(teacher, {"name": name}),
        FigureLine(lessons, DL2, training=Training(name, rewards=False)),
        FigureLine(both, DL2, training=Training(name)),
    )
    claims = (
        Claim("less", f"dl2 after {teacher}, times its teacher", both, teacher, number=number),
        Claim("less", f"rewards after the lessons of {teacher} improve them", both, lessons),
    )
    return lines, claims


TEACHERS = tuple(
    _after(*row) for row in (("drf", DRF.policy["name"], 0.559), ("fifo", "fifo", None), ("srtf", "srtf", 0.587))
)
ALL_STEPS = float("inf")
TYPES = ((0, 4), (700, 6), (1200, 8))  # (step, how many types from that step on)

FIGURES: tuple[Figure, ...] = (
    Figure(
        name="dl2-10",
        paper="DL2, Fig. 10",
        title="Progress of a training: lessons alone, rewards alone, rewards after lessons",
        swept="steps",
        axis="steps",
        lines=(
            FigureLine("lessons alone", DL2, training=Training(lessons=ALL_STEPS, rewards=False)),
            FigureLine("rewards alone", DL2, training=Training(lessons=0)),
            FigureLine("lessons, then rewards", DL2, training=Training()),
            DRF,
        ),
        measures=MEASURES,
        claims=(
            Claim("as good", "lessons come near drf within tens of steps", "lessons alone", "drf", at=80),
            Claim("more", "rewards alone are then still worse than drf", "rewards alone", "drf", at=80),
            Claim("as good", "rewards alone come near drf in hundreds of steps", "rewards alone", "drf", at=1000),
            Claim("less", "in the end both are below drf", "lessons, then rewards", "drf", at=2000),
            Claim("less", "in the end both are below lessons alone", "lessons, then rewards", "lessons alone", at=2000),
        ),
        world=WORLD,
        full=_full(0, 40, 80, 160, 320, 640, 1000, 1500, 2000, jobs=15),
        small=_few(0, 100, 600, jobs=8),
        note=f"{NOTE} What is shown is the network at that step, whether or not an earlier one was better.",
    ),
    Figure(
        name="dl2-15",
        paper="DL2, Fig. 15",
        title="Types that come on the way",
        swept="steps",
        axis="steps",
        lines=(
            FigureLine("4 types, then 6, then 8", DL2, training=Training(types=TYPES)),
            FigureLine("8 types from the beginning", DL2, training=Training()),
        ),
        measures=MEASURES,
        claims=(
            Claim("as good", "the same in the end", "4 types, then 6, then 8", "8 types from the beginning", at=2000),
            Claim(
                "narrows",
                "the gap narrows",
                "4 types, then 6, then 8",
                "8 types from the beginning",
                unless="lessons on four types serve all eight as well, so that there is no gap at first",
            ),
        ),
        world=WORLD,
        full=_full(320, 700, 1200, 1600, 2000, jobs=15),
        small=_few(100, 600, jobs=8),
        note=f"{NOTE} Two types come at step 700 and two more at 1,200; runs have all eight.",
    ),
    Figure(
        name="dl2-16",
        paper="DL2, Fig. 16",
        title="Other teachers",
        swept="jobs",
        axis="jobs",
        lines=tuple(line for lines, _ in TEACHERS for line in lines),
        measures=MEASURES,
        claims=tuple(claim for _, claims in TEACHERS for claim in claims),
        world=WORLD,
        full=_full(15),
        small=_few(8),
        note=NOTE,
    ),
    Figure(
        name="dl2-17",
        paper="DL2, Fig. 17",
        title="Jobs that the network sees at once",
        swept="seen",
        axis="J",
        lines=(OURS,),
        measures=MEASURES,
        claims=(Claim("falls", "the more at once, the shorter", "dl2", unless=NOISE),),
        world=WORLD,
        full=_full(2, 4, 8, 16, jobs=15),
        small=_few(2, 8, jobs=8),
        note=f"{NOTE} At most 15 jobs wait at once.",
    ),
    Figure(
        name="dl2-t2",
        paper="DL2, Table 2",
        title="What each part of the training is worth",
        swept="steps",
        axis="steps",
        lines=(
            FigureLine("dl2", DL2, training=BARE),
            FigureLine("without actor-critic", DL2, training=replace(BARE, rules=(("critic", False),))),
            FigureLine("without exploration", DL2, training=replace(BARE, rules=(("explore", 0.0),))),
            FigureLine("without replay", DL2, training=replace(BARE, rules=(("recall", False),))),
        ),
        measures=MEASURES,
        claims=tuple(
            Claim("more", f"{line}, times dl2", line, "dl2", number=number, unless=unless)
            for line, number, unless in (
                ("without actor-critic", 1.211, ASTRAY),
                ("without exploration", 1.288, NO_POOR_STATE),
                ("without replay", 1.396, NOISE),
            )
        ),
        world=WORLD,
        full=_full(1000, 2000, jobs=15),
        small=_few(300, 600, jobs=8),
        note=f"{NOTE} What is shown is the network at that step: the best one is often that of lessons alone. "
        "No first bundles: with them exploration has nothing to mend.",
    ),
    Figure(
        name="dl2-18",
        paper="DL2, Fig. 18",
        title="Clusters that train together",
        swept="clusters",
        axis="clusters",
        lines=(OURS,),
        measures=MEASURES,
        claims=(Claim("steady", "as good with more clusters", "dl2"),),
        world=WORLD,
        full=_full(1, 2, 3, jobs=15),
        small=_few(1, 2, jobs=8),
        note=f"{NOTE} Weights are averaged after every round; as many steps in every cluster.",
    ),
)
