"""Turn values into plain JSON and back: records field by field, arrays as runs of equal numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from itertools import groupby
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Document = dict[str, Any]
FloatArray = npt.NDArray[np.float64]
_field_names: dict[type[Any], tuple[str, ...]] = {}  # of each kind of record, read once
FEW = 16  # at most this many numbers of an array are counted faster one by one
NESTED = frozenset({"tenants", "split"})
PLAIN = frozenset({str, int, float, bool, type(None)})


def canonical(value: Any) -> str:
    """Return canonical JSON: sorted names, no blanks, ASCII, floats in their shortest exact form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def record(value: Any) -> Document:
    """Return the fields of a dataclass as plain JSON; nested records are left to the caller, also what a booking's
    payouts follow from (`split`)."""
    kind = type(value)
    if kind not in _field_names:
        _field_names[kind] = tuple(field.name for field in fields(value) if field.name not in NESTED)
    return {name: plain(getattr(value, name)) for name in _field_names[kind]}


def plain(value: Any) -> Any:
    if type(value) in PLAIN:  # true of nearly all values; the tests below take longer
        return value
    if isinstance(value, np.ndarray):
        return plain_array(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return value


def plain_array(array: npt.NDArray[Any] | None) -> Document | None:
    """Return an array as its shape and its runs: [how often, value] in order of memory. Calendars have long runs."""
    if array is None:
        return None
    return {"shape": list(array.shape), "type": _type_name(array.dtype), "runs": _runs(array.ravel())}


def _runs(flat: npt.NDArray[Any]) -> list[tuple[int, Any]]:
    """Return the runs of equal values as (how often, value), in order."""
    if len(flat) <= FEW:  # the demands of a unit: two numbers or three
        return [(len(list(same)), value) for value, same in groupby(flat.tolist())]
    begins = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    lengths = np.diff(begins, append=len(flat))
    return list(zip(lengths.tolist(), flat[begins].tolist(), strict=True))


class _Row(NamedTuple):
    """The runs of one row: the first, the last, and the canonical JSON of those between. If there is only one run,
    `last` is None."""

    first: tuple[int, float]
    between: str
    last: tuple[int, float] | None


class RowTexts:
    """Writes the canonical JSON of arrays of floats that differ in few rows from one to the next, such as a calendar's:
    the text of a row is used again as long as the row has the same bits."""

    def __init__(self) -> None:
        self._bits, self._rows = np.zeros((0, 0), np.int64), list[_Row]()
        self._lock = Lock()

    def text(self, array: FloatArray) -> str:
        """Return the same text as the canonical JSON of `plain_array`."""
        if not array.size:
            return canonical(plain_array(array))
        flat = np.ascontiguousarray(array).reshape(-1, array.shape[-1])
        with self._lock:
            self._learn(flat)
            runs = ",".join(_run_texts(self._rows))
        return f'{{"runs":[{runs}],"shape":{canonical(array.shape)},"type":{canonical(_type_name(array.dtype))}}}'

    def _learn(self, flat: FloatArray) -> None:
        bits = flat.view(np.int64)
        if self._bits.shape != bits.shape:
            self._bits, self._rows = bits.copy(), [_row(row) for row in flat]
            return
        changed = np.flatnonzero((self._bits != bits).any(axis=1))
        self._bits[changed] = bits[changed]
        for at in changed.tolist():
            self._rows[at] = _row(flat[at])


def _row(flat: FloatArray) -> _Row:
    runs = _runs(flat)
    return _Row(runs[0], canonical(runs[1:-1])[1:-1], runs[-1] if len(runs) > 1 else None)


def _run_texts(rows: Iterable[_Row]) -> Iterator[str]:
    """Yield the texts of all runs. A run that continues in the next row is written as one."""
    length, value = 0, 0.0  # of the run that has not ended
    for first, between, last in rows:
        if length and value != first[1]:
            yield canonical((length, value))
            length = 0
        if not length:
            value = first[1]
        length += first[0]
        if last is not None:
            yield canonical((length, value))
            if between:
                yield between
            length, value = last
    if length:
        yield canonical((length, value))


@cache
def _type_name(kind: np.dtype[Any]) -> str:
    return kind.name


def array_from(document: Mapping[str, Any]) -> Any:
    runs = document["runs"]
    values = np.array([value for _, value in runs], dtype=document["type"])
    return np.repeat(values, [length for length, _ in runs]).reshape(document["shape"])
