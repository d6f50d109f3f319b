"""The form of a question: which job, which of its fields, and what the job would have reported instead.

The other value is entered in the fields of the form of a job. What these have no place for is entered as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django import forms

from scheduling.models import ResourceKind
from scheduling.quotes.pages.submit_form import (
    KINDS,
    PLAIN,
    VALUE_FIELDS,
    JobForm,
    field_of,
    plain,
    value_asked,
    value_fields,
)
from scheduling.what_if.asking import what_if_fields
from scheduling.what_if.otherwise import Misasked
from scheduling.what_if.read_jobs import IntervalAsked, JobAsked
from scheduling.what_if.read_words import FIELD_WORDS, FieldWords, said_words
from tenants.access import Refused
from tenants.form_fields import NumberField

VALUE, ARRIVAL, TEXT = "value", "arrival", "as_text"
DEMANDS = {"worker_demand": "worker_takes_", "ps_demand": "ps_takes_"}
MOST_TEXT = 2_000


@dataclass(frozen=True)
class QuestionChoice:
    """The job and the field of a question; `value` is what the job reported in the field. `is_found` is False where a
    job was named that is not there."""

    job: JobAsked | None
    field: str
    is_found: bool = True

    @property
    def words(self) -> FieldWords:
        return FIELD_WORDS[self.field]

    @property
    def value(self) -> Any:
        if self.job is None:
            return None
        return self.job.arrival if self.field == ARRIVAL else self.job.spec.get(self.field)

    @property
    def said_words(self) -> str:
        return said_words(self.field, self.value)


def number_of(parameters: Mapping[str, str]) -> int | None:
    """Return the number of the job that the parameters name, or None."""
    text = _job_words(parameters)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _job_words(parameters: Mapping[str, str]) -> str:
    return parameters.get("job", "").strip().removeprefix("J-")


def choice_of(question: IntervalAsked, parameters: Mapping[str, str]) -> QuestionChoice:
    """Return the choice in the parameters. Where nothing is chosen, or something that is not there, it is the first
    job, and its worth."""
    job, field = question.job(number_of(parameters)), parameters.get("field", VALUE)
    is_found = job is not None or not _job_words(parameters)
    return QuestionChoice(job or next(iter(question.jobs), None), field if field in FIELD_WORDS else VALUE, is_found)


def field_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the fields by group, in the order of the words."""
    fields = [(name, words) for name, words in FIELD_WORDS.items() if name in what_if_fields()]
    return [
        (group, [(name, words.title) for name, words in rows])
        for group, rows in groupby(fields, key=lambda row: row[1].group)
    ]


class OtherwiseForm(JobForm):
    """The form for what the job would have reported in one field: of all fields of a job's form it has only those for
    that one."""

    def __init__(self, choice: QuestionChoice, data: Any = None, *, kinds: Sequence[ResourceKind]) -> None:
        super().__init__(data, kinds=kinds, initial=_initial(choice, kinds))
        self.choice = choice
        self.fields |= {ARRIVAL: _arrival(), TEXT: _text()}
        wanted = _inputs(choice, kinds)
        self.fields = {name: self.fields[name] for name in wanted}
        for name in wanted:
            if name != "kind":
                self.fields[name].widget.attrs.setdefault("class", "input")

    @property
    def is_worth(self) -> bool:
        return "kind" in self.fields

    @property
    def has_several(self) -> bool:
        """Return whether the value has several inputs or is a text, so that no input explains the field."""
        return len(self.fields) > 1 or TEXT in self.fields

    def inputs(self) -> Iterator[tuple[forms.BoundField, str]]:
        """Return each field with its unit."""
        return ((self[name], "" if name == TEXT else self.choice.words.unit) for name in self.fields)

    def said_instead(self) -> Any:
        """Return the value of a valid form, as in a specification. None means as if it were not given."""
        answers, field = self.cleaned_data, self.choice.field
        if TEXT in self.fields:
            return answers[TEXT]
        if field == VALUE:
            return value_asked(answers)
        if field in DEMANDS:
            return {kind.name: plain(answers[name]) for kind, name in _takes(field, self.kinds) if answers.get(name)}
        value = answers.get(field)
        return None if value in (None, "") else plain(value)

    def clean_as_text(self) -> Any:
        text = self.cleaned_data[TEXT].strip()
        try:
            return json.loads(text, parse_constant=_no_number) if text else None
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError("This is not JSON.") from error

    def complain(self, refused: Refused) -> None:
        """Show a refusal at the input that it is about, or above all inputs if it is about none of them."""
        if not isinstance(refused, Misasked) or refused.field != "value":
            self.add_error(None, refused.sentence)
            return
        place, _, about = refused.sentence.partition(": ")
        inner = field_of(place) if about else None
        if inner in self.fields and about:
            self.add_error(inner, about[:1].upper() + about[1:])
        else:
            self.add_error(next(iter(self.fields)), refused.sentence)


def _inputs(choice: QuestionChoice, kinds: Sequence[ResourceKind]) -> tuple[str, ...]:
    value, field = choice.value, choice.field
    if field == VALUE and (value is None or (isinstance(value, Mapping) and value.get("kind") in KINDS)):
        return ("kind", *dict.fromkeys(name for fields in VALUE_FIELDS.values() for name in fields))
    if field in DEMANDS and (value is None or _is_known(value, kinds)):
        return tuple(name for _, name in _takes(field, kinds))
    if field == ARRIVAL or (field in PLAIN and not isinstance(value, list | dict)):
        return (field,)
    return (TEXT,)


def _initial(choice: QuestionChoice, kinds: Sequence[ResourceKind]) -> dict[str, Any]:
    """Return what the job reported, so that the form opens with it and a person changes only what they like."""
    value, field = choice.value, choice.field
    if value is None:
        return {}
    if TEXT in _inputs(choice, kinds):
        return {TEXT: json.dumps(value, indent=1)}
    if field == VALUE:
        return value_fields(value)
    if field in DEMANDS:
        return {name: plain(value.get(kind.name, "")) for kind, name in _takes(field, kinds)}
    return {field: plain(value)}


def _takes(field: str, kinds: Sequence[ResourceKind]) -> list[tuple[ResourceKind, str]]:
    return [(kind, f"{DEMANDS[field]}{kind.name}") for kind in kinds]


def _is_known(value: Any, kinds: Sequence[ResourceKind]) -> bool:
    return isinstance(value, Mapping) and set(value) <= {kind.name for kind in kinds}


def _arrival() -> NumberField:
    widget = forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
    errors = {"required": "Say the slot.", "invalid": "Enter a number."}
    words = FIELD_WORDS[ARRIVAL]
    return NumberField(label=words.title, help_text=words.meaning, widget=widget, error_messages=errors)


def _text() -> forms.CharField:
    widget = forms.Textarea(attrs={"class": "input log", "rows": 8, "spellcheck": "false"})
    help_text = "In JSON, as a program says it. Empty: as if it were not said."
    return forms.CharField(label="Instead", help_text=help_text, required=False, max_length=MOST_TEXT, widget=widget)


def _no_number(_: str) -> float:
    raise ValueError("no such number")
