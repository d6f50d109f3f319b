"""`manage.py reproduce`: every figure can be drawn, tiny ones of each kind run, verdicts say what the numbers say."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from scheduling.core.offline.astraea import upper_bound
from scheduling.core.policies.batchsche.ways import ways
from scheduling.core.scenario import read
from scheduling.core.workload import synthetic
from scheduling.management.progress import Progress
from scheduling.management.reproduction.adjusting import ADJUSTMENTS
from scheduling.management.reproduction.catalogue import FIGURES, OMITTED
from scheduling.management.reproduction.describing import SCALES, Claim, Figure, Line, Scale
from scheduling.management.reproduction.engine import Point, Repeated, repeat, scenario_of
from scheduling.management.reproduction.judging import KINDS, judge
from scheduling.management.reproduction.measuring import MEASURES
from scheduling.management.reproduction.pictures import pictures_of
from scheduling.management.reproduction.writing import report
from scheduling.management.running import policies_build
from tests.scheduling.commands.files import manage, refused, said

MARKET = {"preset": "astraea", "tenants": 2, "servers": 4, "longest": 6, "slots": 17, "span": 3, "cells": False}


def make_figure(swept: str = "jobs", values: Sequence[float] = (3, 6), **changed: object) -> Figure:
    fields = {
        "name": "tiny-1",
        "paper": "Nobody, Fig. 1",
        "title": "Revenue and jobs",
        "swept": swept,
        "axis": swept,
        "lines": (Line("astraea", {"name": "astraea", "mode": "paper"}), Line("fifo", {"name": "fifo"})),
        "measures": ("revenue", "awarded"),
        "claims": (Claim("at least", "some job runs", "astraea", measure="awarded", number=1.0),),
        "full": Scale(tuple(values), 2),
        "small": Scale(tuple(values), 2),
        "world": MARKET,
    }
    return Figure(**{**fields, **changed})  # type: ignore[arg-type]


def run(figure: Figure) -> Repeated:
    return repeat(figure, "small", 1, Progress("testing", "runs"))


# --- the catalogue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_a_figure_names_only_what_there_is(figure: Figure) -> None:
    labels = {line.label for line in figure.lines}
    assert len(labels) == len(figure.lines)
    for claim in figure.claims:
        assert claim.kind in KINDS
        assert claim.line in labels
        assert claim.other in {"", *labels}
        assert claim.measure in {"", *figure.measures}
    assert set(figure.measures) <= MEASURES.keys()
    assert {name for line in figure.lines for name, _ in (*line.adjust, *figure.adjust)} <= ADJUSTMENTS.keys()


@pytest.mark.parametrize("figure", [figure for figure in FIGURES.values() if not figure.table], ids=lambda f: f.name)
def test_every_line_of_a_figure_can_be_built_in_its_world(figure: Figure) -> None:
    for place in {0, len(figure.lines) - 1}:
        scenario = scenario_of(Point(figure, "small", place, 0, 1))
        assert scenario.jobs
        policies_build(scenario)


def test_the_list_has_every_figure_and_why_others_are_missing() -> None:
    shown = said("reproduce", "--list")
    assert all(figure.name in shown for figure in FIGURES.values())
    assert all(omitted.reason in shown for omitted in OMITTED)
    assert len({*FIGURES, *(omitted.name for omitted in OMITTED)}) == len(FIGURES) + len(OMITTED)


def test_unknown_and_omitted_figures_are_refused_in_one_line() -> None:
    assert "there is no such figure" in refused("reproduce", "astraea-4x")
    assert "is not repeated: " in refused("reproduce", OMITTED[0].name)
    assert "name a figure" in refused("reproduce")


# --- running ----------------------------------------------------------------------------------------------------------


def test_a_swept_argument_gives_a_curve_for_every_line_with_its_spread() -> None:
    repeated = run(make_figure())
    assert len(repeated.found) == 2 * 2 * 2
    assert [len(scenario_of(point).jobs) for point in repeated.points[:4]] == [3, 3, 6, 6]
    assert repeated.points[0].seed != repeated.points[1].seed
    own = [found["revenue"] for found in repeated.found[:2]]
    assert repeated.curve(0, "revenue")[0] == pytest.approx(np.mean([number or 0.0 for number in own]))
    assert repeated.spread(0, "revenue")[0] == pytest.approx(np.std([number or 0.0 for number in own], ddof=1))
    assert repeated.found == run(make_figure()).found
    assert "tiny-1: 1 of 1 claims came out (2 seeds)." in report(repeated, repeated.verdicts())


def test_a_swept_adjustment_reaches_the_policy_and_the_picture() -> None:
    line = Line("astraea", {"name": "astraea", "mode": "paper"}, (("theta", None),))
    figure = make_figure("theta", (0.1, 2.0), lines=(line,), world={**MARKET, "jobs": 5})
    low, high = (scenario_of(Point(figure, "small", 0, value, 1)).policy["theta"]["worker"] for value in (0, 1))
    assert high - 1 == pytest.approx(20 * (low - 1)) or low == 2.0 < high
    svg = pictures_of(run(figure))["svg"].decode()
    assert "Nobody, Fig. 1: Revenue and jobs" in svg
    assert "realised revenue" in svg


def test_a_table_runs_no_market_and_leaves_its_files(tmp_path: Path) -> None:
    shown = said("reproduce", "optimus-t3", "--scale", "small", "--processes", 1, "--output", tmp_path)
    names = ("runs.csv", "means.csv", "verdicts.csv")
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        [*(f"optimus-t3-{name}" for name in names), "optimus-t3.png", "optimus-t3.svg"]
    )
    assert "held: requests in all (paper 157, ours 157)" in shown
    with (tmp_path / "optimus-t3-verdicts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["outcome"] for row in rows[:3]] == ["held"] * 3
    assert len(rows) == len(FIGURES["optimus-t3"].claims)


@pytest.mark.parametrize("scale", SCALES)
def test_scales_are_those_of_the_figure(scale: str) -> None:
    figure = FIGURES["astraea-4a"]
    assert figure.scale(scale) is getattr(figure, scale)


# --- judging ----------------------------------------------------------------------------------------------------------

VALUES = (1.0, 2.0)


@pytest.mark.parametrize(
    ("claim", "mine", "other", "outcome", "ours"),
    [
        (Claim("more", "", "a", "b"), (3, 3), (1, 2), "held", 2.0),
        (Claim("more", "", "a", "b", number=1.9), (3, 3), (1, 2), "held", 2.0),
        (Claim("more", "", "a", "b", number=1.2), (3, 3), (1, 2), "direction only", 2.0),
        (Claim("more", "", "a", "b", number=1.9), (1, 2), (3, 3), "not held", 0.5),
        (Claim("more", "", "a", "b"), (1, 2), (2, 1), "not held", 1.0),
        (Claim("less", "", "a", "b", number=0.5), (1, 2), (3, 3), "held", 0.5),
        (Claim("less", "", "a", "b", number=0.9), (1, 2), (3, 3), "direction only", 0.5),
        (Claim("less", "", "a", "b"), (3, 3), (1, 2), "not held", 2.0),
        (Claim("rises", "", "a"), (1, 2), (), "held", 1.0),
        (Claim("rises", "", "a"), (2, 1), (), "not held", -1.0),
        (Claim("falls", "", "a"), (2, 1), (), "held", -1.0),
        (Claim("falls", "", "a"), (1, 1), (), "not held", 0.0),
        (Claim("at least", "", "a", number=0.6), (0.6, 0.9), (), "held", 0.6),
        (Claim("at least", "", "a", number=0.6), (0.5, 0.9), (), "not held", 0.5),
        (Claim("at most", "", "a", number=1.5), (1.0, 1.5), (), "held", 1.5),
        (Claim("at most", "", "a", number=1.5), (1.0, 1.6), (), "not held", 1.6),
        (Claim("mean is", "", "a", number=10.0), (8, 16), (), "held", 12.0),
        (Claim("mean is", "", "a", number=10.0), (8, 20), (), "not held", 14.0),
        (Claim("steady", "", "a", number=1.1), (10, 11), (), "held", 1.1),
        (Claim("steady", "", "a", number=1.1), (10, 14), (), "direction only", 1.4),
        (Claim("steady", "", "a", number=1.1), (10, 16), (), "not held", 1.6),
        (Claim("widens", "", "a", "b"), (2, 5), (1, 2), "held", 2.0),
        (Claim("widens", "", "a", "b"), (2, 5), (1, 4), "not held", 0.0),
        (Claim("pulls away", "", "a", "b"), (2, 2), (3, 4), "held", 0.5),
        (Claim("pulls away", "", "a", "b"), (2, 4), (3, 5), "not held", -0.25),
        (Claim("pulls away", "", "a", "b"), (4, 4), (1, 3), "not held", 0.5),
        (Claim("peak at", "", "a", number=2.0), (1, 2), (), "held", 2.0),
        (Claim("peak at", "", "a", number=2.0), (3, 2), (), "not held", 1.0),
        (Claim("rises", "", "a"), (1, None), (), "not measured", None),
        (Claim("more", "", "a", "b"), (1, 2), (None, 1), "not measured", None),
    ],
)
def test_a_verdict_says_what_the_curves_show(
    claim: Claim, mine: Sequence[float], other: Sequence[float], outcome: str, ours: float | None
) -> None:
    verdict = judge(claim, {"a": mine, "b": other}, VALUES)
    assert (verdict.outcome, verdict.came_out) == (outcome, outcome == "held")
    assert verdict.ours == (None if ours is None else pytest.approx(ours))
    assert verdict.line.startswith(f"{outcome}: ")


def test_a_verdict_names_both_numbers_and_only_a_failure_its_reason() -> None:
    claim = Claim("more", "times fifo", "a", "b", number=1.5, unless="fifo starts at once")
    assert judge(claim, {"a": (3,), "b": (2,)}, (1,)).line == "held: times fifo (paper 1.500, ours 1.500)"
    assert judge(claim, {"a": (1,), "b": (2,)}, (1,)).line == (
        "not held: times fifo (paper 1.500, ours 0.5000); fifo starts at once"
    )


# --- the offline bound of Astraea -----------------------------------------------------------------------------------


def test_nobody_exceeds_the_offline_bound() -> None:
    figure = make_figure(values=(3,), measures=("part_of_optimum",), claims=(), world={**MARKET, "slots": 9})
    parts = run(figure).found
    assert len(parts) == 4
    for found in parts:
        part = found["part_of_optimum"]
        assert part is not None
        assert part <= 1.0 + 1e-9


def test_the_offline_bound_of_one_job_is_its_best_run() -> None:
    scenario = read(synthetic(seed=3, jobs=1, **{**MARKET, "servers": 1}))
    job = scenario.jobs[0]
    best = upper_bound(scenario.cluster, scenario.jobs, 200)
    fitting = [way for way in ways(job, scenario.cluster.slot_seconds) if way.workers <= scenario.cluster.total[0]]
    shortest = min(way.slots for way in fitting)
    assert best == pytest.approx(float(job.value(job.first_slot + shortest - job.arrival)))


def test_needs_no_settings_and_no_database() -> None:
    done = manage("reproduce", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "astraea-4a" in done.stdout
