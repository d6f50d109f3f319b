"""Three small models with gradients written by hand. Parameters are one flat vector, block after block.

Everything is a pure function in 64-bit floats: the same mini-batch gives the same bits on every worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduling.engines.trainer.settings import CONVOLUTIONAL, LOGISTIC, TrainerSettings

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
KERNEL = 3  # side of a convolution's filter
POOL = 2  # side of the square that is averaged after it


@dataclass(frozen=True)
class Block:
    """A block of parameters: the weights or the bias of one layer."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The count of its numbers."""
        return math.prod(self.shape)


class Model(Protocol):
    """A model: its blocks, and the mean loss of a mini-batch with its gradient."""

    @property
    def blocks(self) -> tuple[Block, ...]: ...

    def loss_and_gradient(self, parameters: Floats, inputs: Floats, labels: Labels) -> tuple[float, Floats]:
        """Return the mean loss and its gradient (size,), of parameters (size,), inputs (batch, inputs) and labels
        (batch,)."""
        ...


def make(settings: TrainerSettings) -> Model:
    """Return the model that the settings name."""
    if settings.model == LOGISTIC:
        return Logistic(settings.features)
    if settings.model == CONVOLUTIONAL:
        return Convolutional(settings.image_side, settings.filters, settings.classes)
    return Multilayer((settings.features, *[settings.hidden] * settings.layers, settings.classes))


def size(model: Model) -> int:
    """Return how many numbers a model learns."""
    return sum(block.size for block in model.blocks)


def initial(model: Model, seed: int) -> Floats:
    """Return initial parameters: weights are normal with variance 1 / inputs of the layer, biases are 0."""
    dice = np.random.default_rng([seed, 3])
    parts = []
    for block in model.blocks:
        if len(block.shape) == 1:
            parts.append(np.zeros(block.size))
        else:
            parts.append(dice.standard_normal(block.size) / math.sqrt(math.prod(block.shape[:-1])))
    return np.concatenate(parts)


def views(model: Model, parameters: Floats) -> list[Floats]:
    """Return the blocks of a flat vector, each in its shape, without copying."""
    parts, start = [], 0
    for block in model.blocks:
        parts.append(parameters[start : start + block.size].reshape(block.shape))
        start += block.size
    return parts


def _softmax_loss(scores: Floats, labels: Labels) -> tuple[float, Floats]:
    """Return the mean cross-entropy of scores (batch, classes), and its gradient (batch, classes)."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    gradient = np.exp(logarithms)
    gradient[rows, labels] -= 1.0
    return float(-logarithms[rows, labels].mean()), gradient / len(labels)


@dataclass(frozen=True)
class Logistic:
    """Logistic regression of two classes: probability 1 / (1 + exp(-(x w + b))), loss the mean cross-entropy."""

    features: int

    @property
    def blocks(self) -> tuple[Block, ...]:
        """A weight for each feature, and a bias."""
        return Block("weight", (self.features, 1)), Block("bias", (1,))

    def loss_and_gradient(self, parameters: Floats, inputs: Floats, labels: Labels) -> tuple[float, Floats]:
        """The loss is log(1 + exp(-s z)) with s = 1 or -1; its derivative in z is p - label."""
        weight, bias = views(self, parameters)
        scores = (inputs @ weight)[:, 0] + bias[0]
        loss = np.logaddexp(0.0, np.where(labels == 1, -scores, scores)).mean()
        slopes = (np.exp(-np.logaddexp(0.0, -scores)) - labels) / len(labels)
        return float(loss), np.append(inputs.T @ slopes, slopes.sum())


@dataclass(frozen=True)
class Multilayer:
    """Dense layers with tanh between them and softmax at the end. `widths` go from the inputs to the classes."""

    widths: tuple[int, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """A weight and a bias for each layer."""
        return tuple(
            block
            for layer in range(1, len(self.widths))
            for block in (
                Block(f"weight {layer}", (self.widths[layer - 1], self.widths[layer])),
                Block(f"bias {layer}", (self.widths[layer],)),
            )
        )

    def loss_and_gradient(self, parameters: Floats, inputs: Floats, labels: Labels) -> tuple[float, Floats]:
        """The forward pass keeps the input of every layer; the backward pass uses them from the last one on, with
        d tanh = 1 - tanh^2."""
        parts = views(self, parameters)
        layers = list(zip(parts[::2], parts[1::2], strict=True))
        activations = [inputs]
        for weight, bias in layers[:-1]:
            activations.append(np.tanh(activations[-1] @ weight + bias))
        loss, slope = _softmax_loss(activations[-1] @ layers[-1][0] + layers[-1][1], labels)
        gradients: list[Floats] = []
        for layer in reversed(range(len(layers))):
            gradients[:0] = [(activations[layer].T @ slope).ravel(), slope.sum(axis=0)]
            if layer:
                slope = (slope @ layers[layer][0].T) * (1.0 - activations[layer] ** 2)
        return loss, np.concatenate(gradients)


@dataclass(frozen=True)
class Convolutional:
    """Filters of 3 x 3 over a square image, tanh, the mean over squares of 2 x 2, one dense layer, softmax."""

    side: int
    filters: int
    classes: int

    @property
    def pooled(self) -> int:
        """The side of the image after convolution and pooling. An odd row and column at the end is left out."""
        return (self.side - KERNEL + 1) // POOL

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Filters and dense layer, each with its bias."""
        return (
            Block("filters", (KERNEL * KERNEL, self.filters)),
            Block("filter bias", (self.filters,)),
            Block("weight", (self.pooled**2 * self.filters, self.classes)),
            Block("bias", (self.classes,)),
        )

    def _patches(self, inputs: Floats) -> Floats:
        """Return what each filter sees, ordered by the square it is averaged into: (batch, pooled, 2, pooled, 2, 9)."""
        images = inputs.reshape(len(inputs), self.side, self.side)
        windows = np.lib.stride_tricks.sliding_window_view(images, (KERNEL, KERNEL), axis=(1, 2))
        used = POOL * self.pooled
        shape = (len(inputs), self.pooled, POOL, self.pooled, POOL, KERNEL * KERNEL)
        return windows[:, :used, :used].reshape(shape)

    def loss_and_gradient(self, parameters: Floats, inputs: Floats, labels: Labels) -> tuple[float, Floats]:
        """Pooling is a mean, so in the backward pass each of its four places gets a quarter of the slope."""
        filters, filter_bias, weight, bias = views(self, parameters)
        patches = self._patches(inputs)
        active = np.tanh(patches @ filters + filter_bias)
        flat = active.mean(axis=(2, 4)).reshape(len(inputs), -1)
        loss, slope = _softmax_loss(flat @ weight + bias, labels)
        back = (slope @ weight.T).reshape(len(inputs), self.pooled, 1, self.pooled, 1, self.filters) / POOL**2
        inner = (back * (1.0 - active**2)).reshape(-1, self.filters)
        filter_gradient = patches.reshape(-1, KERNEL * KERNEL).T @ inner
        parts = [filter_gradient.ravel(), inner.sum(axis=0), (flat.T @ slope).ravel(), slope.sum(axis=0)]
        return loss, np.concatenate(parts)
