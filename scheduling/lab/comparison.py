"""Comparing policies: the same scenarios run under each, and the same figures of each run, with means and spreads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scheduling.core import metrics, workload
from scheduling.core.policies import POLICIES
from scheduling.core.results import plain
from scheduling.core.scenario import BadScenario, Scenario, read, write
from scheduling.core.types import BATCH
from scheduling.lab.files import flaws_of, scenario_load
from scheduling.lab.running import ScenarioRun, policies_build, run
from scheduling.lab.settings import Setting, Variant, settings_for, with_changes
from scheduling.lab.tables import NOTHING, with_spread
from tenants.common import csv_files

ROUNDING = 1e-9  # relative, for amounts of credits

Figures = dict[str, float | None]

# The figures of a comparison, in order, and their titles.
MEASURES = {
    "revenue": "realised revenue, credits",
    "ideal_revenue": "ideal revenue, credits",
    "awarded": "jobs awarded",
    "rejected": "jobs rejected",
    "waiting": "jobs waiting",
    "expired": "jobs expired",
    "mean_completion_slots": "mean completion, slots",
    "makespan_slots": "makespan, slots",
    "utilisation": "utilisation",
    "fairness_variance": "variance of the fairness ratio",
    "jobs_below_floor": "jobs below their floor",
    "tenants_worse_off": "tenants worse off than alone",
    "owners_income": "owners' income, credits",
    "taken_over": "taken over by the teacher",  # the part of runs in which it did; only for learned policies
    "seconds": "seconds of computing",
}


@dataclass(frozen=True)
class Trial:
    """One run of a comparison: a variant of a policy on a scenario, drawn with the file's seed plus `step`."""

    path: Path
    variant: Variant
    changes: tuple[Setting, ...]
    step: int
    redrawn: bool  # whether the scenario itself is drawn again


@dataclass(frozen=True)
class VariantColumn:
    """A variant's figures over all its runs."""

    label: str
    runs: Sequence[Figures]

    def mean(self, measure: str) -> float | None:
        """Return the mean, or None where any run does not know the figure."""
        numbers = self._numbers(measure)
        return fmean(numbers) if numbers else None

    def spread(self, measure: str) -> float | None:
        """Return the standard deviation over the runs (n - 1), or None for a single one."""
        numbers = self._numbers(measure)
        return stdev(numbers) if len(numbers) > 1 else None

    def text(self, measure: str, nothing: str = NOTHING) -> str:
        """Return `22,612 ± 340`, or the mean alone where nothing varied."""
        mean = self.mean(measure)
        return nothing if mean is None else with_spread(mean, self.spread(measure) or 0.0)

    def _numbers(self, measure: str) -> list[float]:
        numbers = [figures.get(measure) for figures in self.runs]
        return [] if None in numbers else [number for number in numbers if number is not None]


def trial_run(trial: Trial) -> Figures:
    """Return the figures of one run."""
    scenario = _prepared(scenario_load(trial.path), trial)
    return figures(run(_seeded(scenario, trial.step)))


def _prepared(scenario: Scenario, trial: Trial) -> Scenario:
    settings = settings_for(scenario.policy, trial.variant.name)
    settings = with_changes(with_changes(settings, trial.changes), trial.variant.changes, "--policies")
    if trial.redrawn and trial.step:
        scenario = redraw(scenario, trial.step)
    return replace(scenario, policy=settings)


def plan(path: Path, variants: Sequence[Variant], changes: Mapping[str, Sequence[Setting]], seeds: int) -> list[Trial]:
    """Return the runs to make. A variant that does not depend on a seed is run once; settings that nobody can use are
    refused here."""
    scenario = scenario_load(path)
    with flaws_of(path):
        redrawn = seeds > 1 and can_redraw(scenario)
    trials = []
    for variant in variants:
        own = tuple(changes.get("policy", ())) + tuple(changes.get(variant.name, ()))
        first = Trial(path, variant, own, 0, redrawn)
        try:
            policy = policies_build(_prepared(scenario, first))[BATCH]
        except BadScenario as error:
            raise BadScenario(variant.label, str(error)) from None
        varies = redrawn or hasattr(policy, "seed")
        trials += [replace(first, step=step) for step in range(seeds if varies else 1)]
    return trials


