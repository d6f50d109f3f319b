"""OASiS' figures (its section V-A): workers and parameter servers on machines of their own, sigmoid values."""

from __future__ import annotations

from scheduling.management.reproduction.describing import Claim, Figure, Line, Scale

WORLD = {"preset": "oasis", "tenants": 1, "cells": False}
OURS = Line("oasis", {"name": "oasis"})
OTHERS = (
    Line("fifo", {"name": "fifo"}),
    Line("drf", {"name": "dominant_resource_fairness"}),
    Line("rrh", {"name": "rrh"}),
    Line("dorm", {"name": "dorm"}),
)
CEILINGS = "prices stay near the floor until a machine is nearly full, so the ceiling hardly matters"
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
            *(Claim("less", f"nearer to the target than {line.label}", "oasis", line.label) for line in OTHERS),
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
        "Distances are over the jobs that were served; "
        "a policy that serves few late ones looks well there, so the same over all jobs stands beside it.",
    ),
    Figure(
        name="oasis-5",
        paper="OASiS, Fig. 5",
        title="Offline optimum over what is reached, ten jobs in ten slots",
        swept="servers",
        axis="servers in total",
        lines=tuple(
            Line(f"priority {least} to 100", OURS.policy, (("priority_from", float(least)),))
            for least in (1, 25, 50, 75)
        ),
        measures=("optimum_over_own",),
        claims=tuple(
            claim
            for least in (1, 25, 50, 75)
            for claim in (
                Claim("at least", f"priority {least} to 100: 1 at least", f"priority {least} to 100", number=1.0),
                Claim("at most", f"priority {least} to 100: 1.5 at most", f"priority {least} to 100", number=1.5),
            )
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
        lines=tuple(Line(f"{part:.0%}", OURS.policy, (("ceiling", part),)) for part in PARTS),
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
)
