"""Read a job from a file: YAML or JSON in the words of a scenario file, with name, lanes and pool beside the job's
fields or around them. Read programs and studies from files too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bourse_client.errors import BourseError

LONGEST = 1 << 20  # bytes that the interface takes


class BadFile(BourseError):
    """The contents of the file cannot be a job, or a program."""


class RepeatedName(ValueError):
    """A name stands twice in an object, and readers would drop all but the last one. The text is a sentence."""


@dataclass(frozen=True)
class JobFile:
    """A job as a file says it. Name, lane, pool and `otherwise` are None where the file says nothing of them."""

    spec: Mapping[str, Any]
    name: str | None
    lane: str | None
    pool: str | None
    otherwise: str | None


def read_json(text: str) -> Any:
    """Read JSON strictly: what Python reads beyond it, such as NaN, is refused, and so is what is nested too deeply.
    Raises `ValueError`."""
    try:
        value = json.loads(text, object_pairs_hook=_each_once)
        json.dumps(value, allow_nan=False)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def read_job(text: str) -> JobFile:
    """Read a text that has either the job's fields side by side, or name, lane, otherwise, pool and `spec` as in the
    interface."""
    fields = _mapping(text, "write the fields of one job, for example `epochs: 4`.")
    words = {word: fields.pop(word, None) for word in ("name", "lane", "pool", "otherwise")}
    for word, value in words.items():
        if value is not None and not isinstance(value, str):
            raise BadFile(f"{word}: must be a text.")
    if "spec" in fields:
        inner = fields.pop("spec")
        if fields or not isinstance(inner, dict):
            names = "name, lane, otherwise and pool"
            raise BadFile(f"beside `spec` only {names} may stand, and `spec` holds the job's fields.")
        fields = inner
    _require_plain(fields)
    return JobFile(fields, **words)


IN_BULK = ("name", "spec", "hours", "worth", "program", "divisible", "zone", "begin", "after", "after_arrays")


def read_line(text: str, name: str) -> tuple[dict[str, Any], str | None]:
    """Read one line of a file of many jobs. Return the job as the interface takes it, and the pool that it names. The
    line has either the fields of a specification side by side, or `spec`, or `hours` with their `worth`. `name` is for
    a job that says none."""
    try:
        fields = read_json(text)
    except RepeatedName as error:
        raise BadFile(str(error)) from error
    except ValueError:
        raise BadFile("this is not JSON.") from None
    if not isinstance(fields, dict):
        raise BadFile('write the fields of one job, for example `{"epochs": 4}`.')
    pool, lane = fields.pop("pool", None), fields.pop("lane", "batch")
    if pool is not None and not isinstance(pool, str):
        raise BadFile("pool: must be a text.")
    if lane != "batch":
        raise BadFile("lane: jobs in bulk wait for the next interval; submit one for the instant lane by itself.")
    if "spec" not in fields and "hours" not in fields:
        beside = {word: fields.pop(word) for word in ("name", "begin", "after", "after_arrays") if word in fields}
        fields = {**beside, "spec": fields}
    if unknown := [word for word in fields if word not in IN_BULK]:
        raise BadFile(f"{unknown[0]}: beside `spec` or `hours` only {', '.join(IN_BULK)}, pool and lane may stand.")
    return {"name": name, **fields}, pool


def read_program(text: str) -> dict[str, Any]:
    """Read a program's document; the server checks it by its rules."""
    fields = _mapping(text, "write the fields of one program, for example `name: train`.")
    _require_plain(fields)
    return fields


def read_study(text: str) -> dict[str, Any]:
    """Read a study's document; the server checks it by its rules. Its days and moments need no quotes."""
    fields = _mapping(text, "write the fields of one study, for example `rules: [alone, market]`.", has_days=True)
    _require_plain(fields)
    return fields


def _mapping(text: str, otherwise: str, *, has_days: bool = False) -> dict[str, Any]:
    if len(text.encode()) > LONGEST:
        raise BadFile("it is longer than 1 MiB.")
    document = _parsed(text, has_days=has_days)
    if not isinstance(document, dict):
        raise BadFile(otherwise)
    return dict(document)


def _parsed(text: str, *, has_days: bool) -> Any:
    """Parse the text. JSON needs no YAML reader, and starts faster without one. With `has_days` days and moments are
    texts, and need no quotes."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_each_once)
        except RepeatedName as error:
            raise BadFile(str(error)) from error
        except (ValueError, RecursionError):
            pass  # a mapping of YAML may begin with a brace as well
    try:
        import yaml
    except ImportError:
        raise BadFile("to read YAML, PyYAML must be installed; JSON works without it.") from None
    try:
        loader = _loader(yaml, has_days=has_days)
        return yaml.load(text, Loader=loader)  # noqa: S506  a safe loader that knows fewer numbers
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadFile(f"{where}{error.problem or 'this is neither YAML nor JSON'}.") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadFile("this is neither YAML nor JSON.") from error


def _loader(yaml: Any, *, has_days: bool) -> Any:
    """Return a loader for plain values, whose numbers are those of JSON. YAML's own reader takes 1:30 for 90 and 010
    for 8."""
    unknown = ("int", "float", "timestamp") if has_days else ("int", "float")

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in unknown]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names: set[str] = set()
            for name in [name for name, _ in node.value if isinstance(name, yaml.ScalarNode)]:
                if name.value in names:
                    raise yaml.MarkedYAMLError(
                        problem=f"{name.value!r} stands there twice", problem_mark=name.start_mark
                    )
                names.add(name.value)
            return super().construct_mapping(node, deep)

    whole = r"-?(0|[1-9][0-9]*)"
    endless = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"  # they are no numbers of JSON either, and are refused as such
    for tag, pattern in (("int", whole), ("float", rf"{whole}(\.[0-9]+)?([eE][-+]?[0-9]+)?|{endless}")):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"({pattern})\Z"), list("-+.0123456789"))
    return Loader


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise RepeatedName(f"{name!r} stands there twice.")
        fields[name] = value
    return fields


def _require_plain(fields: Mapping[Any, Any]) -> None:
    """Refuse values that JSON does not have, such as the dates and names of fields that YAML knows."""
    try:
        plain = json.loads(json.dumps(fields, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadFile(f"a value is neither number, text, list nor mapping: {error}.") from error
    if plain != fields:
        raise BadFile("names of fields are texts; put them in quotes.")
