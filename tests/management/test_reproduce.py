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
from scheduling.lab.progress import ProgressLine
from scheduling.lab.reproduction.adjusting import ADJUSTMENTS
from scheduling.lab.reproduction.catalogue import FIGURES, OMITTED
from scheduling.lab.reproduction.describing import SCALES, Claim, Figure, FigureLine, RunCheck, Scale
from scheduling.lab.reproduction.engine import FigureRun, Repeated, repeat, scenario_of
from scheduling.lab.reproduction.judging import KINDS, judge
from scheduling.lab.reproduction.measuring import MEASURES
from scheduling.lab.reproduction.pictures import pictures_of
from scheduling.lab.reproduction.writing import report
from scheduling.lab.running import policies_build
from tests.management.files import manage, output_of, refused

MARKET = {"preset": "astraea", "tenants": 2, "servers": 4, "longest": 6, "slots": 17, "span": 3, "cells": False}


def make_figure(swept: str = "jobs", values: Sequence[float] = (3, 6), **changed: object) -> Figure:
    fields = {
        "name": "tiny-1",
        "paper": "Nobody, Fig. 1",
        "title": "Revenue and jobs",
        "swept": swept,
        "axis": swept,
        "lines": (FigureLine("astraea", {"name": "astraea", "mode": "paper"}), FigureLine("fifo", {"name": "fifo"})),
        "measures": ("revenue", "awarded"),
        "claims": (Claim("at least", "some job runs", "astraea", measure="awarded", number=1.0),),
        "full": Scale(tuple(values), 2),
        "small": Scale(tuple(values), 2),
        "world": MARKET,
    }
    return Figure(**{**fields, **changed})  # type: ignore[arg-type]


def run(figure: Figure) -> Repeated:
    return repeat(figure, "small", 1, ProgressLine("testing", "runs"))


# --- the catalogue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_a_figure_names_only_what_there_is(figure: Figure) -> None:
    labels = {line.label for line in figure.lines}
    assert len(labels) == len(figure.lines)
    for claim in figure.claims:
        assert claim.kind in KINDS
        assert claim.line in labels
        assert claim.other in {"", *labels}
        assert set(claim.beside or ()) <= labels
        assert claim.measure in {"", *figure.measures}
    for check in figure.checks:
        assert check.line in labels
        assert check.measure in figure.measures
    assert set(figure.measures) <= MEASURES.keys()
    assert {name for line in figure.lines for name, _ in (*line.adjust, *figure.adjust)} <= ADJUSTMENTS.keys()


@pytest.mark.parametrize("figure", [figure for figure in FIGURES.values() if not figure.table], ids=lambda f: f.name)
def test_every_line_of_a_figure_can_be_built_in_its_world(figure: Figure) -> None:
    for place in {0, len(figure.lines) - 1}:
        scenario = scenario_of(FigureRun(figure, "small", place, 0, 1))
        assert scenario.jobs
        policies_build(scenario)


def test_the_list_has_every_figure_and_why_others_are_missing() -> None:
    text = output_of("reproduce", "--list")
    assert all(figure.name in text for figure in FIGURES.values())
    assert all(omitted.reason in text for omitted in OMITTED)
    assert len({*FIGURES, *(omitted.name for omitted in OMITTED)}) == len(FIGURES) + len(OMITTED)


def test_unknown_and_omitted_figures_are_refused_in_one_line() -> None:
    assert "there is no such figure" in refused("reproduce", "astraea-4x")
    assert "is not repeated: " in refused("reproduce", OMITTED[0].name)
    assert "name a figure" in refused("reproduce")


# --- running ----------------------------------------------------------------------------------------------------------


def test_a_swept_argument_gives_a_curve_for_every_line_with_its_spread() -> None:
    repeated = run(make_figure())
    assert len(repeated.figures) == 2 * 2 * 2
    assert [len(scenario_of(point).jobs) for point in repeated.points[:4]] == [3, 3, 6, 6]
    assert repeated.points[0].seed != repeated.points[1].seed
    own = [figures["revenue"] for figures in repeated.figures[:2]]
    assert repeated.curve(0, "revenue")[0] == pytest.approx(np.mean([number or 0.0 for number in own]))
    assert repeated.spread(0, "revenue")[0] == pytest.approx(np.std([number or 0.0 for number in own], ddof=1))
    assert repeated.figures == run(make_figure()).figures
    assert "tiny-1: 1 of 1 claims came out (2 seeds)." in report(repeated, repeated.verdicts())


