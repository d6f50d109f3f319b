"""Programs that are built in, and their parameters: what a form shows and what an engine may start.

A tenant gives no command line for these. It chooses a program and values for its parameters, and `validate` returns
either values of the right types, in the right ranges, with every default filled in, or a list of problems.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from scheduling.engines.trainer.settings import CHOICES, TrainerSettings, WrongSettings, read

WHOLE, NUMBER, CHOICE = "whole", "number", "choice"


@dataclass(frozen=True)
class ParameterProblem:
    """Why a value is refused. `parameter` is empty where each value is right, but they do not go together."""

    parameter: str
    sentence: str


@dataclass(frozen=True)
class TrainerParameter:
    """A parameter: a value that a submitter may choose."""

    name: str
    title: str
    help: str
    kind: str  # whole | number | choice
    default: Any
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[tuple[str, str], ...] = ()  # (value, title)
    unit: str = ""

    def parse(self, value: object) -> Any:
        """Return the value in the parameter's type; a form's text is read too. Raises `ValueError` with a sentence."""
        if self.kind == CHOICE:
            if value not in [choice for choice, _ in self.choices]:
                raise ValueError(f"{self.title} must be one of {', '.join(choice for choice, _ in self.choices)}.")
            return value
        number = self._whole(value) if self.kind == WHOLE else self._number(value)
        low, high = self.minimum, self.maximum
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(f"{self.title} must be between {low:g} and {high:g}.")
        return number

    def _whole(self, value: object) -> int:
        if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 20:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{self.title} must be a whole number.")
        return value

    def _number(self, value: object) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"{self.title} must be a number.")
        return number


@dataclass(frozen=True)
class RegisteredProgram:
    """A program that is built in. It is started with Python as `-m module --parameters JSON`."""

    name: str
    title: str
    description: str
    module: str
    parameters: tuple[TrainerParameter, ...]
    check: Callable[[Mapping[str, Any]], str] = lambda values: ""  # why values do not go together; empty if they do
    modules: tuple[str, ...] = ()  # modules of Bourse that it imports beside its own
    distributions: tuple[str, ...] = ()  # installed packages of others that it imports

    def validate(self, values: Mapping[str, object]) -> dict[str, Any] | list[ParameterProblem]:
        """Return all parameters with their values, or all problems. A value that is missing or empty takes the
        parameter's default."""
        names = {parameter.name for parameter in self.parameters}
        problems = [
            ParameterProblem(name, f"{self.title} has no parameter {name!r}.") for name in values if name not in names
        ]
        accepted: dict[str, Any] = {}
        for parameter in self.parameters:
            value = values.get(parameter.name)
            try:
                accepted[parameter.name] = parameter.parse(parameter.default if value in (None, "") else value)
            except ValueError as error:
                problems.append(ParameterProblem(parameter.name, str(error)))
        together = "" if problems else self.check(accepted)
        return problems or ([ParameterProblem("", together)] if together else accepted)

    def arguments(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what follows the Python interpreter on the command line. `values` come from `validate`."""
        return "-m", self.module, "--parameters", json.dumps(dict(values), sort_keys=True)

    def units(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Return the job's work as the market counts it: epochs, chunks, and mini-batches of a chunk."""
        return {name: values[name] for name in ("epochs", "chunks", "minibatches")}


_DEFAULTS = {field.name: field.default for field in fields(TrainerSettings)}
_NAMES = {
    "logistic": "Logistic regression",
    "multilayer": "Multilayer network",
    "convolutional": "Convolutional network",
    "sync": "Synchronous",
    "async": "Asynchronous",
    "replace": "Wait for a new worker, then let the slow one go",
    "drop": "Let it go at once, the others take its chunks",
    "ignore": "Only say so",
}


def _whole(name: str, title: str, low: int, high: int, text: str, unit: str = "") -> TrainerParameter:
    return TrainerParameter(name, title, text, WHOLE, _DEFAULTS[name], low, high, unit=unit)


def _number(name: str, title: str, low: float, high: float, text: str, unit: str = "") -> TrainerParameter:
    return TrainerParameter(name, title, text, NUMBER, _DEFAULTS[name], low, high, unit=unit)


def _choice(name: str, title: str, text: str) -> TrainerParameter:
    choices = tuple((choice, _NAMES[choice]) for choice in CHOICES[name])
    return TrainerParameter(name, title, text, CHOICE, _DEFAULTS[name], choices=choices)


def _check_trainer(values: Mapping[str, Any]) -> str:
    try:
        read(values)
    except WrongSettings as error:
        return str(error)
    return ""


TRAINER = RegisteredProgram(
    name="trainer",
    title="Training with parameter servers",
    description="Trains a small model on generated data with workers and parameter servers, and reports its loss.",
    module="scheduling.engines.trainer",
    modules=("scheduling.core.parameter_blocks",),
    distributions=("numpy",),
    check=_check_trainer,
    parameters=(
        _choice("model", "Model", "What is trained."),
        _choice(
            "mode",
            "Updates",
            "Synchronous: all workers make each step together, and the loss does not depend on how many they are. "
            "Asynchronous: nobody waits, each mini-batch is a step.",
        ),
        _whole("epochs", "Epochs", 1, 10_000, "How often all data are gone through."),
        _whole("chunks", "Chunks", 1, 256, "Parts of the data. No more workers than chunks can work at once."),
        _whole("minibatches", "Mini-batches in a chunk", 1, 10_000, "An epoch is chunks times this many mini-batches."),
        _whole("batch_size", "Batch size", 1, 1024, "Samples in a mini-batch.", "samples"),
        _number("learning_rate", "Learning rate", 1e-6, 10.0, "How far a step goes. Too high, and the job fails."),
        _whole("features", "Features", 1, 1024, "Numbers in a sample. Not for images."),
        _whole("hidden", "Hidden units", 1, 1024, "Width of each hidden layer of the multilayer network."),
        _whole("layers", "Hidden layers", 1, 8, "How many hidden layers the multilayer network has."),
        _whole("classes", "Classes", 2, 100, "What is told apart. Logistic regression always has two."),
        _whole("image_side", "Image side", 4, 64, "Images of the convolutional network are squares.", "pixels"),
        _whole("filters", "Filters", 1, 64, "Filters of the convolution, each 3 by 3."),
        _whole("seed", "Seed", 0, 2**31 - 1, "The same seed gives the same data and the same first parameters."),
        _number("minibatch_ms", "Shortest mini-batch", 0, 10_000, "Makes a job slower than it is, for trials.", "ms"),
        _number(
            "checkpoint_seconds", "Save every", 0, 86_400, "At most this much work is lost; 0 is never.", "seconds"
        ),
        _number("gather_seconds", "Time to gather", 1, 600, "Within it all members must have come.", "seconds"),
        _number("patience_seconds", "Patience", 1, 600, "A member that is silent for longer is given up.", "seconds"),
        _choice("stragglers", "Slow workers", "What happens when a worker takes over twice as long as the others."),
    ),
)

PROGRAMS: Mapping[str, RegisteredProgram] = {TRAINER.name: TRAINER}
