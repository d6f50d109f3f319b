"""A job as a text: YAML or JSON in the words of a scenario file, with its name and lane if the writer likes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

LONGEST = 64 * 1024  # bytes; a job is a page at most
DEEPEST = 8


class BadText(ValueError):
    """What stands in the text cannot be a job; the message is for its writer."""


@dataclass(frozen=True)
class WrittenJob:
    """Name and lane are None where the text says nothing of them."""

    spec: Mapping[str, Any]
    name: str | None = None
    lane: str | None = None


class _Loader(yaml.SafeLoader):
    """Plain values only. References would let a short text stand for an endless one."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise BadText("References (*name) are not allowed; write the value out.")
        return super().compose_node(parent, index)


def read_job(text: str) -> WrittenJob:
    """Either the job's fields side by side, or name, lane and `spec` as a program sends them."""
    if len(text.encode()) > LONGEST:
        raise BadText(f"The text is longer than {LONGEST // 1024} kB.")
    document = _parsed(text)
    if not isinstance(document, Mapping):
        raise BadText("Write the fields of one job, for example `epochs: 4`.")
    _check(document, 0)
    fields = dict(document)
    name, lane = fields.pop("name", None), fields.pop("lane", None)
    if "spec" in fields:
        inner = fields.pop("spec")
        fields.pop("pool", None)  # the page says which pool
        if fields or not isinstance(inner, Mapping):
            raise BadText("Beside `spec` only name, lane and pool may stand, and `spec` holds the job's fields.")
        fields = dict(inner)
    for word, value in (("name", name), ("lane", lane)):
        if value is not None and not isinstance(value, str):
            raise BadText(f"{word}: must be a text.")
    return WrittenJob(fields, name, lane)


def _parsed(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  a safe loader that also refuses references
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"Line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadText(f"{where}{error.problem or 'this is neither YAML nor JSON'}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BadText("This is neither YAML nor JSON.") from error


def _check(value: Any, depth: int) -> None:
    """Values that JSON has too: what is stored is JSON."""
    if depth > DEEPEST:
        raise BadText("The text is nested too deeply.")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise BadText(f"{key!r}: names of fields are texts.")
            _check(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth + 1)
    elif value is not None and not isinstance(value, str | int | float | bool):
        raise BadText(f"{value}: must be a number or a text; put it in quotes.")


def written(name: str, lane: str, spec: Mapping[str, Any]) -> str:
    """The same job as a text, to keep or to send by a program."""
    return json.dumps({"name": name, "lane": lane, "spec": dict(spec)}, indent=2)
