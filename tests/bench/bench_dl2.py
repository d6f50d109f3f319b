"""DL2: one decision, an update of both networks on 256 samples, and a simulated slot of 200 jobs on 500 servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scheduling.core.policies.dl2 import networks
from scheduling.core.policies.dl2.choosing import Inference, best, give_out
from scheduling.core.policies.dl2.networks import Weights
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.policies.dl2.slot import Slot, shares_of
from scheduling.core.scenario import read
from scheduling.core.training.learner import Brain, Rules, update
from scheduling.core.training.replay import SampleRing
from scheduling.core.types import View
from scheduling.core.workload import synthetic
from tests.bench.slots import slot
from tests.core.builders import make_view

SHAPE = NetworkShape(types=("a", "b"))  # the publication's: 40 jobs, 8 columns, two layers of 256
REPEATS = 40


def measure() -> Iterator[dict[str, Any]]:
    yield from decisions()
    yield from updates()
    yield from slots()


def figure(name: str, value: float, target: str, detail: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": "ms", "target": target, "detail": detail}


def times(work: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, float]:
    """Return (median by the clock, median of the processors) in milliseconds."""
    rows = []
    for _ in range(repeats):
        begin, busy = time.perf_counter(), time.process_time()
        work()
        rows.append((time.perf_counter() - begin, time.process_time() - busy))
    wall, busy = np.median(rows, axis=0) * 1000.0
    return float(wall), float(busy)


def begun(outputs: int) -> Weights:
    return networks.start(np.random.default_rng(1), SHAPE.inputs, outputs, SHAPE.hidden, np.float32)


def decisions() -> Iterator[dict[str, Any]]:
    """Measure the network alone, as a slot uses it; then a whole slot of 40 jobs, with masks and placement."""
    weights, view = begun(SHAPE.actions), busy_view()
    weights = {**weights, "b3": weights["b3"] - np.eye(1, SHAPE.actions, SHAPE.void, dtype=np.float32)[0]}
    counts = []

    def slot() -> None:
        batch = Slot(view, shares_of(view, lambda job: 0)[0], SHAPE).batches()[0]
        batch.open()
        begin, busy = time.perf_counter(), time.process_time()
        count = give_out(weights, batch, best)
        counts.append((count, time.perf_counter() - begin, time.process_time() - busy))

    times(slot, 10)
    count = counts[0][0]
    each, busy_each = (1000.0 * float(np.median([row[k] / row[0] for row in counts])) for k in (1, 2))
    first = np.zeros(SHAPE.hidden, np.float32)
    w2, b2, w3, b3 = (weights[name] for name in ("w2", "b2", "w3", "b3"))
    batch = Slot(view, shares_of(view, lambda job: 0)[0], SHAPE).batches()[0]
    batch.open()
    rows = weights["w1"][:3]

    def decision() -> None:
        change = np.full(3, 0.01, np.float32) @ rows
        logits = np.maximum(np.maximum(first + change, 0) @ w2 + b2, 0) @ w3 + b3
        best(np.where(batch.allowed, logits, np.float32(networks.FORBIDDEN)), batch)

    wall, busy = times(decision, 2000)
    yield figure("dl2_decision", round(wall, 4), "at most 0.05", f"processors {busy:.4f} ms; network, mask and choice")
    detail = f"processors {busy_each:.4f} ms; each of {count} decisions of a slot, with placement and state"
    yield figure("dl2_decision_and_placement", round(each, 4), "-", detail)


def busy_view() -> View:
    scenario = read(synthetic(seed=3, preset="dl2", tenants=1, servers=500, jobs=40, span=1.0, cells=False))
    return make_view(scenario.jobs, cluster=scenario.cluster)


def updates() -> Iterator[dict[str, Any]]:
    dice, policy, value = np.random.default_rng(1), begun(SHAPE.actions), begun(1)
    replay, brain = SampleRing(SHAPE, 8192), Brain(policy, value, networks.still(policy), networks.still(value))
    allowed = np.ones(SHAPE.actions, np.bool_)
    for _ in range(100):
        states = [dice.random(SHAPE.inputs, np.float32) for _ in range(40)]
        replay.put(
            [Inference(state, allowed, int(dice.integers(SHAPE.actions)), 0.1) for state in states], 1.0, states[0]
        )
    batch = replay.draw(256, dice)
    advantages = np.ones(256, np.float32)

    def of_the_policy() -> None:
        sample = (batch.states, batch.allowed, batch.actions, advantages)
        gradients = networks.policy_gradient(policy, *sample, 0.001)[1]
        networks.adam(policy, gradients, networks.still(policy), 0.0001)

    wall, busy = times(of_the_policy)
    yield figure("dl2_policy_update", round(wall, 2), "at most 8", f"processors {busy:.2f} ms; 256 samples, policy")
    wall, busy = times(lambda: update(brain, replay, Rules(), dice))
    detail = f"processors {busy:.2f} ms; 256 samples: draw, targets, gradients and Adam of both networks"
    yield figure("dl2_update", round(wall, 2), "-", detail)


def slots() -> Iterator[dict[str, Any]]:
    """Measure slots of two workloads, with and without the guard, which has the teacher decide as well."""
    for preset in ("astraea", "dl2"):
        for guard in (False, True):
            run = slot({"name": "dl2", "guard": guard}, cells=False, preset=preset)
            lost = run.outcome.memory["batch"]["guard"]
            more = [f"preset {preset}", *([str(lost)] if lost else [])]
            yield run.figure(f"dl2_slot_{preset}{'_guarded' if guard else ''}", *more)