def test_a_swept_adjustment_reaches_the_policy_and_the_picture() -> None:
    line = FigureLine("astraea", {"name": "astraea", "mode": "paper"}, (("theta", None),))
    figure = make_figure("theta", (0.1, 2.0), lines=(line,), world={**MARKET, "jobs": 5})
    low, high = (scenario_of(FigureRun(figure, "small", 0, value, 1)).policy["theta"]["worker"] for value in (0, 1))
    assert high - 1 == pytest.approx(20 * (low - 1)) or low == 2.0 < high
    svg = pictures_of(run(figure))["svg"].decode()
    assert "Nobody, Fig. 1: Revenue and jobs" in svg
    assert "realised revenue" in svg


def test_a_table_runs_no_market_and_leaves_its_files(tmp_path: Path) -> None:
    text = output_of("reproduce", "optimus-t3", "--scale", "small", "--processes", 1, "--output", tmp_path)
    names = ("runs.csv", "means.csv", "verdicts.csv")
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        [*(f"optimus-t3-{name}" for name in names), "optimus-t3.png", "optimus-t3.svg"]
    )
    assert "held: requests in all (paper 157, ours 157 ± 0)" in text
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


def twice(curve: Sequence[float | None]) -> list[list[float | None]]:
    """Two draws that are alike: nothing varies."""
    return [[figure, figure] for figure in curve]


