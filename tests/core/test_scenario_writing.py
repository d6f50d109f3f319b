"""Writing scenario files: what is written reads back as the same scenario."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from scheduling.core.records import view_bytes, view_from
from scheduling.core.scenario import read, to_json, write
from scheduling.core.types import Job, View
from tests.core.builders import make_view
from tests.core.scenario_documents import Document, documents, make_document, make_row

# A job in which no field is as it is in one of `make_row`.
UNUSUAL: Document = {
    **{"name": "unusual", "tenant": "u2", "arrival": 1.5, "lane": "instant", "priority": 3},
    **{"epochs": 5, "chunks": 7, "minibatches": 2, "minibatch_seconds": 1800, "update_seconds": 2},
    **{"gradient_mb": 0.5, "worker_mbps": 100, "ps_mbps": 200, "worker_demand": {"worker": 2}, "ps_demand": {"ps": 1}},
    **{"min_workers": 2, "max_workers": 5, "max_ps": 3, "asked_workers": 4, "max_price": 12.5, "rent": "never"},
    **{"value": {"kind": "convex", "scale": 50, "power": 0.5}, "divisible": True, "save_slots": 0.25, "unbroken": True},
    **{"samples": 640, "batch_size": 32, "sample_seconds": 0.5, "internal_mbps": 1000, "ps_ratio": 2},
    **{"mode": "async", "speed": [1, 0.5], "model": "resnet"},
}
NOT_IN_A_FILE = {"number", "together"}  # of a job: its place in the file, and of arrays of the market alone


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


@pytest.mark.wide
@settings(max_examples=150, deadline=None)
@given(documents())
def test_every_scenario_reads_back_as_it_was(document: Document) -> None:
    scenario = read(document)
    text = to_json(write(scenario))
    again = read(text)
    assert_same(scenario, again)
    assert to_json(write(again)) == text


def test_writes_one_line_for_each_row() -> None:
    lines = to_json(write(read(make_document()))).splitlines()
    assert '  {"name": "u1", "rent": "auto", "lend": "lend"},' in lines
    assert lines[0] == '{"format": "scenario/1",'


def test_every_field_of_a_job_is_written_and_kept() -> None:
    """One that is read, and then not written, or not stored with an interval, would be lost without a word. Whoever
    adds a field to `Job` adds it to the job above, too."""
    scenario = read(make_document(jobs=[UNUSUAL, make_row("usual")]))
    unusual, usual = scenario.jobs
    same = {field.name for field in fields(Job) if getattr(unusual, field.name) == getattr(usual, field.name)}
    assert same | {"number"} == NOT_IN_A_FILE
    assert_same(scenario, read(to_json(write(scenario))))
    view: View = make_view(cluster=scenario.cluster, waiting=scenario.jobs)
    assert_same(view.waiting, view_from(view_bytes(view)).waiting)


def test_writes_plain_json() -> None:
    document = write(read(make_document()))
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_never_writes_what_json_does_not_know() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"amount": float("nan")})


def test_keeps_what_drew_the_scenario() -> None:
    generator = {"name": "synthetic", "seed": 3, "args": {"jobs": 2}}
    assert write(read(make_document(generator=generator)))["generator"] == generator
