"""OASiS' figures (its section V-A), with workers and parameter servers on machines of their own and sigmoid values."""

from __future__ import annotations

from scheduling.lab.reproduction.describing import Claim, Figure, FigureLine, Omitted, RunCheck, Scale

WORLD = {"preset": "oasis", "tenants": 1, "cells": False}
OURS = FigureLine("oasis", {"name": "oasis", "mode": "paper"})
OTHERS = (
    FigureLine("fifo", {"name": "fifo"}),
    FigureLine("drf", {"name": "dominant_resource_fairness"}),
    FigureLine("rrh", {"name": "rrh"}),
    FigureLine("dorm", {"name": "dorm"}),
)
CEILINGS = "prices stay near the floor until a machine is nearly full, so the ceiling hardly matters"
AT_LEAST_OPTIMAL = 0.999999  # 1 less the solver's tolerance
PARTS = (0.2, 0.5, 1.0, 3.0, 5.0, 10.0)

FIGURES = (
    Figure(
        name="oasis-3",
        paper="OASiS, Fig. 3",
        title="Total value and the number of jobs",
        swept="jobs",
        axis="jobs",
        lines=(OURS, *OTHERS),
        measures=("value_in_time", "awarded"),
        claims=(
            *(Claim("more", f"above {line.label}", "oasis", line.label) for line in OTHERS),
            *(Claim("widens", f"the gap to {line.label} widens with the jobs", "oasis", line.label) for line in OTHERS),
        ),
        world={**WORLD, "slots": 300},
        full=Scale((40, 80), 2, {"servers": 40}),
        small=Scale((10, 20), 2, {"servers": 12, "slots": 100, "span": 80}),
        note="40 servers and up to 80 jobs instead of 100 and 400: Dorm solves a program at every event.",
    ),
    Figure(
        name="oasis-4",
        paper="OASiS, Fig. 4",
        title="How well targets are met: as many sensitive jobs as critical ones",
        swept="servers",
        axis="servers",
        lines=(OURS, *OTHERS),
        measures=("target_distance", "target_variance", "target_distance_all", "awarded"),
        claims=(
            *(
                Claim("less", f"nearer to the target than {line.label}", "oasis", line.label, "target_distance_all")
                for line in OTHERS
            ),
            *(
                Claim("less", f"less variance than {line.label}", "oasis", line.label, "target_variance")
                for line in OTHERS
            ),
        ),
        world={**WORLD, "slots": 100, "span": 80, "jobs": 130, "longest": 8},
        adjust=(("sensitive_only", 40.0),),
        full=Scale((40,), 3),
        small=Scale((12,), 2, {"jobs": 30}),
        note="40 jobs of each kind on 40 servers instead of 100 on 100, and jobs that can end within 8 slots. "
        "Distances of the jobs that were served alone are those of other jobs under every policy; so the claims are "
        "about all jobs, where one that was not served ends with the span.",
    ),
    Figure(
        name="oasis-5",
        paper="OASiS, Fig. 5",
        title="Offline optimum over what is reached, ten jobs in ten slots",
        swept="servers",
        axis="servers in total",
        lines=tuple(
            FigureLine(f"priority {least} to 100", OURS.policy, (("priority_from", float(least)),))
            for least in (1, 25, 50, 75)
        ),
        measures=("optimum_over_own",),
        claims=tuple(
            Claim("at most", f"priority {least} to 100: 1.5 at most", f"priority {least} to 100", number=1.5)
            for least in (1, 25, 50, 75)
        ),
        checks=tuple(
            RunCheck("nobody exceeds the optimum", f"priority {least} to 100", "optimum_over_own", AT_LEAST_OPTIMAL)
            for least in (1, 25, 50, 75)
        ),
        world={**WORLD, "jobs": 10, "slots": 10, "span": 7, "longest": 3},
        full=Scale((6, 8, 12), 4),
        small=Scale((4, 6), 1, {"jobs": 4}),
        note="Servers in even numbers, half for workers. Jobs that can end within 3 slots.",
    ),
    Figure(
        name="oasis-6",
        paper="OASiS, Fig. 6",
        title="Total value when the largest prices are estimated wrong",
        swept="jobs",
        axis="jobs",
        lines=tuple(FigureLine(f"{part:.0%}", OURS.policy, (("ceiling", part),)) for part in PARTS),
        measures=("value_in_time", "awarded"),
        claims=(
            Claim("more", "half of the true ceiling earns more than five times it", "50%", "500%", unless=CEILINGS),
            Claim("more", "a fifth of the true ceiling earns more than ten times it", "20%", "1000%", unless=CEILINGS),
            Claim("widens", "the gap from 20 % to 1000 % widens with the jobs", "20%", "1000%"),
        ),
        world={**WORLD, "slots": 300},
        full=Scale((50, 100, 200), 2, {"servers": 60}),
        small=Scale((10, 30), 2, {"servers": 12, "slots": 100, "span": 80}),
        note="60 servers and up to 200 jobs instead of 100 and 400.",
    ),
    Figure(
        name="oasis-7-8",
        paper="OASiS, Figs. 7 and 8",
        title="The testbed: total value, and how well targets are met",
        swept="jobs",
        axis="jobs",
        lines=(OURS, *OTHERS),
        measures=("value_in_time", "target_distance_all", "awarded"),
        claims=(
            *(Claim("more", f"above {line.label}", "oasis", line.label) for line in OTHERS),
            *(
                Claim("less", f"nearer to the target than {line.label}", "oasis", line.label, "target_distance_all")
                for line in OTHERS
            ),
        ),
        world={**WORLD, "slots": 10, "span": 9, "longest": 4, "slot_seconds": 1200.0, "servers": 9},
        full=Scale((12,), 10),
        small=Scale((6,), 2, {"servers": 4}),
        note="Nine servers, every other one for workers, and twelve drawn jobs that could end within 80 minutes: the "
        "paper ran models on seven servers for workers and two for parameter servers.",
    ),
)

OMITTED = (
    Omitted("oasis-1-2", "OASiS, Figs. 1 and 2, Table I", "the system, its workflow and its symbols: no result"),
)
