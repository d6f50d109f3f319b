"""A job as a file: YAML or JSON in the words of a scenario file, with name, lane and pool beside them or around."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bourse_client.errors import BourseError

LONGEST = 1 << 20  # bytes: what the interface takes


class BadFile(BourseError):
    """What stands in the file cannot be a job."""


@dataclass(frozen=True)
class JobFile:
    """Name, lane and pool are None where the file says nothing of them."""

    spec: Mapping[str, Any]
    name: str | None
    lane: str | None
    pool: str | None


def read_job(text: str) -> JobFile:
    """Either the job's fields side by side, or name, lane, pool and `spec` as the interface has them."""
    if len(text.encode()) > LONGEST:
        raise BadFile("it is longer than 1 MiB.")
    document = _parsed(text)
    if not isinstance(document, dict):
        raise BadFile("write the fields of one job, for example `epochs: 4`.")
    fields = dict(document)
    words = {word: fields.pop(word, None) for word in ("name", "lane", "pool")}
    for word, value in words.items():
        if value is not None and not isinstance(value, str):
            raise BadFile(f"{word}: must be a text.")
    if "spec" in fields:
        inner = fields.pop("spec")
        if fields or not isinstance(inner, dict):
            raise BadFile("beside `spec` only name, lane and pool may stand, and `spec` holds the job's fields.")
        fields = inner
    _require_plain(fields)
    return JobFile(fields, words["name"], words["lane"], words["pool"])


def _parsed(text: str) -> Any:
    """JSON needs no YAML reader, and starts quicker without."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            pass  # a mapping of YAML may begin with a brace as well
    try:
        import yaml
    except ImportError:
        raise BadFile("to read YAML, PyYAML must be installed; JSON works without it.") from None
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadFile(f"{where}{error.problem or 'this is neither YAML nor JSON'}.") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadFile("this is neither YAML nor JSON.") from error


def _require_plain(fields: Mapping[Any, Any]) -> None:
    """YAML knows dates and names that JSON does not have."""
    try:
        plain = json.loads(json.dumps(fields, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadFile(f"a value is neither number, text, list nor mapping: {error}.") from error
    if plain != fields:
        raise BadFile("names of fields are texts; put them in quotes.")
