"""Astraea's figures (its section 5): fourteen tenants on servers of 2, 4 or 8 workers.

They use half the paper's hundred servers and half its jobs: as many jobs for each server, in a quarter of the time.
"""

from __future__ import annotations

from scheduling.lab.reproduction.describing import Claim, Figure, FigureLine, Omitted, Scale

WORLD = {"preset": "astraea", "tenants": 14, "servers": 50, "cells": False}
PAPER = {"name": "astraea", "mode": "paper"}
OURS = FigureLine("astraea", PAPER)
OTHERS = (
    FigureLine("batchsche", {"name": "batchsche"}),
    FigureLine("gandiva_fair", {"name": "gandiva_fair"}),
    FigureLine("hived", {"name": "hived"}),
)
ALL = (OURS, *OTHERS)
MONEY = ("ideal_revenue", "revenue", "awarded")
JOBS = Scale((50, 150), 3)
SERVERS = Scale((30, 70), 3, {"jobs": 100})
FEW_JOBS = Scale((20, 40), 2, {"tenants": 4, "servers": 20})
FEW_SERVERS = Scale((10, 20), 2, {"tenants": 4, "jobs": 40})
TO_THE_END = 20_000  # so many slots, in which every job ends
WINDOWS = "its windows double and each begins empty, so that the last jobs wait long and leave much idle"
BLIND = "it starts jobs without regard to their value, which falls below zero before many of them end"
SPREAD = "over seeds it varies by more than the paper's figures lie apart: who submits how much is drawn"


def _advantages(batchsche: float, gandiva: float, hived: float) -> tuple[Claim, ...]:
    """Return the claims about the three others: `batchsche`, `gandiva` and `hived` are how many times their ideal
    revenue Astraea has, on average over the curve; its realised revenue is to be above theirs."""
    rows = (("batchsche", batchsche), ("gandiva_fair", gandiva), ("hived", hived))
    ideal = tuple(
        Claim(
            "more",
            f"ideal revenue, times that of {other}",
            "astraea",
            other,
            "",
            n,
            BLIND if other != "batchsche" else "",
        )
        for other, n in rows
    )
    real = tuple(
        Claim("more", f"realised revenue above that of {other}", "astraea", other, "revenue") for other, _ in rows
    )
    return (*ideal, *real)