def every_policy(path: Path) -> tuple[list[Variant], list[str]]:
    """Return all policies that can be built for the scenario, and why the others cannot.

    An elastic pool's policy is another policy with prices, so it is not compared with itself.
    """
    scenario = scenario_load(path)
    compared, left_out = [], []
    for name in POLICIES.keys() - {"elastic"}:
        try:
            policies_build(replace(scenario, policy=settings_for(scenario.policy, name), instant=None))
        except BadScenario as error:
            left_out.append(f"{name} ({error})")
        else:
            compared.append(Variant(name))
    return sorted(compared, key=lambda variant: variant.name), sorted(left_out)


def can_redraw(scenario: Scenario) -> bool:
    """Return whether the scenario is, but for its policies, what its generator draws. A scenario that was edited by
    hand is not drawn again."""
    if scenario.generator is None or scenario.generator.get("name") != "synthetic":
        return False
    original = write(redraw(scenario, 0))
    return {**write(scenario), "policy": None, "instant": None} == {**original, "policy": None, "instant": None}


def redraw(scenario: Scenario, step: int) -> Scenario:
    """Return the scenario that its generator draws with the seed plus `step`; the policies stay."""
    generator = scenario.generator or {}
    try:
        document = workload.synthetic(**generator["args"], seed=generator["seed"] + step)
    except (KeyError, TypeError) as error:
        raise BadScenario("generator", f"cannot be used again ({error})") from None
    return replace(read(document), policy=scenario.policy, instant=scenario.instant)


def _seeded(scenario: Scenario, step: int) -> Scenario:
    """Return the scenario with a policy that draws, if it does, with its own seed plus `step`."""
    seed = getattr(policies_build(scenario)[BATCH], "seed", None) if step else None
    return scenario if seed is None else replace(scenario, policy={**scenario.policy, "seed": seed + step})


def figures(done: ScenarioRun) -> Figures:
    """Return the measures of one run; utilisation is there once for each resource."""
    summary = metrics.summary(done.scenario, done.outcome)
    rows = metrics.tenant_rows(done.scenario, done.outcome, done.alone)
    alone_known = any(alone is not None for alone in done.alone)
    values: dict[str, Any] = {
        **{measure: summary[measure] for measure in MEASURES if measure in summary},
        "jobs_below_floor": _below_floor(done, summary),
        "tenants_worse_off": len(metrics.worse_off(rows)) if alone_known else None,
        "seconds": done.seconds["total"],
    }
    remembered = done.outcome.memory.get(BATCH, {})
    if "guard" in remembered:
        values["taken_over"] = float(remembered["guard"] is not None)
    ordered: Figures = {}
    for measure in MEASURES:
        if measure == "utilisation":
            ordered |= {f"utilisation {resource}": share for resource, share in values[measure].items()}
        elif measure in values:
            ordered[measure] = values[measure]
    return ordered


def _below_floor(done: ScenarioRun, summary: Mapping[str, Any]) -> int | None:
    """Return how many jobs got less than they would have got alone: than their floor, or else than in the run of that
    world."""
    if not done.alone_outcomes:
        return None if None in done.alone else summary["jobs_below_floor"]
    floors = {track.job.number: metrics.net(track) for outcome in done.alone_outcomes for track in outcome.tracks}
    return sum(_short(metrics.net(track), floors.get(track.job.number, 0.0)) for track in done.outcome.tracks)


def _short(amount: float, floor: float) -> bool:
    return amount < floor - ROUNDING * max(1.0, abs(floor))


def title(measure: str) -> str:
    """Return the title of a measure; `utilisation worker` is that of a resource."""
    return MEASURES.get(measure, measure.replace("utilisation ", "utilisation of "))


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return the rows under their header, with numbers as in result files."""
    return csv_files.csv_text([header, *(plain(row) for row in rows)], ends="\n")
