"""Generate data. Every chunk follows from the seed and its number alone, so any worker can take any chunk."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scheduling.engines.trainer.models import Floats, Labels
from scheduling.engines.trainer.settings import CONVOLUTIONAL, LOGISTIC, TrainerSettings


@dataclass(frozen=True)
class Chunk:
    """Samples (minibatches * batch_size, inputs) and their labels."""

    inputs: Floats
    labels: Labels


@dataclass
class Data:
    """The data of the chunks that a worker has needed so far."""

    settings: TrainerSettings
    _chunks: dict[int, Chunk] = field(default_factory=dict)
    _orders: dict[int, tuple[int, Labels]] = field(default_factory=dict)

    def keep_only(self, chunks: list[int]) -> None:
        """Generate the chunks that are ours now, and forget those of other workers."""
        self._chunks = {number: self._chunks.get(number) or chunk(self.settings, number) for number in chunks}

    def minibatch(self, number: int, round_: int) -> tuple[Floats, Labels]:
        """Return a chunk's mini-batch in a round (0 .. epochs * minibatches - 1). Each epoch has its own order."""
        epoch, index = divmod(round_, self.settings.minibatches)
        if self._orders.get(number, (-1,))[0] != epoch:
            dice = np.random.default_rng([self.settings.seed, 2, number, epoch])
            self._orders[number] = epoch, dice.permutation(self.settings.minibatches * self.settings.batch_size)
        rows = self._orders[number][1][index * self.settings.batch_size : (index + 1) * self.settings.batch_size]
        if number not in self._chunks:
            self._chunks[number] = chunk(self.settings, number)
        return self._chunks[number].inputs[rows], self._chunks[number].labels[rows]


def chunk(settings: TrainerSettings, number: int) -> Chunk:
    """Generate a chunk's samples, of a kind that its model can learn from."""
    truth = np.random.default_rng([settings.seed, 0])
    dice = np.random.default_rng([settings.seed, 1, number])
    count = settings.minibatches * settings.batch_size
    if settings.model == CONVOLUTIONAL:
        return _images(settings, truth, dice, count)
    inputs = dice.standard_normal((count, settings.features))
    if settings.model == LOGISTIC:
        weight = truth.standard_normal(settings.features) * 3.0 / np.sqrt(settings.features)
        return Chunk(inputs, (dice.random(count) < 1.0 / (1.0 + np.exp(-inputs @ weight))).astype(np.int64))
    inner = truth.standard_normal((settings.features, 16)) / np.sqrt(settings.features)
    outer = truth.standard_normal((16, settings.classes))
    scores = 3.0 * np.tanh(2.0 * inputs @ inner) @ outer
    return Chunk(inputs, np.argmax(scores + dice.gumbel(size=scores.shape), axis=1).astype(np.int64))


def _images(settings: TrainerSettings, truth: np.random.Generator, dice: np.random.Generator, count: int) -> Chunk:
    """Generate images: one pattern for each class, shifted a little in both directions, with noise."""
    side = settings.image_side
    patterns = truth.standard_normal((settings.classes, side, side))
    labels = dice.integers(settings.classes, size=count)
    rows = (np.arange(side)[None, :] + dice.integers(-1, 2, count)[:, None]) % side
    columns = (np.arange(side)[None, :] + dice.integers(-1, 2, count)[:, None]) % side
    images = patterns[labels[:, None, None], rows[:, :, None], columns[:, None, :]]
    return Chunk((images + dice.standard_normal(images.shape)).reshape(count, side * side), labels.astype(np.int64))