FIGURES = (
    Figure(
        name="astraea-4a",
        paper="Astraea, Fig. 4(a)",
        title="Revenue and the number of jobs, linear values",
        swept="jobs",
        axis="jobs",
        lines=ALL,
        measures=MONEY,
        claims=(*_advantages(1.58, 1.24, 1.35), Claim("rises", "revenue rises with the jobs", "astraea")),
        world=WORLD,
        full=JOBS,
        small=FEW_JOBS,
    ),
    Figure(
        name="astraea-4b",
        paper="Astraea, Fig. 4(b)",
        title="Revenue and the number of servers, linear values",
        swept="servers",
        axis="servers",
        lines=ALL,
        measures=MONEY,
        claims=(*_advantages(1.63, 1.22, 1.46), Claim("rises", "revenue rises with the servers", "astraea")),
        world=WORLD,
        full=SERVERS,
        small=FEW_SERVERS,
    ),
    Figure(
        name="astraea-4c",
        paper="Astraea, Fig. 4(c)",
        title="Revenue and the number of jobs, convex values",
        swept="jobs",
        axis="jobs",
        lines=ALL,
        measures=MONEY,
        claims=(
            *(Claim("more", f"ideal revenue above that of {line.label}", "astraea", line.label) for line in OTHERS),
            *(
                Claim("more", f"realised revenue above that of {line.label}", "astraea", line.label, "revenue")
                for line in OTHERS
            ),
            Claim("rises", "revenue rises with the jobs", "astraea"),
        ),
        world={**WORLD, "value": "convex"},
        full=JOBS,
        small=FEW_JOBS,
    ),
    Figure(
        name="astraea-4d",
        paper="Astraea, Fig. 4(d)",
        title="Revenue and the number of servers, convex values",
        swept="servers",
        axis="servers",
        lines=ALL,
        measures=MONEY,
        claims=(
            *(Claim("more", f"ideal revenue above that of {line.label}", "astraea", line.label) for line in OTHERS),
            *(
                Claim("more", f"realised revenue above that of {line.label}", "astraea", line.label, "revenue")
                for line in OTHERS
            ),
            Claim("rises", "revenue rises with the servers", "astraea"),
        ),
        world={**WORLD, "value": "convex"},
        full=SERVERS,
        small=FEW_SERVERS,
    ),
    Figure(
        name="astraea-5a",
        paper="Astraea, Fig. 5 (jobs)",
        title="Part of the offline bound on small inputs, by jobs",
        swept="jobs",
        axis="jobs",
        lines=(OURS, FigureLine("astraea, values from arrival", {**PAPER, "value_from": "arrival"})),
        measures=("part_of_optimum", "awarded"),
        claims=(
            Claim("at least", "always above 0.6", "astraea", number=0.6),
            Claim("falls", "falls with the jobs", "astraea", unless="with so few jobs nearly all are served"),
        ),
        world={"preset": "astraea", "tenants": 2, "servers": 10, "cells": False, "longest": 8, "slots": 33, "span": 6},
        full=Scale((5, 10, 15), 4),
        small=Scale((5, 8), 2),
        note="Jobs whose shortest run is 8 slots at most: with the paper's own ranges most need hundreds on so few "
        "servers. The bound takes the cluster as one machine, so the true ratio is ours or above.",
    ),
    Figure(
        name="astraea-5b",
        paper="Astraea, Fig. 5 (servers)",
        title="Part of the offline bound on small inputs, by servers",
        swept="servers",
        axis="servers",
        lines=(OURS, FigureLine("astraea, values from arrival", {**PAPER, "value_from": "arrival"})),
        measures=("part_of_optimum", "awarded"),
        claims=(
            Claim("at least", "always above 0.6", "astraea", number=0.6),
            Claim("rises", "rises with the servers", "astraea"),
        ),
        world={"preset": "astraea", "tenants": 2, "jobs": 10, "cells": False, "longest": 8, "slots": 33, "span": 6},
        full=Scale((5, 15, 45), 4),
        small=Scale((5, 10), 2),
        note="See astraea-5a.",
    ),
    Figure(
        name="astraea-7-8",
        paper="Astraea, Figs. 7 and 8",
        title="Fairness: shares of the gains over shares of the quotas",
        swept="jobs",
        axis="jobs",
        lines=ALL,
        measures=("fairness_variance", "fairness_distance"),
        claims=(
            Claim("less", "variance below that of gandiva_fair", "astraea", "gandiva_fair"),
            Claim("less", "variance below that of hived", "astraea", "hived"),
            Claim("less", "ratios nearer to 1 than with gandiva_fair", "astraea", "gandiva_fair", "fairness_distance"),
            Claim("less", "ratios nearer to 1 than with hived", "astraea", "hived", "fairness_distance"),
            Claim(
                "at most",
                "batchsche is absolutely fair (variance 0)",
                "batchsche",
                number=0.0,
                unless="each tenant's part of the revenue is its jobs' and not its quota's, also without sharing; "
                "the paper sets it by decree",
            ),
        ),
        world=WORLD,
        full=Scale((100,), 4),
        small=FEW_JOBS,
    ),
    Figure(
        name="astraea-11",
        paper="Astraea, Fig. 11",
        title="Revenue when the largest price is estimated wrong",
        swept="theta",
        axis="part of the largest value of a unit and slot",
        lines=(FigureLine("astraea", PAPER, (("theta", None),)),),
        measures=("ideal_revenue", "revenue", "awarded"),
        claims=(
            Claim("falls", "too high an estimate earns less than a low one", "astraea"),
            Claim(
                "peak at",
                "80 % is the best of all",
                "astraea",
                number=0.8,
                unless="the largest value over all jobs is one outlier; a tenth of it is nearer to what most are worth",
            ),
        ),
        world={**WORLD, "jobs": 150},
        full=Scale((0.1, 0.5, 0.8, 1.0, 1.5, 2.0), 3),
        small=Scale((0.1, 0.8, 1.5), 2, {"tenants": 4, "servers": 20, "jobs": 40}),
    ),
    Figure(
        name="astraea-13",
        paper="Astraea, Fig. 13",
        title="Utilisation and makespan, convex values",
        swept="jobs",
        axis="jobs",
        lines=ALL,
        measures=("peak_utilisation", "mean_utilisation", "makespan", "awarded"),
        claims=(
            Claim("at least", "astraea uses all workers at its peak", "astraea", number=0.99, unless=WINDOWS),
            Claim("at least", "gandiva_fair uses all workers at its peak", "gandiva_fair", number=0.99),
            Claim("less", "makespan, times that of gandiva_fair", "astraea", "gandiva_fair", "makespan", 0.83, WINDOWS),
            Claim("less", "makespan, times that of hived", "astraea", "hived", "makespan", 0.67, WINDOWS),
            Claim("less", "makespan below that of batchsche", "astraea", "batchsche", "makespan"),
        ),
        world={**WORLD, "value": "convex", "slots": TO_THE_END},
        full=Scale((50,), 3),
        small=Scale((12,), 2, {"tenants": 4, "servers": 20}),
        note="Every job runs to its end. One parameter server a machine, as the paper says: no gang has more than 19 "
        "workers, for all of a job's parameter servers are on one machine.",
    ),
    Figure(
        name="astraea-13b",
        paper="Astraea, Fig. 13, sixteen parameter servers a machine",
        title="Utilisation where parameter servers bind nobody, convex values",
        swept="jobs",
        axis="jobs",
        lines=(OURS,),
        measures=("peak_utilisation", "mean_utilisation", "makespan", "awarded"),
        claims=(
            Claim("mean is", "50 jobs: part of the workers at its peak", "astraea", number=0.99, at=50.0),
            Claim("mean is", "150 jobs: part of the workers at its peak", "astraea", number=0.99, at=150.0),
        ),
        world={**WORLD, "value": "convex", "slots": TO_THE_END},
        adjust=(("parameter_servers", 16.0),),
        full=Scale((50, 150), 2),
        small=Scale((12,), 2, {"tenants": 4, "servers": 20}),
        note="As astraea-13, with room for sixteen parameter servers on every machine.",
    ),
    Figure(
        name="astraea-t2",
        paper="Astraea, Table 2",
        title="Revenue per job and fairness by the number of tenants",
        swept="tenants",
        axis="tenants",
        lines=(OURS,),
        measures=("ideal_per_job", "revenue_per_job", "fairness_variance"),
        claims=(
            Claim("steady", "ideal revenue per job, largest over smallest", "astraea", number=1.069),
            Claim("mean is", "ideal revenue per job", "astraea", number=590.9),
            Claim(
                "steady",
                "fairness variance, largest over smallest",
                "astraea",
                measure="fairness_variance",
                number=1.131,
                unless=SPREAD,
            ),
            Claim("mean is", "fairness variance", "astraea", measure="fairness_variance", number=0.755, unless=SPREAD),
        ),
        world={"preset": "astraea", "servers": 50, "jobs": 100, "cells": False},
        full=Scale((5, 8, 11, 14), 6),
        small=Scale((2, 4), 2, {"servers": 20, "jobs": 40}),
    ),
)

OMITTED = (
    Omitted("astraea-1-3", "Astraea, Figs. 1 to 3, Table 1", "a log's use, the method and its symbols: no comparison"),
    Omitted(
        "astraea-6", "Astraea, Fig. 6", "the offline bound up to the last slot of the other policies takes too long yet"
    ),
    Omitted("astraea-9-10", "Astraea, Figs. 9 and 10", "running times on a laptop: `make bench ONLY=astraea` has ours"),
    Omitted(
        "astraea-12", "Astraea, Fig. 12", "every award is worth more than its cost: an invariant that the tests check"
    ),
)
