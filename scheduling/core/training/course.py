"""Run a whole training: a warm-up on a teacher's decisions, then rounds of learning, on one cluster or on several.

All that is drawn depends on the seed, the round and the cluster, so that a training that was interrupted continues as
if it had not been.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from scheduling.core.policies.dl2.files import Network, pack, unpack
from scheduling.core.policies.dl2.networks import Moments, Weights, average, start, still
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.scenario import Scenario
from scheduling.core.training.analytical import Analytical
from scheduling.core.training.learner import Brain, Rules, play
from scheduling.core.training.lessons import Lessons, study
from scheduling.core.training.replay import SampleRing
from scheduling.core.training.speeds import Speeds

START, PASS, ROUND = 0, 1, 2  # purposes of dice: each has draws of its own


@dataclass(frozen=True)
class Course:
    """The settings of a training: the same course on the same scenarios gives the same weights."""

    shape: NetworkShape
    seed: int = 1
    clusters: int = 1
    passes: int = 200  # over the lessons
    lesson_rate: float = 0.005
    shuffle: bool = True
    offline: bool = False  # whether speeds are fitted functions instead of the real ones
    speed: str = ""  # the name of the speed at which jobs train, if it is not the one that all policies share
    rules: Rules = field(default_factory=Rules)

    def document(self) -> dict[str, Any]:
        """Return the course as plain JSON. A speed without a name is left out, as it was in earlier trainings."""
        document = asdict(self) | {"shape": self.shape.document()}
        return document if self.speed else {name: value for name, value in document.items() if name != "speed"}


@dataclass(frozen=True, eq=False)
class TrainingState:
    """The state of a training. `curve` has a row for every time it was judged; `best` are the weights judged best."""

    brain: Brain
    replays: Sequence[SampleRing]
    passes: int = 0
    rounds: int = 0
    slots: int = 0
    best: Weights | None = None
    curve: tuple[Mapping[str, float], ...] = ()


def begin(course: Course) -> TrainingState:
    """Return the state of a training before the first lesson."""
    shape, dice = course.shape, np.random.default_rng((course.seed, START))
    policy = start(dice, shape.inputs, shape.actions, shape.hidden, np.float32)
    value = start(dice, shape.inputs, 1, shape.hidden, np.float32)
    replays = [SampleRing(shape, course.rules.replay) for _ in range(course.clusters)]
    return TrainingState(Brain(policy, value, still(policy), still(value)), replays)


def take_lessons(course: Course, state: TrainingState, lessons: Lessons) -> TrainingState:
    """Make one pass over the lessons. After the last pass Adam's moments are reset, as the next steps have another
    loss."""
    dice = np.random.default_rng((course.seed, PASS, state.passes))
    brain, rules = state.brain, course.rules
    policy, moments, _ = study(
        brain.policy,
        brain.policy_moments,
        lessons,
        course.shape,
        dice,
        rate=course.lesson_rate,
        batch=rules.batch,
        shuffle=course.shuffle,
    )
    if state.passes + 1 == course.passes:
        moments = still(policy)
    return replace(state, brain=replace(brain, policy=policy, policy_moments=moments), passes=state.passes + 1)


def learn(
    course: Course,
    state: TrainingState,
    scenarios: Sequence[Scenario],
    speeds: Callable[[], Speeds | None] = lambda: None,
) -> TrainingState:
    """Run one round: every cluster plays its scenario from the same networks, which then become the mean of all.
    `speeds` makes the speeds of one cluster, or None if jobs train at the one speed that all policies share."""
    brains, slots = [], 0
    for cluster, (scenario, replay) in enumerate(zip(scenarios, state.replays, strict=True)):
        key = (course.seed, ROUND, state.rounds, cluster)
        resting = state.rounds < course.rules.resting
        own = Analytical(scenario.cluster.slot_seconds, course.shape) if course.offline else speeds()
        brain, facts = play(scenario, state.brain, replay, course.shape, course.rules, key, resting=resting, speeds=own)
        brains.append(brain)
        slots += int(facts["slots"])
    return replace(state, brain=_mean(brains), rounds=state.rounds + 1, slots=state.slots + slots)


def judged(state: TrainingState, completion: float, reward: float) -> TrainingState:
    """Return the state with one more row of the curve. Its weights become the best ones if their completion is shorter
    than that of all earlier ones."""
    before = min((row["completion"] for row in state.curve), default=float("inf"))
    row = {"round": state.rounds, "slots": state.slots, "completion": completion, "reward": reward}
    best = state.brain.policy if completion < before else state.best
    return replace(state, curve=(*state.curve, row), best=best)


def network(course: Course, state: TrainingState, facts: Mapping[str, Any]) -> Network:
    """Return the network that is to be served: the weights that were judged best, or the present ones if none were."""
    return Network(course.shape, state.brain.policy if state.best is None else state.best, facts)


def _mean(brains: Sequence[Brain]) -> Brain:
    if len(brains) == 1:
        return brains[0]
    return Brain(
        average([brain.policy for brain in brains]),
        average([brain.value for brain in brains]),
        _mean_moments([brain.policy_moments for brain in brains]),
        _mean_moments([brain.value_moments for brain in brains]),
        _mean_usual([brain.usual for brain in brains if brain.usual is not None]),
    )


def _mean_usual(many: Sequence[float]) -> float | None:
    return fmean(many) if many else None


def _mean_moments(many: Sequence[Moments]) -> Moments:
    step = max(each.step for each in many)
    return Moments(step, average([each.first for each in many]), average([each.second for each in many]))


def freeze(course: Course, state: TrainingState) -> bytes:
    """Return as bytes everything that the rest of the training depends on."""
    arrays: dict[str, Any] = {}
    for name, weights in _weights(state).items():
        arrays |= {f"{name}.{key}": array for key, array in weights.items()}
    for number, replay in enumerate(state.replays):
        arrays |= {f"replay{number}.{key}": array for key, array in replay.arrays().items()}
    document = {
        "course": course.document(),
        "passes": state.passes,
        "rounds": state.rounds,
        "slots": state.slots,
        "curve": [dict(row) for row in state.curve],
        "steps": [state.brain.policy_moments.step, state.brain.value_moments.step],
        "usual": state.brain.usual,
    }
    text = json.dumps(document, sort_keys=True).encode()
    return pack(arrays | {"document": np.frombuffer(text, np.uint8)}, compressed=False)


def thaw(course: Course, content: bytes) -> TrainingState | None:
    """Return the state that was frozen, or None if it is of another course; raise `BadWeights` if it is damaged."""
    arrays = unpack(content)
    document = json.loads(arrays.pop("document").tobytes())
    if document["course"] != json.loads(json.dumps(course.document())):
        return None
    groups: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        group, key = name.rsplit(".", 1)
        groups.setdefault(group, {})[key] = array
    fresh = begin(course)
    for number, replay in enumerate(fresh.replays):
        replay.restore(groups[f"replay{number}"])
    steps = document["steps"]
    brain = Brain(
        groups["policy"],
        groups["value"],
        Moments(steps[0], groups["policy.first"], groups["policy.second"]),
        Moments(steps[1], groups["value.first"], groups["value.second"]),
        document["usual"],
    )
    counts = {name: document[name] for name in ("passes", "rounds", "slots")}
    return TrainingState(brain, fresh.replays, best=groups.get("best"), curve=tuple(document["curve"]), **counts)


def _weights(state: TrainingState) -> dict[str, Weights]:
    """Return all dictionaries of weights by name."""
    brain = state.brain
    weights = {"policy": brain.policy, "value": brain.value}
    for name, moments in (("policy", brain.policy_moments), ("value", brain.value_moments)):
        weights |= {f"{name}.first": moments.first, f"{name}.second": moments.second}
    return weights if state.best is None else weights | {"best": state.best}
