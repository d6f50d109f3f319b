"""PD-ORS' figures (its section 5), with workers and parameter servers on the same machines, 20 slots and sigmoid
values."""

from __future__ import annotations

from scheduling.lab.reproduction.describing import Claim, Figure, FigureLine, Omitted, RunCheck, Scale
from scheduling.lab.reproduction.oasis import AT_LEAST_OPTIMAL

WORLD = {"preset": "pdors", "tenants": 1, "cells": False}
OURS = FigureLine("pdors", {"name": "pdors", "mode": "paper"})
OTHERS = (
    FigureLine("fifo", {"name": "fifo"}),
    FigureLine("drf", {"name": "dominant_resource_fairness"}),
    FigureLine("dorm", {"name": "dorm"}),
)
SPLIT = FigureLine("oasis", {"name": "oasis", "mode": "paper"}, (("split", 0.0),))
ROUNDING = {"name": "pdors", "mode": "paper", "external": "rounding", "tries": 20}
BETTER = (
    *(Claim("more", f"above {line.label}", "pdors", line.label) for line in OTHERS),
    *(Claim("widens", f"the gap to {line.label} widens", "pdors", line.label) for line in OTHERS),
)

MIXED = (("patience_mix", 0.0),)
PRACTICAL = " (30, 69, 1 %)"
MIX_LINES = (
    OURS,
    SPLIT,
    FigureLine(f"pdors{PRACTICAL}", OURS.policy, MIXED),
    FigureLine(f"oasis{PRACTICAL}", SPLIT.policy, (*SPLIT.adjust, *MIXED)),
)
MIX_CLAIMS = (
    Claim("more", "10, 55, 35 %: times oasis", "pdors", "oasis"),
    Claim("more", "30, 69, 1 %: times oasis", f"pdors{PRACTICAL}", f"oasis{PRACTICAL}"),
    Claim(
        "leads by more",
        "the gain is smaller with fewer critical jobs",
        "pdors",
        "oasis",
        beside=(f"pdors{PRACTICAL}", f"oasis{PRACTICAL}"),
    ),
)
MIX_NOTE = (
    "Time-insensitive, sensitive and critical jobs in parts of 10, 55 and 35 %, and of 30, 69 and 1 % as in the Google "
    "cluster's classes. OASiS has every other machine for workers alone, the rest for parameter servers."
)

