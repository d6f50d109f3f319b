"""Read and write a job as a text: YAML or JSON in the words of a scenario file, with its name and its lanes if the
writer likes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.common import BadText, plain_document

LONGEST = 64 * 1024  # bytes; a job is a page at most


@dataclass(frozen=True)
class WrittenJob:
    """A job as a text says it. Name, lane and `otherwise` are None where the text says nothing of them."""

    spec: Mapping[str, Any]
    name: str | None = None
    lane: str | None = None
    otherwise: str | None = None


def read_job(text: str) -> WrittenJob:
    """Read a text that has either the job's fields side by side, or name, lane, `otherwise` and `spec` as a program
    sends them."""
    document = plain_document(text, longest=LONGEST)
    if not isinstance(document, Mapping):
        raise BadText("Write the fields of one job, for example `epochs: 4`.")
    fields = dict(document)
    words = {word: fields.pop(word, None) for word in ("name", "lane", "otherwise")}
    if "spec" in fields:
        inner = fields.pop("spec")
        fields.pop("pool", None)  # the page says which pool
        if fields or not isinstance(inner, Mapping):
            names = "name, lane, otherwise and pool"
            raise BadText(f"Beside `spec` only {names} may stand, and `spec` holds the job's fields.")
        fields = dict(inner)
    for word, value in words.items():
        if value is not None and not isinstance(value, str):
            raise BadText(f"{word}: must be a text.")
    return WrittenJob(fields, **words)


def job_text(name: str, lane: str, spec: Mapping[str, Any], otherwise: str | None = None) -> str:
    """Return the same job as a text, to keep or to send by a program."""
    lanes = {"lane": lane} | ({"otherwise": otherwise} if otherwise else {})
    return json.dumps({"name": name, **lanes, "spec": dict(spec)}, indent=2)
