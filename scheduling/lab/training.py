"""Training a network in a folder: draws of the scenario, rounds that are kept as they are made, and a verdict at the
end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from scheduling.core.policies.dl2.files import BadWeights, Network, decode, encode, schema
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import simulate
from scheduling.core.training import course as courses
from scheduling.core.training.course import Course, TrainingState
from scheduling.core.training.judging import Margin, Score, judge, margin, served
from scheduling.core.training.lessons import Lessons, lessons
from scheduling.core.types import BATCH, Policy
from scheduling.lab.comparison import can_redraw, redraw
from scheduling.lab.files import reason, save
from scheduling.lab.running import policies_build
from scheduling.lab.worlds import ONE, WORLDS, World

# Draws of a scenario, by steps from its seed. No draw is used for two purposes.
LESSONS, ROUNDS, VALIDATION, HELD_OUT = 1_000_000, 1, 2_000_000, 3_000_000
CHECKPOINT, WEIGHTS, SCHEMA = "checkpoint.npz", "weights.npz", "weights.json"

Report = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Drawing:
    """The source of scenarios: drawn again with other seeds where that is possible, else always the same one."""

    scenario: Scenario
    redrawn: bool
    teacher: str
    world: World = WORLDS[ONE]

    @classmethod
    def of(cls, scenario: Scenario, teacher: str, world: World = WORLDS[ONE]) -> Drawing:
        """Return a source under the teacher, with the teacher's own defaults."""
        scenario = replace(scenario, policy={"name": teacher}, instant=None)
        return cls(scenario, can_redraw(scenario), teacher, world)

    def step(self, step: int) -> Scenario:
        """Return the scenario `step` steps from its seed."""
        return self.world.changed(redraw(self.scenario, step) if self.redrawn else self.scenario)

    def steps(self, first: int, count: int) -> list[Scenario]:
        """Return several in a row, or a single one where they would all be the same."""
        return [self.step(first + k) for k in range(count if self.redrawn else 1)]


@dataclass(frozen=True)
class TrainingVerdict:
    """The teacher and the network on the same held-out draws."""

    teacher: Sequence[Score]
    network: Sequence[Score]

    @property
    def completion(self) -> Margin:
        """Return by which part jobs are done sooner."""
        return margin([score.completion for score in self.teacher], [score.completion for score in self.network])

    def document(self) -> dict[str, Any]:
        """Return the verdict as plain JSON."""
        completion = self.completion
        return {
            "draws": completion.runs,
            "teacher_completion_slots": round(fmean(score.completion for score in self.teacher), 6),
            "completion_slots": round(fmean(score.completion for score in self.network), 6),
            "shorter_by": round(completion.mean, 6),
            "spread": round(completion.spread, 6),
            "draws_won": completion.wins,
            "teacher_reward": round(fmean(score.reward for score in self.teacher), 6),
            "reward": round(fmean(score.reward for score in self.network), 6),
        }


def types_of(scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """Return the models that jobs name, by their names."""
    return tuple(sorted({job.samples.model for scenario in scenarios for job in scenario.jobs} - {""}))


def lessons_of(scenarios: Sequence[Scenario], shape: NetworkShape, world: World = WORLDS[ONE]) -> Lessons:
    """Return what the teacher decides on these scenarios, as lessons."""
    return lessons([(each, simulate(each, {BATCH: world.around(_teacher(each))})) for each in scenarios], shape)


def judge_teacher(scenarios: Sequence[Scenario], world: World = WORLDS[ONE]) -> list[Score]:
    """Return the teacher's figures."""
    return [judge(world.around(_teacher(scenario)), scenario) for scenario in scenarios]


def _teacher(scenario: Scenario) -> Policy:
    return policies_build(scenario)[BATCH]


def judge_network(network: Network, scenarios: Sequence[Scenario], world: World = WORLDS[ONE]) -> list[Score]:
    """Return the network's figures as it would be served: from its file, in half precision."""
    decoded = decode(encode(network))
    if isinstance(decoded, str):
        raise BadScenario("training", f"came to weights of no use ({decoded}); try a smaller rate")
    return [judge(world.around(served(decoded)), scenario) for scenario in scenarios]


def resume(folder: Path, course: Course) -> TrainingState | None:
    """Return what an earlier training left in the folder, or None if nothing."""
    path = folder / CHECKPOINT
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadScenario(str(path), f"cannot be read ({reason(error)})") from None
    try:
        state = courses.thaw(course, content)
    except (BadWeights, KeyError, ValueError):
        raise BadScenario(str(path), "is no training; remove it to begin anew") from None
    if state is None:
        raise BadScenario(str(path), "is a training with other settings; remove it, or choose another folder")
    return state


def train(
    course: Course,
    drawing: Drawing,
    folder: Path,
    state: TrainingState,
    *,
    rounds: int,
    slots: int,
    every: int,
    validation: Sequence[Scenario],
    lessons: Lessons,
    report: Report,
) -> TrainingState:
    """Continue until `rounds` rounds, or `slots` slots, are played. Each round is in the folder before the next
    begins."""
    while state.passes < course.passes:
        state = courses.take_lessons(course, state, lessons)
        if state.passes % 10 == 0 or state.passes == course.passes:
            _keep(folder, course, state)
        report(state.passes, course.passes + rounds)
    if not state.curve:
        state = _judge(course, state, validation, drawing.world)
    while state.rounds < rounds and state.slots < slots:
        first = ROUNDS + state.rounds * course.clusters
        scenarios = [drawing.step(first + k) for k in range(course.clusters)]
        state = courses.learn(course, state, scenarios, drawing.world.round)
        if state.rounds % every == 0 or state.rounds == rounds or state.slots >= slots:
            state = _judge(course, state, validation, drawing.world)
        _keep(folder, course, state)
        report(course.passes + state.rounds, course.passes + rounds)
    if state.curve[-1]["round"] != state.rounds:  # it stopped between two judgements, and now fewer rounds are wanted
        state = _judge(course, state, validation, drawing.world)
        _keep(folder, course, state)
    return state


def _judge(course: Course, state: TrainingState, validation: Sequence[Scenario], world: World) -> TrainingState:
    """Return the state with one more row of the curve."""
    scores = judge_network(Network(course.shape, state.brain.policy, {}), validation, world)
    completion, gained = fmean(score.completion for score in scores), fmean(score.reward for score in scores)
    return courses.judged(state, round(completion, 6), round(gained, 6))


def _keep(folder: Path, course: Course, state: TrainingState) -> None:
    save(folder / CHECKPOINT, courses.freeze(course, state))


def deliver(folder: Path, network: Network) -> None:
    """Write the weights, and their description for people to read."""
    save(folder / WEIGHTS, encode(network))
    save(folder / SCHEMA, json.dumps(schema(network.shape, network.facts), indent=2, sort_keys=True) + "\n")
