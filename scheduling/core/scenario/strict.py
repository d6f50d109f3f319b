"""Parse strict JSON, and refuse what Python's parser accepts but a scenario must not contain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from scheduling.core.names import doubled_name
from scheduling.core.scenario.fields import BadScenario, quoted

DIGITS = 400  # the most digits of an integer; no double has more, and longer ones are slow to read


class _Repeated(dict[str, Any]):
    """An object in which a name occurs twice."""

    name = ""


class _Unreadable(ValueError):
    """A literal that no scenario may contain."""


def parse(text: str | bytes) -> Any:
    """Return the document in a text; raise `BadScenario` with the place of anything that is not strict JSON."""
    flawed: list[object] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        values_by_name = dict(items)
        if len(values_by_name) == len(items):
            return values_by_name
        repeated = _Repeated(values_by_name)
        repeated.name = doubled_name(items)
        flawed.append(repeated)
        return repeated

    def constant(literal: str) -> float:
        flawed.append(literal)
        return float(literal)

    try:
        document: Any = json.loads(_decoded(text), object_pairs_hook=pairs, parse_constant=constant, parse_int=_integer)
        if flawed:
            _name_the_flaw(document)
    except json.JSONDecodeError as error:
        raise BadScenario(f"line {error.lineno}, column {error.colno}", f"not JSON ({error.msg.lower()})") from None
    except _Unreadable as error:
        raise BadScenario("scenario", str(error)) from None
    except RecursionError:
        raise BadScenario("scenario", "is nested too deeply") from None
    return document


def _decoded(text: str | bytes) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadScenario(f"byte {error.start}", "is not UTF-8") from None
    if not text.strip():
        raise BadScenario("scenario", "is empty")
    return text


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise _Unreadable(f"holds an integer of {len(digits)} digits")
    return int(digits)


def _name_the_flaw(document: Any) -> None:
    for place, value in _walk(document, ""):
        if isinstance(value, _Repeated):
            raise BadScenario(f"{place}.{value.name}".lstrip("."), f"the name {quoted(value.name)} stands twice")
        if isinstance(value, float) and value - value != 0:
            raise BadScenario(place or "scenario", f"must be a finite number, not {quoted(value)}")


def _walk(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    yield place, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(inner, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, f"{place}[{index}]")
