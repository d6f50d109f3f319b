"""The part of a job's form about what runs: a built-in program and the parameters that it describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms import BoundField

from scheduling.engines.programs import CHOICE, PROGRAMS, WHOLE, RegisteredProgram, TrainerParameter
from scheduling.market.decide import UNITS
from scheduling.models import PROGRAM

IN_SIGHT = 4  # parameters; the rest is folded up


def field_name(program: RegisteredProgram, parameter: TrainerParameter) -> str:
    """Return the name of the form's field; two programs may have a parameter of the same name."""
    return f"{program.name}__{parameter.name}"


def own_parameters(program: RegisteredProgram) -> list[TrainerParameter]:
    """Return the parameters without epochs, chunks and mini-batches, which are the job's."""
    return [parameter for parameter in program.parameters if parameter.name not in UNITS]


class ParameterField(forms.CharField):
    """A field for a parameter, checked by the program's own rules."""

    def __init__(self, parameter: TrainerParameter) -> None:
        widget: forms.Widget
        if parameter.kind == CHOICE:
            widget = forms.Select(attrs={"class": "input"}, choices=parameter.choices)
        else:
            mode = "numeric" if parameter.kind == WHOLE else "decimal"
            widget = forms.TextInput(attrs={"inputmode": mode, "class": "input", "autocomplete": "off"})
        super().__init__(label=parameter.title, help_text=parameter.help, required=False, widget=widget)
        self.parameter = parameter

    def clean(self, value: Any) -> Any:
        """Return the value, or None where it is the default."""
        text = super().clean(value)
        if text == "":
            return None
        try:
            parsed = self.parameter.parse(text)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        return None if parsed == self.parameter.default else parsed


def parameter_fields() -> dict[str, ParameterField]:
    return {
        field_name(program, parameter): ParameterField(parameter)
        for program in PROGRAMS.values()
        for parameter in own_parameters(program)
    }


def defaults() -> dict[str, Any]:
    """Return the values of the fields in a new form."""
    return {name: field.parameter.default for name, field in parameter_fields().items()}


def program_asked(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a valid form says of a program, as part of a specification; empty where it has none."""
    program = PROGRAMS.get(answers.get("program", ""))
    if program is None:
        return {}
    values = {each.name: answers.get(field_name(program, each)) for each in own_parameters(program)}
    parameters = {name: value for name, value in values.items() if value is not None}
    return {PROGRAM: {"name": program.name, "parameters": parameters}}


def program_values(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields that mean the program of a job, or None where they cannot say it."""
    if PROGRAM not in spec:
        return {}
    choice = spec[PROGRAM]
    program = PROGRAMS.get(str(choice.get("name"))) if isinstance(choice, Mapping) else None
    values = choice.get("parameters", {}) if program else None
    if program is None or not isinstance(values, Mapping):
        return None
    fields = {parameter.name: field_name(program, parameter) for parameter in own_parameters(program)}
    if set(values) - set(fields) - {name for name in UNITS if values.get(name) == spec.get(name)}:
        return None
    return {"program": program.name} | {fields[name]: value for name, value in values.items() if name in fields}


@dataclass(frozen=True)
class ProgramChoice:
    """One program as the form shows it: a few parameters, and the rest folded up."""

    name: str
    title: str
    description: str
    is_chosen: bool
    in_sight: list[tuple[BoundField, str]]  # with its unit
    folded: list[tuple[BoundField, str]]
    open: bool  # something folded is wrong or not the default


def program_choices(form: forms.Form) -> list[ProgramChoice]:
    """Return the programs that are built in, as the form shows them."""
    return [_choice(form, program) for program in PROGRAMS.values()]


def _choice(form: forms.Form, program: RegisteredProgram) -> ProgramChoice:
    parameters = own_parameters(program)
    bound = [(form[field_name(program, each)], each.unit) for each in parameters]
    telling = [
        field.errors or str(field.value() or each.default) != str(each.default)
        for (field, _), each in zip(bound, parameters, strict=True)
    ]
    return ProgramChoice(
        name=program.name,
        title=program.title,
        description=program.description,
        is_chosen=form["program"].value() == program.name,
        in_sight=bound[:IN_SIGHT],
        folded=bound[IN_SIGHT:],
        open=any(telling[IN_SIGHT:]),
    )
