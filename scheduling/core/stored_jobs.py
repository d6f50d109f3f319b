"""Read the jobs of a stored view one by one when they are needed: a page shows some thirty of ten thousand.

Stored bytes are canonical. So the row of a job begins with its arrival, as no other field name of a job sorts before
that, and the text that begins a row occurs nowhere inside one: a quotation mark in a text always has its backslash. If
the jobs of a text cannot be separated in this way, it is read whole. Everything that decides, settles or verifies reads
it whole in any case: `records.view_from`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from scheduling.core import records
from scheduling.core.plain import Document
from scheduling.core.types import Job, UnitType, Value, View

BEFORE, BEHIND = b',"jobs":[', b'],"memory":'  # all jobs are between these two names
BEGINS, ENDS = b'{"arrival":', b"}"
NUMBER = re.compile(rb'"number":(\d+),')
FRACTION = re.compile(rb"[.eE]")


@dataclass(frozen=True)
class SaidAlike:
    """The unit types and value functions that several jobs of one view share; those of an array share all of theirs."""

    units: dict[str, UnitType] = field(default_factory=dict)
    values: dict[bytes, Value] = field(default_factory=dict)


class StoredJob:
    """A job that is read from its row in the stored bytes. The whole `Job` is made only when a field is read for which
    the row has no short cut here."""

    __slots__ = ("_row", "_shared", "_whole", "number")

    def __init__(self, number: int, row: bytes, shared: SaidAlike) -> None:
        self.number = number
        self._row = row
        self._shared = shared
        self._whole: Job | None = None

    @property
    def arrival(self) -> float:
        text = self._row[len(BEGINS) : self._row.index(b",")]
        return float(text) if FRACTION.search(text) else int(text)

    @property
    def tenant(self) -> int:
        return int(self._between(b',"tenant":', b","))

    @property
    def divisible(self) -> bool:
        return b',"divisible":true,' in self._row

    @property
    def value(self) -> Value:
        text = self._between(b',"value":', b',"worker_types":')
        if text not in self._shared.values:
            self._shared.values[text] = records.value_from(json.loads(text))
        return self._shared.values[text]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # no job has such a field, and a half-made copy would call itself for ever
            raise AttributeError(name)
        if self._whole is None:
            self._whole = records.job_from(json.loads(self._row), self._shared.units)
        return getattr(self._whole, name)

    def _between(self, before: bytes, behind: bytes) -> bytes:
        """Return the text between two names that a row has once; raise ValueError if it does not have them."""
        start = self._row.index(before) + len(before)
        return self._row[start : self._row.index(behind, start)]


def view_shown(stored: bytes) -> View:
    """Return the view that was stored, for callers that read few of its jobs."""
    document, jobs = document_and_jobs(stored)
    return records.view_of(document, records.cluster_of(document["cluster"]), jobs)


def document_and_jobs(stored: bytes) -> tuple[Document, Mapping[int, Job]]:
    """Return the document of a stored view without its jobs, and the jobs by number."""
    head, _, tail = stored.partition(BEFORE)
    middle, _, rest = tail.partition(BEHIND)
    rows = middle.removeprefix(BEGINS).removesuffix(ENDS).split(ENDS + b"," + BEGINS) if middle else []
    numbers = [int(number) for number in NUMBER.findall(middle)]
    whole_rows = not middle or (middle.startswith(BEGINS) and middle.endswith(ENDS))
    if not (rest and whole_rows and len(numbers) == len(rows)):
        document = json.loads(stored)
        return document, records.jobs_from(document["jobs"])
    shared = SaidAlike()
    jobs = {number: StoredJob(number, BEGINS + row + ENDS, shared) for number, row in zip(numbers, rows, strict=True)}
    return json.loads(head + BEFORE + BEHIND + rest), cast(dict[int, Job], jobs)
