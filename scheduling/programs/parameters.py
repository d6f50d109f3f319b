"""The typed parameters of a program, which a submitter may choose, and the values that are given to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling.core.names import nearest
from scheduling.programs.fields import FieldRefusal, path_of

WHOLE, NUMBER, CHOICE, TEXT, SWITCH = "whole", "number", "choice", "text", "switch"
KINDS = (WHOLE, NUMBER, CHOICE, TEXT, SWITCH)
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
LONGEST_TEXT = 1_000
MOST_CHOICES = 100
LARGEST = 10**15

Value = int | float | str | bool


@dataclass(frozen=True)
class Parameter:
    """A parameter of a program. A whole text must match `pattern`, an expression of Python's `re`."""

    name: str
    kind: str  # whole | number | choice | text | switch
    default: Value
    title: str = ""
    help: str = ""
    unit: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    longest: int = 200  # characters of a text
    pattern: str = ""

    def parse(self, value: object) -> tuple[Value, str]:
        """Return the value in the parameter's type, also from a form's text; and a sentence why it is refused, which is
        empty if it is not."""
        if self.kind == SWITCH:
            meanings = {"true": True, "false": False, "on": True, "off": False, True: True, False: False}
            if isinstance(value, bool | str) and value in meanings:
                return meanings[value], ""
            return False, "must be on or off"
        if self.kind == CHOICE:
            if isinstance(value, str) and value in self.choices:
                return value, ""
            return "", f"must be one of {', '.join(self.choices)}"
        if self.kind == TEXT:
            return self._text(value)
        return self._number(value)

    def _text(self, value: object) -> tuple[Value, str]:
        if not isinstance(value, str) or not value.isprintable():
            return "", "must be a text of characters that can be shown"
        if len(value) > self.longest:
            return "", f"must be at most {self.longest} characters, not {len(value)}"
        if self.pattern and not re.fullmatch(self.pattern, value):
            return "", f"must match {self.pattern}"
        return value, ""

    def _number(self, value: object) -> tuple[Value, str]:
        what = "a whole number" if self.kind == WHOLE else "a number"
        number: Any = value
        if isinstance(value, str):
            form = r"[+-]?[0-9]{1,15}" if self.kind == WHOLE else r"[+-]?[0-9]{0,20}\.?[0-9]{1,20}(e[+-]?[0-9]{1,3})?"
            number = None
            if re.fullmatch(form, value.strip(), re.ASCII | re.IGNORECASE):
                number = int(value) if self.kind == WHOLE else float(value)
        kinds = int if self.kind == WHOLE else (int, float)
        if isinstance(number, bool) or not isinstance(number, kinds) or number != number:  # not a number
            return 0, f"must be {what}"
        least, most = -LARGEST if self.least is None else self.least, LARGEST if self.most is None else self.most
        if not least <= number <= most:
            return 0, f"must be from {least:g} to {most:g}"
        return (number if self.kind == WHOLE else float(number)), ""