FIGURES = (
    Figure(
        name="pdors-6",
        paper="PD-ORS, Fig. 6",
        title="Total value and the number of machines",
        swept="servers",
        axis="machines",
        lines=(OURS, *OTHERS),
        measures=("value_in_time", "awarded"),
        claims=BETTER,
        world={**WORLD, "jobs": 50, "slots": 20},
        full=Scale((10, 20, 40), 2),
        small=Scale((4, 8), 2, {"jobs": 15}),
    ),
    Figure(
        name="pdors-7",
        paper="PD-ORS, Fig. 7",
        title="Total value and the number of jobs",
        swept="jobs",
        axis="jobs",
        lines=(OURS, *OTHERS),
        measures=("value_in_time", "awarded"),
        claims=BETTER,
        world={**WORLD, "slots": 20},
        full=Scale((20, 40, 60), 2, {"servers": 30}),
        small=Scale((8, 16), 2, {"servers": 6}),
        note="30 machines instead of 100: Dorm solves a program at every event.",
    ),
    Figure(
        name="pdors-8",
        paper="PD-ORS, Fig. 8",
        title="Machines that host everything, or half of them one kind each: the number of jobs",
        swept="jobs",
        axis="jobs",
        lines=(OURS, SPLIT),
        measures=("value_in_time", "awarded"),
        claims=(
            Claim("more", "above oasis on separate machines", "pdors", "oasis"),
            Claim("widens", "the gap widens with the jobs", "pdors", "oasis"),
        ),
        world={**WORLD, "slots": 20},
        full=Scale((50, 100), 2, {"servers": 100}),
        small=Scale((10, 20), 2, {"servers": 8}),
    ),
    Figure(
        name="pdors-9",
        paper="PD-ORS, Fig. 9",
        title="Median training time; a job that does not end counts the whole span",
        swept="longest",
        axis="shortest run of the longest job",
        lines=(OURS, SPLIT, *OTHERS),
        measures=("median_training", "awarded"),
        claims=tuple(
            Claim(
                "less",
                f"below {line.label}",
                "pdors",
                line.label,
                unless="with half of the jobs refused or unfinished the median is the whole span",
            )
            for line in (SPLIT, *OTHERS)
        ),
        world={**WORLD, "slots": 80, "span": 15, "servers": 30, "jobs": 60},
        full=Scale((1, 3, 15), 2),
        small=Scale((1, 15), 1, {"servers": 8, "jobs": 15}),
        note="60 jobs instead of 100; the paper's own ranges are the rightmost point.",
    ),
    Figure(
        name="pdors-10",
        paper="PD-ORS, Fig. 10",
        title="Offline optimum over what is reached, ten slots",
        swept="jobs",
        axis="jobs",
        lines=(OURS,),
        measures=("optimum_over_own",),
        claims=(Claim("at most", "1.4 at most", "pdors", number=1.4),),
        checks=(RunCheck("nobody exceeds the optimum", "pdors", "optimum_over_own", AT_LEAST_OPTIMAL),),
        world={**WORLD, "slots": 10, "span": 7, "longest": 1, "servers": 4},
        full=Scale((4, 6, 8), 3),
        small=Scale((4,), 1),
        note="4 machines, jobs that could end within one slot if they had all machines they can use.",
    ),
    Figure(
        name="pdors-11",
        paper="PD-ORS, Fig. 11",
        title="The gain before rounding",
        swept="gain",
        axis="gain",
        lines=(
            FigureLine("rounding", ROUNDING, (("gain", None),)),
            FigureLine("exact program", {"name": "pdors", "mode": "paper", "external": "milp"}),
        ),
        measures=("value_in_time", "awarded"),
        claims=(
            Claim(
                "peak at",
                "a gain of 1 is best",
                "rounding",
                number=1.0,
                unless="where rounding finds nothing a greedy choice steps in, so that the gain hardly matters",
            ),
            Claim("more", "the exact program is above rounding", "exact program", "rounding"),
        ),
        world={**WORLD, "slots": 20},
        full=Scale((0.2, 0.4, 0.6, 0.8, 1.0, 1.2), 2, {"servers": 10, "jobs": 30}),
        small=Scale((0.4, 1.0), 1, {"servers": 4, "jobs": 8}),
        note="10 machines and 30 jobs instead of 100 and 50, 20 tries instead of 5,000.",
    ),
    Figure(
        name="pdors-14-15",
        paper="PD-ORS, Figs. 14 and 15",
        title="Two mixes of patience: the number of machines",
        swept="servers",
        axis="machines",
        lines=MIX_LINES,
        measures=("value_in_time", "awarded"),
        claims=MIX_CLAIMS,
        world={**WORLD, "slots": 80, "span": 60, "jobs": 60},
        full=Scale((10, 30), 4),
        small=Scale((4, 8), 2, {"jobs": 12, "slots": 20, "span": 15}),
        note=f"{MIX_NOTE} 60 jobs instead of 100.",
    ),
    Figure(
        name="pdors-16-17",
        paper="PD-ORS, Figs. 16 and 17",
        title="Two mixes of patience: the number of jobs",
        swept="jobs",
        axis="jobs",
        lines=MIX_LINES,
        measures=("value_in_time", "awarded"),
        claims=MIX_CLAIMS,
        world={**WORLD, "slots": 80, "span": 60},
        full=Scale((20, 60), 4, {"servers": 30}),
        small=Scale((6, 12), 2, {"servers": 6, "slots": 20, "span": 15}),
        note=f"{MIX_NOTE} Up to 60 jobs instead of 100.",
    ),
)

OMITTED = (
    Omitted("pdors-1-4", "PD-ORS, Figs. 1 to 4, Table 1", "the system, a function and the symbols: no result"),
    Omitted("pdors-12-13", "PD-ORS, Figs. 12 and 13", "follow the Google cluster's log, which is not at hand"),
    Omitted(
        "pdors-5",
        "PD-ORS, Fig. 5",
        "feasibility of the printed gain: measured once, it never gives a feasible rounding",
    ),
)
