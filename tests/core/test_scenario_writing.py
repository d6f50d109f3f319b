"""Writing scenario files: what is written reads back as the same scenario."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from scheduling.core.scenario import read, to_json, write
from tests.core.scenario_documents import Document, documents, make_document


def assert_same(one: Any, other: Any) -> None:
    """Equal all the way down; arrays by value, objects by their fields."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    elif is_dataclass(one):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


@settings(max_examples=150, deadline=None)
@given(documents())
def test_every_scenario_reads_back_as_it_was(document: Document) -> None:
    scenario = read(document)
    written = to_json(write(scenario))
    again = read(written)
    assert_same(scenario, again)
    assert to_json(write(again)) == written


def test_writes_one_line_for_each_row() -> None:
    lines = to_json(write(read(make_document()))).splitlines()
    assert '  {"name": "u1", "rent": "auto", "lend": "lend"},' in lines
    assert lines[0] == '{"format": "scenario/1",'


def test_writes_plain_json() -> None:
    document = write(read(make_document()))
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_never_writes_what_json_does_not_know() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"amount": float("nan")})


def test_keeps_what_drew_the_scenario() -> None:
    generator = {"name": "synthetic", "seed": 3, "args": {"jobs": 2}}
    assert write(read(make_document(generator=generator)))["generator"] == generator
