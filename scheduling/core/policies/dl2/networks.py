"""The two networks as pure functions over a dictionary of weights: two hidden layers of rectified units, one linear.

    w1 (inputs, hidden)  b1 (hidden,)  w2 (hidden, hidden)  b2 (hidden,)  w3 (hidden, outputs)  b3 (outputs,)

The policy's outputs become probabilities over the actions that are allowed; the value network has a single output.
Gradients are written by hand; every function keeps the precision of the weights it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduling.core.types import BoolArray

Floats = npt.NDArray[np.floating[Any]]
Weights = Mapping[str, Floats]

FORBIDDEN = -1e30  # the output of an action that is not allowed: its probability is exactly zero
NAMES = ("w1", "b1", "w2", "b2", "w3", "b3")
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # Adam's decay of the first and second moments, and its epsilon


@dataclass(frozen=True, eq=False)
class Moments:
    """The state of Adam: running means of the gradients and of their squares, after `step` steps."""

    step: int
    first: Weights
    second: Weights


@dataclass(frozen=True, eq=False)
class Passed:
    """The numbers of a forward pass (samples, ...): the inputs, both hidden layers after rectifying, the outputs."""

    states: Floats
    hidden1: Floats
    hidden2: Floats
    outputs: Floats


def start(dice: np.random.Generator, inputs: int, outputs: int, hidden: int, dtype: npt.DTypeLike) -> Weights:
    """Draw initial weights. The last layer is small, so that at first all actions are nearly equally likely and all
    values near zero."""
    sizes = {"1": (inputs, hidden, 1.0), "2": (hidden, hidden, 1.0), "3": (hidden, outputs, 0.01)}
    weights: dict[str, Floats] = {}
    for layer, (wide, narrow, part) in sizes.items():
        bound = part * np.sqrt(6.0 / wide)
        weights[f"w{layer}"] = dice.uniform(-bound, bound, (wide, narrow)).astype(dtype)
        weights[f"b{layer}"] = np.zeros(narrow, dtype)
    return weights


def forward(weights: Weights, states: Floats) -> Passed:
    """Compute the outputs (samples, outputs) for states (samples, inputs)."""
    hidden1 = states @ weights["w1"]
    hidden1 += weights["b1"]
    np.maximum(hidden1, 0, out=hidden1)
    hidden2 = hidden1 @ weights["w2"]
    hidden2 += weights["b2"]
    np.maximum(hidden2, 0, out=hidden2)
    return Passed(states, hidden1, hidden2, hidden2 @ weights["w3"] + weights["b3"])


def backward(weights: Weights, passed: Passed, slope: Floats) -> Weights:
    """Return the gradients of a loss from its slope at the outputs, (samples, outputs)."""
    slope2 = slope @ weights["w3"].T
    slope2 *= passed.hidden2 > 0
    slope1 = slope2 @ weights["w2"].T
    slope1 *= passed.hidden1 > 0
    return {
        "w1": passed.states.T @ slope1,
        "b1": slope1.sum(axis=0),
        "w2": passed.hidden1.T @ slope2,
        "b2": slope2.sum(axis=0),
        "w3": passed.hidden2.T @ slope,
        "b3": slope.sum(axis=0),
    }


def log_probabilities(outputs: Floats, allowed: BoolArray) -> Floats:
    """Return (..., actions) the logarithms of the probabilities among the allowed actions. For all others they are near
    `FORBIDDEN`, so that the probability is zero."""
    logits = np.where(allowed, outputs, FORBIDDEN).astype(outputs.dtype)
    logits -= logits.max(axis=-1, keepdims=True)
    logs: Floats = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return logs


def policy_gradient(
    weights: Weights,
    states: Floats,
    allowed: BoolArray,
    actions: npt.NDArray[np.intp],
    advantages: Floats,
    entropy_weight: float,
) -> tuple[float, Weights]:
    """Return loss and gradients of -mean(log pi(action) * advantage) - entropy_weight * mean(entropy).

    With advantages of one and no entropy, the loss is the cross-entropy against the actions.
    """
    passed = forward(weights, states)
    logs = log_probabilities(passed.outputs, allowed)
    chances = np.exp(logs)
    rows = np.arange(len(actions))
    entropy = -(chances * logs).sum(axis=1)
    loss = -(logs[rows, actions] * advantages).mean() - entropy_weight * entropy.mean()
    slope = chances * advantages[:, None]
    slope[rows, actions] -= advantages
    if entropy_weight:
        slope += entropy_weight * chances * (logs + entropy[:, None])
    slope /= len(actions)
    return float(loss), backward(weights, passed, slope)


def value_gradient(weights: Weights, passed: Passed, targets: Floats) -> tuple[float, Weights]:
    """Return loss and gradients of mean((value - target)^2), from the forward pass of the same weights."""
    error = passed.outputs[:, 0] - targets
    return float((error**2).mean()), backward(weights, passed, (2.0 / len(targets)) * error[:, None])


def still(weights: Weights) -> Moments:
    """Return the state of Adam before the first step."""
    nothing = {name: np.zeros_like(array) for name, array in weights.items()}
    return Moments(0, nothing, nothing)


def adam(weights: Weights, gradients: Weights, moments: Moments, rate: float) -> tuple[Weights, Moments]:
    """Make one step of Adam with learning rate `rate`. Return the weights after it, and Adam's new state."""
    step = moments.step + 1
    scale, correction = rate / (1.0 - FIRST**step), 1.0 / (1.0 - SECOND**step)
    changed: dict[str, Floats] = {}
    first: dict[str, Floats] = {}
    second: dict[str, Floats] = {}
    for name, array in weights.items():
        gradient = gradients[name]
        first[name] = moments.first[name] * FIRST
        first[name] += gradient * (1.0 - FIRST)
        second[name] = moments.second[name] * SECOND
        squared = gradient * gradient
        squared *= 1.0 - SECOND
        second[name] += squared
        np.multiply(second[name], correction, out=squared)
        np.sqrt(squared, out=squared)
        squared += TINY
        np.divide(first[name], squared, out=squared)
        squared *= scale
        changed[name] = array - squared
    return changed, Moments(step, first, second)


def average(many: Sequence[Weights]) -> Weights:
    """Return the mean of several weights of one shape, name by name."""
    return {name: np.mean([each[name] for each in many], axis=0, dtype=many[0][name].dtype) for name in many[0]}
