"""The part of a job's form about programs of the catalogue: which may be chosen, and the parameters of the chosen
one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms import BoundField

from scheduling.common import as_sentence
from scheduling.programs.catalogue import PARAMETER_SERVER, Program
from scheduling.programs.parameters import CHOICE, SWITCH, TEXT, WHOLE, Parameter, Value, word_of
from scheduling.programs.stored import OPERATOR, program_choice, usable_programs

OFFERED_SCRIPTS = 20  # on the form; a job that is submitted again brings its own


@dataclass(frozen=True)
class OfferedProgram:
    """One version of a program that a new job may name."""

    program: Program

    @property
    def owner(self) -> str:
        """Return the owner as a specification names it: empty for the tenant's own."""
        return "" if self.program.owner.tenant else OPERATOR

    @property
    def choice(self) -> str:
        return program_choice(self.program)

    @property
    def label(self) -> str:
        return f"{self.program.title or self.program.name} ({self.program.name}, version {self.program.version})"

    @property
    def has_servers(self) -> bool:
        """Return whether the program talks to parameter servers: a job in hours has none."""
        return self.program.shape == PARAMETER_SERVER

    def field_name(self, parameter: Parameter) -> str:
        """Return the name of the form's field. Two programs may have a parameter of the same name, and so may two
        versions."""
        return f"{self.owner or 'own'}.{self.program.name}.{self.program.version}.{parameter.name}"

    def fields(self) -> dict[str, CatalogueField]:
        return {self.field_name(each): CatalogueField(each) for each in self.program.parameters}

    def defaults(self) -> dict[str, str]:
        return {self.field_name(each): typed_value(each.default) for each in self.program.parameters}

    def in_spec(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """Return the program as a specification names it, with the parameters that differ from their defaults."""
        values = {each.name: cleaned.get(self.field_name(each)) for each in self.program.parameters}
        parameters = {name: value for name, value in values.items() if value is not None}
        words = {"name": self.program.name, "version": self.program.version, "parameters": parameters}
        return words | ({"owner": self.owner} if self.owner else {})

    def values(self, parameters: object) -> dict[str, str] | None:
        """Return the fields that mean these parameters of a specification, or None where they cannot say them."""
        by_name = {each.name: each for each in self.program.parameters}
        if not isinstance(parameters, Mapping) or set(parameters) - set(by_name):
            return None
        if not all(isinstance(value, str | int | float) for value in parameters.values()):
            return None
        fields = {self.field_name(by_name[name]): typed_value(value) for name, value in parameters.items()}
        return self.defaults() | fields


class Switch(forms.CheckboxInput):
    """On or off, in the words that a parameter takes. A hidden field before it says off when it is not ticked."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return data.get(name)

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        context["widget"]["value"] = typed_value(True)
        return context


class CatalogueField(forms.CharField):
    """A field for a parameter, checked by the parameter's own rules."""

    def __init__(self, parameter: Parameter) -> None:
        attrs = {"class": "input", "autocomplete": "off"}
        widget: forms.Widget = forms.TextInput(attrs=attrs)
        if parameter.kind == CHOICE:
            widget = forms.Select(attrs={"class": "input full"}, choices=[(each, each) for each in parameter.choices])
        elif parameter.kind == SWITCH:
            widget = Switch(check_test=lambda value: value == typed_value(True))
        elif parameter.kind != TEXT:
            mode = "numeric" if parameter.kind == WHOLE else "decimal"
            widget = forms.TextInput(attrs=attrs | {"inputmode": mode})
        label = parameter.title or parameter.name
        super().__init__(label=label, help_text=help_of(parameter), required=False, strip=False, widget=widget)
        self.parameter = parameter

    def clean(self, value: Any) -> Any:
        """Return the value, or None where it is the default. Only a text may be empty."""
        text = typed_value(value) if isinstance(value, bool) else super().clean(value)
        if text == "" and self.parameter.kind != TEXT:
            return None
        parsed, sentence = self.parameter.parse(text)
        if sentence:
            raise forms.ValidationError(as_sentence(f"{self.label} {sentence}"))
        return None if parsed == self.parameter.default else parsed


def help_of(parameter: Parameter) -> str:
    """Return what the author says of the parameter, and which values it may have."""
    least, most = parameter.least, parameter.most
    bounds = ""
    if least is not None and most is not None:
        bounds = f"From {least:g} to {most:g}."
    elif least is not None or most is not None:
        bounds = f"At least {least:g}." if least is not None else f"At most {most:g}."
    return " ".join(text for text in (parameter.help, bounds) if text)


def typed_value(value: Value) -> str:
    """Return a value as a field of the form has it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return word_of(int(value) if whole else value)


def offered_programs(tenant_id: int) -> tuple[OfferedProgram, ...]:
    """Return the newest version of each program, the tenant's own first; of programs that scripts became only the
    newest."""
    usable = usable_programs(tenant_id=tenant_id, most_scripts=OFFERED_SCRIPTS)
    return tuple(OfferedProgram(each.program) for each in usable)


def with_named(programs: Sequence[OfferedProgram], choice: object, tenant_id: int) -> tuple[OfferedProgram, ...]:
    """Return the programs, and the version that a specification names if that is an earlier one of a usable program."""
    if not isinstance(choice, Mapping) or (program_find(programs, choice) is not None):
        return tuple(programs)
    name, version, owner = choice.get("name"), choice.get("version"), choice.get("owner")
    if not isinstance(name, str) or type(version) is not int or not 0 < version < 2**31:
        return tuple(programs)
    rows = usable_programs(tenant_id=tenant_id, name=name, owner=OPERATOR if owner else None, version=version)
    return (*programs, *(OfferedProgram(each.program) for each in rows[:1]))


def program_find(programs: Sequence[OfferedProgram], choice: Mapping[str, Any]) -> OfferedProgram | None:
    """Return the program that a specification names: the tenant's own before the operator's, and the newest version
    where none is named."""
    for each in programs:
        is_owner = choice.get("owner") in (None, each.owner or None)
        is_version = choice.get("version") in (None, each.program.version)
        if each.program.name == choice.get("name") and is_owner and is_version:
            return each
    return None


def named(choice: str) -> dict[str, Any] | None:
    """Return a choice as a specification names the program. The form has it from a browser, so it may be anything."""
    owner, _, rest = choice.partition(":")
    name, _, version = rest.partition(":")
    if not name or not version.isdecimal() or len(version) > 9:
        return None
    return {"name": name, "version": int(version)} | ({"owner": owner} if owner else {})


@dataclass(frozen=True)
class ParameterRow:
    """A field of the chosen program as the form shows it."""

    bound: BoundField
    parameter: Parameter

    @property
    def is_switch(self) -> bool:
        return self.parameter.kind == SWITCH

    @property
    def text(self) -> str:
        """Return the parameter in the line that is shown instead of the fields while they are folded up."""
        return f"{self.parameter.name} {self.bound.value()}"


@dataclass(frozen=True)
class ParameterCard:
    """The parameters of the chosen program. They are `open` where they are new to the reader, or something is wrong
    with them."""

    choice: str
    rows: tuple[ParameterRow, ...]
    open: bool

    @property
    def line(self) -> str:
        return " · ".join(row.text for row in self.rows)


def parameter_card(form: forms.Form, offer: OfferedProgram | None, shown_for: str | None) -> ParameterCard:
    """Return the card. `shown_for` is the choice whose parameters the page showed, or None if there was no page
    before."""
    if offer is None:
        return ParameterCard("", (), open=False)
    rows = tuple(ParameterRow(form[offer.field_name(each)], each) for each in offer.program.parameters)
    is_new = shown_for is not None and shown_for != offer.choice
    return ParameterCard(offer.choice, rows, open=is_new or any(row.bound.errors for row in rows))
