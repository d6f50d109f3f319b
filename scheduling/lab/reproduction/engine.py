"""The one engine of every figure: a run for each line, swept value and seed, their means and spreads, and the
verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling.core.policies.dl2.files import WeightFile
from scheduling.core.scenario import BadScenario, Scenario, read
from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH
from scheduling.core.workload import synthetic
from scheduling.lab.comparison import Figures, VariantColumn
from scheduling.lab.parallel import each
from scheduling.lab.progress import ProgressLine
from scheduling.lab.reproduction.adjusting import ADJUSTMENTS
from scheduling.lab.reproduction.describing import LAST, Figure, FigureLine, Scale
from scheduling.lab.reproduction.judging import ClaimVerdict, Ended, judge
from scheduling.lab.reproduction.learning import SWEPT, TrainingTask, task, trained
from scheduling.lab.reproduction.measuring import MEASURES
from scheduling.lab.reproduction.misjudging import BELIEFS
from scheduling.lab.reproduction.other_speeds import SPEEDS, AtAnotherSpeed
from scheduling.lab.reproduction.tabling import TABLES
from scheduling.lab.running import ScenarioRun, policies_build, run

JOBS = "jobs of the draw"


@dataclass(frozen=True)
class FigureRun:
    """One run of a figure: the indices of its line and of its swept value, and the seed of its world. `weights` are
    what was trained for it."""

    figure: Figure
    scale: str
    line: int
    value: int
    seed: int
    weights: bytes | None = None


@dataclass(frozen=True)
class Repeated:
    """A figure's runs. `points` are ordered by line, then by swept value, then by seed; `figures` are in the same
    order."""

    figure: Figure
    scale: Scale
    points: Sequence[FigureRun]
    figures: Sequence[Figures]

    def column(self, line: int, value: int) -> VariantColumn:
        """Return the figures of all seeds of one point of a curve."""
        seeds = self.scale.seeds
        first = (line * len(self.scale.values) + value) * seeds
        return VariantColumn(self.figure.lines[line].label, self.figures[first : first + seeds])

    def curve(self, line: int, measure: str) -> list[float | None]:
        """Return the mean over all seeds at each swept value."""
        return [self.column(line, value).mean(measure) for value in range(len(self.scale.values))]

    def spread(self, line: int, measure: str) -> list[float]:
        """Return the standard deviation over the seeds at each swept value."""
        return [self.column(line, value).spread(measure) or 0.0 for value in range(len(self.scale.values))]

    def verdicts(self) -> list[ClaimVerdict]:
        """Return the verdict on every claim of the figure."""
        verdicts_made = []
        for claim in self.figure.claims:
            measure = claim.measure or self.figure.measures[0]
            runs = {
                line.label: [
                    [figures[measure] for figures in self.column(place, value).runs]
                    for value in range(len(self.scale.values))
                ]
                for place, line in enumerate(self.figure.lines)
            }
            verdicts_made.append(judge(claim, runs, self.scale.values, self._ended(measure)))
        return verdicts_made

    def _ended(self, measure: str) -> Ended | None:
        """Return for every run the number of jobs that the measure is about, and of all jobs; or None where it is not
        about jobs that ended."""
        if MEASURES[measure].about is None:
            return None
        return {
            line.label: [
                [(run[about(measure)] or 0.0, run[JOBS] or 0.0) for run in self.column(place, value).runs]
                for value in range(len(self.scale.values))
            ]
            for place, line in enumerate(self.figure.lines)
        }

    def broken(self) -> list[str]:
        """Return a line for each check that some run does not pass."""
        lines = []
        for check in self.figure.checks:
            figures = [
                values[check.measure]
                for point, values in zip(self.points, self.figures, strict=True)
                if self.figure.lines[point.line].label == check.line
            ]
            if wrong := [figure for figure in figures if figure is not None and figure < check.least]:
                lines.append(f"{check.words}, {check.line}: {min(wrong):g} in one of {len(figures)} runs")
        return lines


def repeat(figure: Figure, scale: str, processes: int, progress: ProgressLine) -> Repeated:
    """Run a figure at a scale."""
    size = figure.scale(scale)
    points = [
        FigureRun(figure, scale, line, value, figure.first_seed + seed)
        for line in range(len(figure.lines))
        for value in range(len(size.values))
        for seed in range(size.seeds)
    ]
    points = _taught(points, processes, progress)
    return Repeated(figure, size, points, each(point_run, points, processes, progress))


def _taught(points: Sequence[FigureRun], processes: int, progress: ProgressLine) -> list[FigureRun]:
    """Return the points with the weights they need. Points that need the same weights share one training."""
    tasks = [task_of(point) for point in points]
    once = list(dict.fromkeys(wanted for wanted in tasks if wanted is not None))
    networks = dict(zip(once, each(trained, once, processes, progress), strict=True))
    return [
        point if wanted is None else replace(point, weights=networks[wanted][_mark(point)])
        for point, wanted in zip(points, tasks, strict=True)
    ]


def task_of(point: FigureRun) -> TrainingTask | None:
    """Return the training that a point needs, or None."""
    figure, scale = point.figure, point.figure.scale(point.scale)
    training, value = figure.lines[point.line].training, scale.values[point.value]
    if training is None:
        return None
    if scale.effort is None:
        raise BadScenario(figure.name, "trains networks, and the scale does not say how much")
    number = (point.seed - figure.first_seed) % scale.effort.trainings
    wanted = task(training, scale.effort, _arguments(figure, scale, value), figure.swept, value, number)
    return replace(wanted, marks=scale.values) if figure.swept == "steps" else wanted


def _mark(point: FigureRun) -> float:
    swept = point.figure.swept
    return point.figure.scale(point.scale).values[point.value] if swept == "steps" else LAST


def point_run(point: FigureRun) -> Figures:
    """Return the measures of one run."""
    figure = point.figure
    if figure.table:
        return TABLES[figure.table](
            figure.lines[point.line].label, figure.scale(point.scale).values[point.value], point.seed
        )
    done = _run(point)
    figures: Figures = {name: MEASURES[name].of(done) for name in figure.measures}
    for name in figure.measures:
        if (count := MEASURES[name].about) is not None:
            figures[about(name)] = float(count(done))
    return {**figures, JOBS: float(len(done.scenario.jobs))}


def about(measure: str) -> str:
    """Return the name of the number of jobs that a measure is about."""
    return f"{measure}: jobs"


def _run(point: FigureRun) -> ScenarioRun:
    """Run a point: under a wrong belief, if that is what is swept, and at the speed that the figure has."""
    figure, scenario = point.figure, scenario_of(point)
    belief = figure.lines[point.line].belief or (figure.swept if figure.swept in BELIEFS else "")
    if not belief and not figure.speed:
        return run(scenario)
    policy = policies_build(scenario)[BATCH]
    if belief:
        policy = BELIEFS[belief](policy, scenario, figure.scale(point.scale).values[point.value])
    if figure.speed:
        policy = AtAnotherSpeed(policy, SPEEDS[figure.speed])
    return ScenarioRun(scenario, {BATCH: policy}, simulate(scenario, {BATCH: policy}), (), (), {})


def scenario_of(point: FigureRun) -> Scenario:
    """Return the world of one run, with the policy that runs in it."""
    figure, scale = point.figure, point.figure.scale(point.scale)
    line, value = figure.lines[point.line], scale.values[point.value]
    world = read(synthetic(seed=point.seed, **_arguments(figure, scale, value)))
    scenario = _adjusted(world, figure, line, value)
    if point.weights is None:
        return scenario
    return replace(scenario, policy={**scenario.policy, "weights": WeightFile("trained", point.weights)})


def _arguments(figure: Figure, scale: Scale, value: float) -> dict[str, Any]:
    """Return the arguments of the workload."""
    arguments: dict[str, Any] = {**figure.world, **scale.world}
    if figure.swept not in (*ADJUSTMENTS, *SWEPT, *BELIEFS):
        arguments[figure.swept] = int(value) if value == int(value) else value
    return arguments


def _adjusted(scenario: Scenario, figure: Figure, line: FigureLine, value: float) -> Scenario:
    settings = line.policy
    for name, number in (*figure.adjust, *line.adjust):
        scenario, settings = ADJUSTMENTS[name](scenario, settings, value if number is None else number)
    return replace(scenario, policy=settings)
