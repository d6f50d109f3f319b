"""DL2's networks: gradients against finite differences, and against torch where that is installed."""

from __future__ import annotations

import numpy as np
import pytest

from scheduling.core.policies.dl2 import networks
from scheduling.core.policies.dl2.networks import Weights

INPUTS, HIDDEN, ACTIONS, SAMPLES = 11, 9, 7, 6
NUDGE = 1e-6


def example(seed: int) -> tuple[Weights, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weights that are not small anywhere, states, masks with void always allowed, actions, advantages."""
    dice = np.random.default_rng(seed)
    weights = networks.start(dice, INPUTS, ACTIONS, HIDDEN, np.float64)
    weights = {name: array + dice.normal(0.0, 0.3, array.shape) for name, array in weights.items()}
    states = dice.normal(size=(SAMPLES, INPUTS))
    allowed = dice.random((SAMPLES, ACTIONS)) < 0.6
    allowed[:, -1] = True
    actions = np.array([dice.choice(np.flatnonzero(row)) for row in allowed])
    return weights, states, allowed, actions, dice.normal(size=SAMPLES)


def differences(loss, weights: Weights) -> Weights:
    """The gradient of a loss of the weights, one weight after the other."""
    gradient = {}
    for name, array in weights.items():
        gradient[name] = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = {**weights, name: array.copy()}
                moved[name][place] += sign * NUDGE
                ends.append(loss(moved))
            gradient[name][place] = (ends[0] - ends[1]) / (2 * NUDGE)
    return gradient


@pytest.mark.parametrize("entropy", [0.0, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_the_policy_are_those_of_finite_differences(seed, entropy):
    weights, *sample = example(seed)
    _, gradient = networks.policy_gradient(weights, *sample, entropy)
    expected = differences(lambda moved: networks.policy_gradient(moved, *sample, entropy)[0], weights)
    for name in networks.NAMES:
        np.testing.assert_allclose(gradient[name], expected[name], rtol=0, atol=1e-6)
        assert np.abs(expected[name]).max() > 1e-3, "nothing would be tested"


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_the_value_are_those_of_finite_differences(seed):
    dice = np.random.default_rng(seed)
    weights = {name: array + 0.2 for name, array in networks.start(dice, INPUTS, 1, HIDDEN, np.float64).items()}
    states, targets = dice.normal(size=(SAMPLES, INPUTS)), dice.normal(size=SAMPLES)

    def loss(moved: Weights) -> float:
        return networks.value_gradient(moved, networks.forward(moved, states), targets)[0]

    _, gradient = networks.value_gradient(weights, networks.forward(weights, states), targets)
    for name, array in differences(loss, weights).items():
        np.testing.assert_allclose(gradient[name], array, rtol=0, atol=1e-6)


@pytest.mark.parametrize("entropy", [0.0, 0.7])
def test_gradients_are_those_of_torch(entropy):
    torch = pytest.importorskip("torch", reason="torch is not installed: it is an extra, only for this comparison")
    weights, states, allowed, actions, advantages = example(1)
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}
    hidden = torch.tensor(states)
    for layer in ("1", "2"):
        hidden = torch.relu(hidden @ tensors[f"w{layer}"] + tensors[f"b{layer}"])
    logits = hidden @ tensors["w3"] + tensors["b3"]
    logs = torch.log_softmax(torch.where(torch.tensor(allowed), logits, networks.FORBIDDEN), dim=1)
    chosen_logs = logs[torch.arange(SAMPLES), torch.tensor(actions)]
    loss = -(chosen_logs * torch.tensor(advantages)).mean() + entropy * (logs.exp() * logs).sum(dim=1).mean()
    loss.backward()
    _, gradient = networks.policy_gradient(weights, states, allowed, actions, advantages, entropy)
    for name in networks.NAMES:
        np.testing.assert_allclose(gradient[name], tensors[name].grad.numpy(), rtol=0, atol=1e-12)


def test_what_is_not_allowed_has_no_probability_and_no_part_in_the_entropy():
    outputs = np.array([[50.0, 1.0, 1.0, -3.0]])
    logs = networks.log_probabilities(outputs, np.array([[False, True, True, False]]))
    np.testing.assert_allclose(np.exp(logs), [[0.0, 0.5, 0.5, 0.0]])
    chances = np.exp(logs)
    assert -(chances * logs).sum() == pytest.approx(np.log(2))


def test_adam_takes_the_steps_of_its_publication():
    """By hand: with one gradient all the time, every step is the rate; then the mean and the square of another."""
    weights = {"w": np.array([1.0])}
    moments = networks.still(weights)
    for step in range(1, 4):
        weights, moments = networks.adam(weights, {"w": np.array([4.0])}, moments, 0.1)
        assert weights["w"][0] == pytest.approx(1.0 - 0.1 * step, abs=1e-8)
    weights, moments = networks.adam(weights, {"w": np.array([-4.0])}, moments, 0.1)
    mean = (0.1 * -4 + 0.9 * (0.1 * 4 * (1 + 0.9 + 0.81))) / (1 - 0.9**4)
    assert weights["w"][0] == pytest.approx(0.7 - 0.1 * mean / 4, abs=1e-8)


def test_a_step_changes_none_of_what_it_was_given():
    weights, *sample = example(1)
    copies = {name: array.copy() for name, array in weights.items()}
    moments = networks.still(weights)
    networks.adam(weights, networks.policy_gradient(weights, *sample, 0.1)[1], moments, 0.1)
    assert all((weights[name] == copies[name]).all() and not moments.first[name].any() for name in copies)


def test_sizes_of_the_networks_are_those_of_the_publication():
    """230,265 and 199,425 parameters with 40 jobs and 8 columns of types."""
    from scheduling.core.policies.dl2.shape import NetworkShape

    shape = NetworkShape()
    counts = [
        sum(array.size for array in networks.start(np.random.default_rng(1), 520, outputs, 256, np.float32).values())
        for outputs in (shape.actions, 1)
    ]
    assert (shape.inputs, counts) == (520, [230_265, 199_425])


def test_networks_of_several_clusters_are_averaged_weight_by_weight():
    many = [{"w": np.full((2, 2), number, np.float32)} for number in (1.0, 2.0, 6.0)]
    mean = networks.average(many)["w"]
    assert mean.dtype == np.float32
    assert (mean == 3.0).all()
