"""Gradients by hand against finite differences; data that follow from seed and chunk alone."""

import numpy as np
import pytest

from scheduling.engines.trainer import models
from scheduling.engines.trainer.data import Data, chunk
from scheduling.engines.trainer.settings import TrainerSettings, WrongSettings, read

SMALL = [
    TrainerSettings(model="logistic", features=5, chunks=2, minibatches=2, batch_size=7),
    TrainerSettings(
        model="multilayer", features=5, hidden=4, layers=2, classes=3, chunks=2, minibatches=2, batch_size=7
    ),
    TrainerSettings(model="convolutional", image_side=7, filters=2, classes=3, chunks=2, minibatches=2, batch_size=5),
]
EACH = pytest.mark.parametrize("settings", SMALL, ids=lambda settings: settings.model)


@EACH
def test_gradient_equals_finite_differences(settings: TrainerSettings) -> None:
    model = models.make(settings)
    parameters = models.initial(model, 4) + 0.1 * np.random.default_rng(1).standard_normal(models.size(model))
    inputs, labels = Data(settings).minibatch(1, 3)
    _, gradient = model.loss_and_gradient(parameters, inputs, labels)
    step, differences = 1e-5, np.empty(len(parameters))
    for index in range(len(parameters)):
        ends = []
        for sign in (1, -1):
            moved = parameters.copy()
            moved[index] += sign * step
            ends.append(model.loss_and_gradient(moved, inputs, labels)[0])
        differences[index] = (ends[0] - ends[1]) / (2 * step)
    assert np.abs(gradient).max() > 0.01
    np.testing.assert_allclose(gradient, differences, atol=1e-8)


@EACH
def test_descent_on_generated_data_lowers_the_loss_of_data_not_seen(settings: TrainerSettings) -> None:
    model, data = models.make(settings), Data(settings)
    parameters = models.initial(model, settings.seed)
    unseen = chunk(settings, 1)
    before, _ = model.loss_and_gradient(parameters, unseen.inputs, unseen.labels)
    for round_ in range(60):
        _, gradient = model.loss_and_gradient(parameters, *data.minibatch(0, round_ % settings.rounds))
        parameters = parameters - 0.1 * gradient
    after, _ = model.loss_and_gradient(parameters, *data.minibatch(0, 0))
    assert after < 0.8 * before


def test_a_chunk_is_the_same_wherever_it_is_made_and_an_epoch_sees_every_sample_once() -> None:
    settings = TrainerSettings(model="logistic", features=3, chunks=2, minibatches=4, batch_size=5, epochs=2)
    one, other = Data(settings), Data(settings)
    other.keep_only([1])
    orders = []
    for epoch in range(2):
        batches = [one.minibatch(1, 4 * epoch + index)[0] for index in range(4)]
        again = [other.minibatch(1, 4 * epoch + index)[0] for index in range(4)]
        np.testing.assert_array_equal(batches, again)
        orders.append(np.concatenate(batches))
    inputs = chunk(settings, 1).inputs
    for order in orders:
        np.testing.assert_array_equal(np.sort(order, axis=0), np.sort(inputs, axis=0))
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(inputs, chunk(settings, 0).inputs)


def test_blocks_lie_end_to_end_in_the_flat_vector() -> None:
    model = models.make(SMALL[1])
    flat = np.arange(float(models.size(model)))
    parts = models.views(model, flat)
    assert [part.shape for part in parts] == [block.shape for block in model.blocks]
    np.testing.assert_array_equal(np.concatenate([part.ravel() for part in parts]), flat)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"model": "magic"}, "model must be one of"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"epochs": 2.5}, "epochs must be of type int"),
        ({"epochs": True}, "epochs must be of type int"),
        ({"layer": 1}, "Unknown parameters: layer"),
        ({"chunks": 256, "minibatches": 10_000, "batch_size": 64}, "more than"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(WrongSettings, match=sentence):
        read(values)
