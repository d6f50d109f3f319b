"""Values as JSON has them, and back: records field by field, arrays as runs of equal numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

Document = dict[str, Any]
_field_names: dict[type[Any], tuple[str, ...]] = {}  # of each kind of record, asked once
FEW = 16  # numbers of an array that are counted faster one by one
PLAIN = frozenset({str, int, float, bool, type(None)})


def record(value: Any) -> Document:
    """The fields of a dataclass in plain JSON; nested records are the caller's business."""
    kind = type(value)
    if kind not in _field_names:
        _field_names[kind] = tuple(field.name for field in fields(value) if field.name != "tenants")
    return {name: plain(getattr(value, name)) for name in _field_names[kind]}


def plain(value: Any) -> Any:
    if type(value) in PLAIN:  # nearly all of them; the questions below take longer
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
    """An array as its shape and its runs: [how often, value] in order of memory. Calendars are long runs."""
    if array is None:
        return None
    return {"shape": list(array.shape), "type": _type_name(array.dtype), "runs": _runs(array.ravel())}


def _runs(flat: npt.NDArray[Any]) -> list[tuple[int, Any]]:
    """How often, and which value, in turn."""
    if len(flat) <= FEW:  # the demands of a unit: two numbers or three
        return [(len(list(same)), value) for value, same in groupby(flat.tolist())]
    begins = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    lengths = np.diff(begins, append=len(flat))
    return list(zip(lengths.tolist(), flat[begins].tolist(), strict=True))


@cache
def _type_name(kind: np.dtype[Any]) -> str:
    return kind.name


def array_from(document: Mapping[str, Any]) -> Any:
    runs = document["runs"]
    values = np.array([value for _, value in runs], dtype=document["type"])
    return np.repeat(values, [length for length, _ in runs]).reshape(document["shape"])
