"""The parameters of a training job. `scheduling.engines.programs` describes the same fields to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

LOGISTIC, MULTILAYER, CONVOLUTIONAL = "logistic", "multilayer", "convolutional"
SYNCHRONOUS, ASYNCHRONOUS = "sync", "async"
IGNORE, DROP, REPLACE = "ignore", "drop", "replace"
CHOICES = {
    "model": (LOGISTIC, MULTILAYER, CONVOLUTIONAL),
    "mode": (SYNCHRONOUS, ASYNCHRONOUS),
    "stragglers": (REPLACE, DROP, IGNORE),
}
MOST_NUMBERS = 50_000_000  # the most numbers of generated data, which all workers together keep: 400 MB


class WrongSettings(Exception):
    """Raised where the parameters of a job are not what the program takes. The message is a sentence."""


@dataclass(frozen=True)
class TrainerSettings:
    """A job's parameters. Its data are chunks x minibatches x batch_size samples; an epoch goes once through them.

    A mini-batch is batch_size samples of one chunk. In a synchronous job a step trains one mini-batch of every chunk,
    whichever worker has it, so the total batch (chunks x batch_size) does not depend on the workers, and an epoch has
    `minibatches` steps. In an asynchronous job every mini-batch is an update of its own.
    """

    model: str = MULTILAYER
    mode: str = SYNCHRONOUS
    epochs: int = 10
    chunks: int = 4
    minibatches: int = 25
    batch_size: int = 32
    learning_rate: float = 0.2
    features: int = 32
    hidden: int = 64
    layers: int = 1
    classes: int = 4
    image_side: int = 12
    filters: int = 8
    seed: int = 1
    minibatch_ms: float = 0.0
    checkpoint_seconds: float = 30.0
    gather_seconds: float = 30.0
    patience_seconds: float = 30.0
    stragglers: str = REPLACE

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise WrongSettings(f"{name} must be one of {', '.join(choices)}.")
        for name in ("epochs", "chunks", "minibatches", "batch_size", "features", "hidden", "layers", "filters"):
            if getattr(self, name) < 1:
                raise WrongSettings(f"{name} must be at least 1.")
        if self.classes < 2 or self.image_side < 4:
            raise WrongSettings("classes must be at least 2 and image_side at least 4.")
        if self.samples * self.inputs > MOST_NUMBERS:
            raise WrongSettings(f"The data would have more than {MOST_NUMBERS:,} numbers.")

    @property
    def inputs(self) -> int:
        """Numbers in one sample."""
        return self.image_side**2 if self.model == CONVOLUTIONAL else self.features

    @property
    def samples(self) -> int:
        """Samples in one epoch."""
        return self.chunks * self.minibatches * self.batch_size

    @property
    def rounds(self) -> int:
        """Mini-batches of one chunk in the whole job: the steps of a synchronous one."""
        return self.epochs * self.minibatches

    @property
    def synchronous(self) -> bool:
        """True if workers wait for each other at every step."""
        return self.mode == SYNCHRONOUS


def read(values: Mapping[str, Any]) -> TrainerSettings:
    """Read values by name. Unknown names and wrong types are refused; missing parameters take their defaults."""
    kinds = {field.name: type(field.default) for field in fields(TrainerSettings)}
    unknown = sorted(set(values) - set(kinds))
    if unknown:
        raise WrongSettings(f"Unknown parameters: {', '.join(unknown)}.")
    for name, value in values.items():
        allowed = (int, float) if kinds[name] is float else (kinds[name],)
        if isinstance(value, bool) or not isinstance(value, allowed):
            raise WrongSettings(f"{name} must be of type {kinds[name].__name__}.")
    return TrainerSettings(**values)