@pytest.mark.parametrize(
    ("claim", "mine", "other", "outcome", "ours"),
    [
        (Claim("more", "", "a", "b"), (3, 3), (1, 2), "held", 2.0),
        (Claim("more", "", "a", "b", number=1.9), (3, 3), (1, 2), "held", 2.0),
        (Claim("more", "", "a", "b", number=1.2), (3, 3), (1, 2), "direction only", 2.0),
        (Claim("more", "", "a", "b", number=1.9), (1, 2), (3, 3), "not held", 0.5),
        (Claim("more", "", "a", "b"), (1, 2), (2, 1), "no difference seen", 1.0),
        (Claim("less", "", "a", "b", number=0.5), (1, 2), (3, 3), "held", 0.5),
        (Claim("less", "", "a", "b", number=0.9), (1, 2), (3, 3), "direction only", 0.5),
        (Claim("less", "", "a", "b"), (3, 3), (1, 2), "not held", 2.0),
        (Claim("rises", "", "a"), (1, 2), (), "held", 1.0),
        (Claim("rises", "", "a"), (2, 1), (), "not held", -1.0),
        (Claim("falls", "", "a"), (2, 1), (), "held", -1.0),
        (Claim("falls", "", "a"), (1, 1), (), "no difference seen", 0.0),
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
        (Claim("widens", "", "a", "b"), (2, 5), (1, 4), "no difference seen", 0.0),
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
    verdict = judge(claim, {"a": twice(mine), "b": twice(other)}, VALUES)
    assert (verdict.outcome, verdict.came_out) == (outcome, outcome == "held")
    assert verdict.ours == (None if ours is None else pytest.approx(ours))
    assert verdict.line.startswith(f"{outcome}: ")


def test_a_verdict_names_both_numbers_and_only_a_failure_its_reason() -> None:
    claim = Claim("more", "times fifo", "a", "b", number=1.5, unless="fifo starts at once")
    held, not_held = (judge(claim, {"a": twice((mine,)), "b": twice((2,))}, (1,)).line for mine in (3, 1))
    assert held == "held: times fifo (paper 1.500, ours 1.500 ± 0)"
    assert not_held == "not held: times fifo (paper 1.500, ours 0.5000 ± 0); fifo starts at once"


@pytest.mark.parametrize(
    ("mine", "other", "outcome", "spread"),
    [
        ((11.0, 22.0, 33.0), (10.0, 20.0, 30.0), "held", 0.0),  # a tenth more in every draw, however they differ
        ((11.0, 21.0, 31.0), (10.0, 20.0, 30.0), "held", 0.034),
        ((9.0, 22.0, 32.0), (10.0, 20.0, 30.0), "no difference seen", 0.068),
        ((9.0, 19.0, 29.0), (10.0, 20.0, 30.0), "not held", 0.034),
        ((11.0,), (10.0,), "no difference seen", None),  # who knows what another draw would give
    ],
)
def test_a_direction_needs_more_than_the_paired_spread(
    mine: Sequence[float], other: Sequence[float], outcome: str, spread: float | None
) -> None:
    verdict = judge(Claim("more", "", "a", "b"), {"a": [mine], "b": [other]}, (1.0,))
    assert verdict.outcome == outcome
    assert verdict.spread == (None if spread is None else pytest.approx(spread, rel=0.15, abs=1e-9))


@pytest.mark.parametrize("nothing", [0.0, 1e-90])
def test_a_number_that_hangs_on_one_draw_has_no_spread_and_shows_no_difference(nothing: float) -> None:
    verdict = judge(Claim("more", "times dorm", "a", "b"), {"a": [(3.0, 4.0)], "b": [(nothing, 2.0)]}, (1.0,))
    assert (verdict.outcome, verdict.spread) == ("no difference seen", None)
    assert verdict.line.endswith("(ours 3.500, by how much depends on one draw)")


@pytest.mark.parametrize("seed", range(5))
def test_the_spread_of_a_difference_is_twice_its_paired_standard_error(seed: int) -> None:
    mine, other = np.random.default_rng(seed).normal(5.0, 1.0, (2, 9))
    verdict = judge(Claim("rises", "", "a"), {"a": [mine.tolist(), other.tolist()]}, VALUES)
    assert verdict.spread == pytest.approx(2 * np.std(other - mine, ddof=1) / 3)


def test_a_lead_is_compared_with_that_of_another_pair() -> None:
    claim = Claim("leads by more", "", "a", "b", beside=("c", "d"))
    runs = {name: twice((figure,)) for name, figure in {"a": 3.0, "b": 2.0, "c": 5.0, "d": 4.0}.items()}
    assert (judge(claim, runs, (1,)).outcome, judge(claim, runs, (1,)).ours) == ("held", pytest.approx(0.25))
    assert judge(claim, {**runs, "c": twice((7.0,))}, (1,)).outcome == "not held"


def test_runs_that_end_other_jobs_are_not_compared() -> None:
    claim, runs = Claim("less", "makespan", "a", "b"), {"a": twice((1.0,)), "b": twice((2.0,))}
    whole: list[list[tuple[float, float]]] = [[(50, 50), (50, 50)]]
    assert judge(claim, runs, (1,), {"a": whole, "b": whole}).outcome == "held"
    verdict = judge(claim, runs, (1,), {"a": whole, "b": [[(50, 50), (32, 50)]]})
    assert verdict.line == "not comparable: makespan - b ends 32 of 50 jobs"
    assert verdict.ours is None
    other = judge(claim, runs, (1,), {"a": whole, "b": [[(49, 49), (50, 50)]]})
    assert other.line == "not comparable: makespan - the lines have 50 and 49 jobs"


def test_a_run_says_how_many_jobs_its_figures_are_about() -> None:
    lines = (FigureLine("srtf", {"name": "srtf"}), FigureLine("drf", {"name": "dominant_resource_fairness"}))
    claim = Claim("less", "", "srtf", "drf", "mean_completion")
    fields = {"lines": lines, "measures": ("mean_completion", "makespan"), "claims": (claim,)}
    whole = run(make_figure(**fields, world={**MARKET, "slots": 400}))
    cut = run(make_figure(**fields, world={**MARKET, "slots": 4}))
    assert whole.verdicts()[0].outcome != "not comparable"
    assert cut.verdicts()[0].outcome == "not comparable"


def test_what_no_run_can_miss_is_a_check_of_the_code() -> None:
    passed = run(make_figure(checks=(RunCheck("some job runs", "fifo", "awarded", 1.0),)))
    assert passed.broken() == []
    assert "checked in every run: some job runs" in report(passed, passed.verdicts())
    failed = run(make_figure(checks=(RunCheck("all of a hundred run", "fifo", "awarded", 100.0),)))
    assert failed.broken() == [f"all of a hundred run, fifo: {min_awarded(failed):g} in one of 4 runs"]


def min_awarded(repeated: Repeated) -> float:
    return min(figures["awarded"] or 0.0 for figures in repeated.figures[4:])


# --- the offline bound of Astraea -----------------------------------------------------------------------------------


def test_nobody_exceeds_the_offline_bound() -> None:
    figure = make_figure(values=(3,), measures=("part_of_optimum",), claims=(), world={**MARKET, "slots": 9})
    parts = run(figure).figures
    assert len(parts) == 4
    for figures in parts:
        part = figures["part_of_optimum"]
        assert part is not None
        assert part <= 1.0 + 1e-9


@pytest.mark.wide
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


def test_nothing_is_a_multiple_of_nothing() -> None:
    verdict = judge(Claim("more", "above fifo", "a", "b"), {"a": twice((3.0,)), "b": twice((0.0,))}, (1.0,))
    assert verdict.line == "not measured: above fifo - a line reaches nothing"