def read_parameter(document: Mapping[str, Any], place: str) -> Parameter | tuple[FieldRefusal, ...]:
    """Read a document as a parameter; or return all that is wrong with it."""
    fields = ("name", "kind", "default", "title", "help", "unit", "least", "most", "choices", "longest", "pattern")
    strange = [path_of(name) for name in document if name not in fields]
    refusals = [FieldRefusal(f"{place}.{name}", "is no field of a parameter") for name in strange]
    name, kind = document.get("name"), document.get("kind")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        refusals.append(FieldRefusal(f"{place}.name", "must begin with a letter a-z, then a-z, 0-9 and _, 40 at most"))
    if kind not in KINDS:
        refusals.append(FieldRefusal(f"{place}.kind", f"must be one of {', '.join(KINDS)}"))
    words = {each: document.get(each) or "" for each in ("title", "help", "unit", "pattern")}
    for each, text in words.items():
        if not isinstance(text, str) or len(text) > LONGEST_TEXT or not text.isprintable():
            refusals.append(FieldRefusal(f"{place}.{each}", f"must be at most {LONGEST_TEXT:,} printable characters"))
    bounds = {each: document.get(each) for each in ("least", "most")}
    for each, bound in bounds.items():
        if bound is not None and (
            isinstance(bound, bool) or not isinstance(bound, int | float) or not abs(bound) <= LARGEST
        ):
            refusals.append(FieldRefusal(f"{place}.{each}", "must be a number"))
    choices = document.get("choices") or ()
    if not _are_choices(choices) or bool(choices) != (kind == CHOICE):
        refusals.append(FieldRefusal(f"{place}.choices", "must be 1 to 100 different words, of a choice alone"))
    longest = document.get("longest") or Parameter.longest
    if isinstance(longest, bool) or not isinstance(longest, int) or not 1 <= longest <= LONGEST_TEXT:
        refusals.append(FieldRefusal(f"{place}.longest", f"must be a whole number from 1 to {LONGEST_TEXT:,}"))
    if not refusals and words["pattern"]:
        refusals += _pattern(words["pattern"], longest, f"{place}.pattern")
    if refusals:
        return tuple(refusals)
    least, most = bounds["least"], bounds["most"]
    if least is not None and most is not None and least > most:
        return (FieldRefusal(f"{place}.least", f"must be at most {most:g}"),)
    parameter = Parameter(
        name=str(name),
        kind=str(kind),
        default="",
        least=least,
        most=most,
        choices=tuple(choices),
        longest=longest,
        **words,
    )
    if "default" not in document:
        return (FieldRefusal(f"{place}.default", "must be said"),)
    default, sentence = parameter.parse(document["default"])
    return (FieldRefusal(f"{place}.default", sentence),) if sentence else replace(parameter, default=default)


def document_of_parameter(parameter: Parameter) -> dict[str, Any]:
    """Return a parameter as a document, without fields that have their defaults."""
    unsaid = Parameter(name="", kind="", default="")
    document: dict[str, Any] = {"name": parameter.name, "kind": parameter.kind, "default": parameter.default}
    for field in ("title", "help", "unit", "least", "most", "longest", "pattern"):
        if getattr(parameter, field) != getattr(unsaid, field):
            document[field] = getattr(parameter, field)
    return document | ({"choices": list(parameter.choices)} if parameter.choices else {})


def _are_choices(choices: object) -> bool:
    if not isinstance(choices, list | tuple) or len(choices) > MOST_CHOICES:
        return False
    texts = [each for each in choices if isinstance(each, str) and 0 < len(each) <= 200 and each.isprintable()]
    return len(set(texts)) == len(choices)


def _pattern(pattern: str, longest: int, place: str) -> list[FieldRefusal]:
    """Return what is wrong with a pattern. Anybody may write one, and none may keep a process busy: no group may be
    repeated, at most three things may be, and the texts to match are short. So the steps of a match are bounded by the
    cube of a text's length."""
    if len(pattern) > 200 or re.search(r"\)[*+?{]|\(\?|\\[0-9]", pattern):
        return [FieldRefusal(place, "must be at most 200 characters, without repeated groups and looking around")]
    if longest > 200 or len(re.findall(r"[*+?{]", pattern)) > 3 or pattern.count("|") > 10:
        return [FieldRefusal(place, "must repeat at most three things, in texts of at most 200 characters")]
    try:
        re.compile(pattern)
    except re.error as error:
        return [FieldRefusal(place, f"is no pattern: {error}")]
    return []


def read_values(
    parameters: Sequence[Parameter], values: Mapping[str, object]
) -> dict[str, Value] | tuple[FieldRefusal, ...]:
    """Return every parameter with its value, or what is wrong. A value that is missing or empty takes the default."""
    names = [parameter.name for parameter in parameters]
    by_name: dict[str, Value] = {}
    refusals: list[FieldRefusal] = []
    for name in values:
        if name not in names:
            near = nearest(str(name), names)
            instead = f"; did you mean {near}?" if near else ""
            refusals.append(FieldRefusal(f"parameters.{path_of(name)}", f"is no parameter{instead}"))
    for parameter in parameters:
        value = values.get(parameter.name)
        if value is None or (value == "" and parameter.kind != TEXT):
            value = parameter.default
        by_name[parameter.name], sentence = parameter.parse(value)
        if sentence:
            refusals.append(FieldRefusal(f"parameters.{parameter.name}", sentence))
    return tuple(refusals) if refusals else by_name


def word_of(value: Value) -> str:
    """Return a value as text for a word of a command."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
