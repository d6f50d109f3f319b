"""Registered programs: values are completed and checked, and what passes is what the program takes."""

import json
from dataclasses import fields
from typing import Any

import pytest

from scheduling.engines.programs import CHOICE, PROGRAMS, TRAINER, ParameterProblem, TrainerParameter
from scheduling.engines.trainer.settings import TrainerSettings, read


def test_every_parameter_of_the_trainer_is_described_and_nothing_else() -> None:
    described = {parameter.name: parameter.default for parameter in TRAINER.parameters}
    assert described == {field.name: field.default for field in fields(TrainerSettings)}
    assert all(parameter.title and parameter.help.endswith(".") for parameter in TRAINER.parameters)


def test_nothing_chosen_gives_the_defaults_and_the_program_takes_them() -> None:
    values = TRAINER.validate({})
    assert isinstance(values, dict)
    assert read(values) == TrainerSettings()
    assert read(json.loads(TRAINER.arguments(values)[-1])) == TrainerSettings()
    assert TRAINER.units(values) == {"epochs": 10, "chunks": 4, "minibatches": 25}


@pytest.mark.parametrize("parameter", TRAINER.parameters, ids=lambda parameter: parameter.name)
def test_the_program_takes_every_end_of_every_range(parameter: TrainerParameter) -> None:
    ends: list[Any] = [choice for choice, _ in parameter.choices] or [parameter.minimum, parameter.maximum]
    for end in ends:
        value = end if parameter.kind == CHOICE else f"{end:.0f}" if parameter.kind == "whole" else str(end)
        values = TRAINER.validate({"minibatches": 1, "batch_size": 1, parameter.name: value})
        assert isinstance(values, dict), values
        read(values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"epochs": "many"}, ParameterProblem("epochs", "Epochs must be a whole number.")),
        ({"epochs": 1.5}, ParameterProblem("epochs", "Epochs must be a whole number.")),
        ({"epochs": True}, ParameterProblem("epochs", "Epochs must be a whole number.")),
        ({"epochs": 0}, ParameterProblem("epochs", "Epochs must be between 1 and 10000.")),
        ({"epochs": "9" * 5000}, ParameterProblem("epochs", "Epochs must be a whole number.")),
        ({"learning_rate": "nan"}, ParameterProblem("learning_rate", "Learning rate must be a number.")),
        ({"learning_rate": [1]}, ParameterProblem("learning_rate", "Learning rate must be a number.")),
        (
            {"model": ["logistic"]},
            ParameterProblem("model", "Model must be one of logistic, multilayer, convolutional."),
        ),
        ({"command": "rm"}, ParameterProblem("command", "Training with parameter servers has no parameter 'command'.")),
    ],
)
def test_a_wrong_value_is_refused_with_a_sentence(values: dict[str, object], expected: ParameterProblem) -> None:
    assert TRAINER.validate(values) == [expected]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    problems = TRAINER.validate({"epochs": 0, "classes": 1})
    assert isinstance(problems, list)
    assert [problem.parameter for problem in problems] == ["epochs", "classes"]


def test_values_that_do_not_go_together_are_refused() -> None:
    problems = TRAINER.validate({"chunks": 256, "minibatches": 10_000})
    assert isinstance(problems, list)
    assert problems[0].parameter == ""
    assert "more than 50,000,000 numbers" in problems[0].sentence


def test_programs_are_found_by_name() -> None:
    assert all(PROGRAMS[name].name == name for name in PROGRAMS)
