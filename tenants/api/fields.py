"""Fields of requests and answers. Requests are taken by the letter: "5" is no number, and an unknown name is an error.

Money is a decimal text of credits with six digits; times are UTC with a Z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.core.names import nearest
from tenants.ledger.amounts import DIGITS, DIGITS_IN_WORDS, MOST, amount_read, exported, micro, shown

SHOWN_CREDITS = rf"^-?[0-9]+\.[0-9]{{{DIGITS}}}$"
READ_CREDITS = rf"^-?[0-9]{{1,13}}(\.[0-9]{{1,{DIGITS}}})?$"
MOST_UNKNOWN = 20  # the most unknown names that one answer lists


def time_text(moment: datetime) -> str:
    """Return the time as "2026-03-02T12:00:00Z", with microseconds where there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


class Form(serializers.Serializer[Any]):
    """A body by the letter: names that it does not have are refused, because a misspelt wish is no wish."""

    # The fields keep nothing of what they read, so one set serves every body of a class, as it does for answers.
    @cached_property
    def fields(self) -> Any:
        whole = self.parent is None and not (self._context or self.partial)
        return _fields_read(type(self)) if whole else self._own_fields()

    def _own_fields(self) -> Any:  # the refusal of a choice names the choices
        fields = super().fields
        for field in fields.values():
            choice = getattr(field, "child", field)
            if isinstance(choice, serializers.ChoiceField):
                choices = ", ".join(map(str, choice.choices)).replace("{", "{{").replace("}", "}}")
                choice.error_messages["invalid_choice"] = f"Must be one of {choices}."
        return fields

    def to_internal_value(self, data: Any) -> Any:
        unknown = (name for name in data if name not in self.fields) if isinstance(data, Mapping) else ()
        if flaws := {name: [unknown_field(name, self.fields)] for name in islice(unknown, MOST_UNKNOWN)}:
            raise serializers.ValidationError(flaws)
        return super().to_internal_value(data)


def unknown_field(name: str, known: Iterable[str]) -> serializers.ErrorDetail:
    return serializers.ErrorDetail(no_such("There is no such field", name, known), "unknown_field")


def no_such(words: str, name: str, known: Iterable[str]) -> str:
    """Return the words as a sentence that refuses a name, with the known one that is most like it if one is close."""
    near = nearest(name, known)
    return f"{words}; did you mean `{near}`?" if near else f"{words}."


@cache
def _fields_read(form: type[Form]) -> Any:
    """Return the fields of a form, bound to one that has no body, and never will."""
    return form()._own_fields()


# What an operation shows. Its fields read attributes of frozen values or rows, and decide nothing. So one set of fields
# serves every answer of a class: copying dozens of them costs more than reading them. Only an answer with a context of
# its own, such as a secret that is shown once, gets fields of its own. (No docstring: the schema would print it for
# every class that has none.)
class Answer(serializers.Serializer[Any]):
    @cached_property
    def fields(self) -> Any:
        return super().fields if self._context else _fields_of(type(self))

    @cached_property
    def _columns(self) -> Sequence[_Column]:
        return _columns(self.fields) if self._context else _columns_of(type(self))

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """As the framework has it, with what it would find out for each field of each row found out once."""
        values: dict[str, Any] = {}
        for name, read, show in self._columns:
            try:
                value = read(instance)
            except serializers.SkipField:
                continue
            values[name] = None if value is None else show(value)
        return values


_Column = tuple[str, Callable[[Any], Any], Callable[[Any], Any]]  # name, how a row's value is read and shown


@cache
def _fields_of(answer: type[Answer]) -> Any:
    """Return the fields of an answer, bound to one that has neither a value nor a context, and never will."""
    return super(Answer, answer()).fields


@cache
def _columns_of(answer: type[Answer]) -> Sequence[_Column]:
    return _columns(_fields_of(answer))


def _columns(fields: Mapping[str, Any]) -> Sequence[_Column]:
    readable = [(name, field) for name, field in fields.items() if not field.write_only]
    return tuple((name, _reader(field), field.to_representation) for name, field in readable)


def _reader(field: serializers.Field[Any, Any, Any, Any]) -> Callable[[Any], Any]:
    """Return a function that reads the field's value from a row. It reads plain values by itself; what is special about
    a value, such as that it is missing, is left to the field."""
    if type(field).get_attribute is not serializers.Field.get_attribute:
        return field.get_attribute
    names: Sequence[str] = field.source_attrs

    def read(row: Any) -> Any:
        value = row
        try:
            for name in names:
                value = value[name] if isinstance(value, dict) else getattr(value, name)
        except (AttributeError, KeyError):
            return field.get_attribute(row)
        return field.get_attribute(row) if callable(value) else value

    return read


class Text(serializers.CharField):
    """A JSON text, kept as it came."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"trim_whitespace": False} | options))

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Several(serializers.ListField):
    """A list whose length is looked at before what is in it."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list) and self.max_length is not None and len(data) > self.max_length:
            self.fail("max_length", max_length=self.max_length)
        return list(super().to_internal_value(data))


class Whole(serializers.IntegerField):
    """A JSON integer of 64 bits."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"min_value": -(2**63), "max_value": 2**63 - 1} | options))

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return super().to_internal_value(data)


class Real(serializers.FloatField):
    """A JSON number."""

    def to_internal_value(self, data: Any) -> float:
        if type(data) not in (int, float):
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """true or false."""

    def to_internal_value(self, data: Any) -> bool:
        if type(data) is not bool:
            self.fail("invalid", input=data)
        return data


class Word(serializers.ChoiceField):
    """One of a few words."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=data)
        return super().to_internal_value(data)


class Moment(serializers.DateTimeField):
    """A time in ISO 8601 with its offset; shown in UTC with a Z."""

    default_error_messages = {"invalid": "Write a time as 2026-03-02T12:00:00Z."}

    def to_internal_value(self, value: Any) -> datetime:
        moment = moment_of(value) if isinstance(value, str) else None
        if moment is None:
            self.fail("invalid")
        return moment

    def to_representation(self, value: Any) -> str:
        return time_text(value)


def moment_of(text: str) -> datetime | None:
    """Return the time that the text says, in UTC, or None if it says none or leaves its offset open."""
    try:
        moment = parse_datetime(text)
        return moment.astimezone(UTC) if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


class Credits(serializers.Field[Any, Any, Any, Any]):
    """Micro-credits inside, a decimal text of credits outside: "12.500000". Taken with up to six digits."""

    default_error_messages = {
        "invalid": f'Write credits as a text such as "12.5": at most {shown(MOST, 0)}, with at most {DIGITS_IN_WORDS} '
        "digits after the point."
    }

    def to_internal_value(self, data: Any) -> int:
        amount = amount_read(data)
        if amount is None:
            self.fail("invalid")
        return amount

    def to_representation(self, value: int) -> str:
        return exported(value)


class CoreCredits(serializers.Field[Any, Any, Any, Any]):
    """A float of the core inside, the same text outside, to the micro-credit. Only shown."""

    def to_internal_value(self, data: Any) -> Any:
        raise NotImplementedError("it is only shown")

    def to_representation(self, value: float) -> str:
        return exported(micro(value))


@extend_schema_field({"type": "object", "additionalProperties": True})
class Numbers(serializers.Field[Any, Any, Any, Any]):
    """An object of free form, such as a job's specification: whoever reads it says what it may hold."""

    default_error_messages = {"invalid": "Must be an object."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        return value
