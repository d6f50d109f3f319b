"""Training networks for a figure, on draws of its own market that none of its runs uses.

The result of a training depends on its `TrainingTask` alone. A step is one update of the policy's network: by a batch
of lessons, or after a slot of rewards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean
from typing import Any

from scheduling.core.policies.dl2.files import Network, encode
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.scenario import Scenario, read
from scheduling.core.training import course as courses
from scheduling.core.training.course import Course, TrainingState
from scheduling.core.training.learner import Rules
from scheduling.core.training.lessons import Lessons
from scheduling.core.workload import synthetic
from scheduling.core.workload.model_jobs import MODELS
from scheduling.lab import training
from scheduling.lab.reproduction.describing import LAST, Effort, Training

SWEPT = ("steps", "seen", "clusters")
RULES = Rules(rate=0.0003, value_rate=0.001, gamma=0.0, replay=4096, resting=3)  # those of the shipped weights
FIRST_SEED, APART = 10_000_000, 10_000_000  # the first training's first seed, and the distance to the next training


@dataclass(frozen=True)
class TrainingTask:
    """One training. `world` are arguments of the workload, and `number` distinguishes trainings of one kind. A network
    is kept at every mark: the last one with no more steps than that, or at `LAST` the best."""

    training: Training
    effort: Effort
    world: tuple[tuple[str, Any], ...]
    number: int
    marks: tuple[float, ...]


def task(
    course: Training, effort: Effort, world: Mapping[str, Any], swept: str, value: float, number: int
) -> TrainingTask:
    """Return the training of a line where `value` is swept. Steps are swept within one training."""
    if swept == "seen":
        effort = replace(effort, jobs=round(value))
    if swept == "clusters":
        course = replace(course, clusters=round(value))
    return TrainingTask(course, effort, tuple(sorted(world.items())), number, (LAST,))


@lru_cache(maxsize=64)  # figures share trainings
def trained(wanted: TrainingTask) -> Mapping[float, bytes]:
    """Return the network at each mark, as a file."""
    watched = [draw(wanted, training.LESSONS + k, 0.0) for k in range(wanted.effort.watched)]
    shape = NetworkShape(
        jobs=wanted.effort.jobs,
        columns=len(MODELS) + 1,
        types=tuple(sorted(model.name for model in MODELS)),
        hidden=wanted.effort.hidden,
        first_bundle=wanted.training.first_bundle,
    )
    lessons = training.lessons_of(watched, shape)
    rules = replace(RULES, **dict(wanted.training.rules))
    steps_of_pass = math.ceil(len(lessons) / rules.batch)
    passes = math.ceil(_steps_of_lessons(wanted) / steps_of_pass)
    course = Course(shape, 1 + wanted.number, wanted.training.clusters, passes, rules=rules)
    states: dict[float, TrainingState] = {}
    for steps, state in _stages(course, wanted, lessons, steps_of_pass):
        states |= {mark: state for mark in wanted.marks if steps <= mark}
    return {mark: encode(courses.network(course, state, {})) for mark, state in states.items()}


def draw(wanted: TrainingTask, step: int, steps: float) -> Scenario:
    """Return a market of the training, with jobs of only those models that have come by step `steps`."""
    arguments = dict(wanted.world)
    models = max([count for begin, count in wanted.training.types if begin <= steps], default=len(MODELS))
    arguments["jobs"] = round(arguments["jobs"] * len(MODELS) / models)
    seed = FIRST_SEED + APART * wanted.number + step
    scenario = replace(read(synthetic(seed=seed, **arguments)), policy={"name": wanted.training.teacher})
    names = {model.name for model in MODELS[:models]}
    jobs = [job for job in scenario.jobs if job.samples.model in names]
    return replace(scenario, jobs=tuple(replace(job, number=number) for number, job in enumerate(jobs)))


def _steps_of_lessons(wanted: TrainingTask) -> float:
    steps = wanted.effort.lessons if wanted.training.lessons is None else wanted.training.lessons
    return min(steps, wanted.effort.steps)


def _stages(
    course: Course, wanted: TrainingTask, lessons: Lessons, steps_of_pass: int
) -> Iterator[tuple[float, TrainingState]]:
    """Return (steps, state) from the beginning, after every pass over the lessons and after every round."""
    state = courses.begin(course)
    yield 0, state
    while state.passes < course.passes:
        state = courses.take_lessons(course, state, lessons)
        yield state.passes * steps_of_pass, state
    effort, before = wanted.effort, course.passes * steps_of_pass
    has_choice = wanted.marks == (LAST,) and wanted.training.rewards
    checks = [draw(wanted, training.VALIDATION + k, LAST) for k in range(effort.checks)] if has_choice else []
    state = _looked_at(course, state, checks)
    while wanted.training.rewards and (steps := before + state.slots / course.clusters) < effort.steps:
        first = training.ROUNDS + state.rounds * course.clusters
        state = courses.learn(course, state, [draw(wanted, first + k, steps) for k in range(course.clusters)])
        if state.rounds % effort.every == 0:
            state = _looked_at(course, state, checks)
        yield before + state.slots / course.clusters, state
    yield effort.steps, _looked_at(course, state, checks)


def _looked_at(course: Course, state: TrainingState, checks: list[Scenario]) -> TrainingState:
    """Return the state with what it reaches on the draws to choose by, if there are any."""
    if not checks:
        return state
    scores = training.judge_network(Network(course.shape, state.brain.policy, {}), checks)
    return courses.judged(state, fmean(one.completion for one in scores), fmean(one.reward for one in scores))
