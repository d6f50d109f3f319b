"""Whatever JSON comes as an answer: a value or refusals by field, never a crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from scheduling.programs import catalogue, hours, worth
from scheduling.programs.fields import FieldRefusal

many = settings(max_examples=200, deadline=None, database=None)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([10**400, -0.0])
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
KINDS = ["whole", "number", "choice", "text", "switch"]
ROW = ("name", "kind", "default", "title", "unit", "least", "most", "choices", "longest", "pattern")
row = st.dictionaries(st.sampled_from(ROW), anything | st.sampled_from([*KINDS, "a", "p"]), max_size=8)
likely = anything | st.sampled_from(["a", "all_reduce", "one", "none"]) | st.lists(st.sampled_from(["ls", "{a}"]))


def checked(answer: Any) -> None:
    if isinstance(answer, tuple):
        assert answer
        assert all(isinstance(each, FieldRefusal) and each.field and each.sentence for each in answer)
        assert all(each.field.isprintable() and each.sentence.isprintable() for each in answer)


@pytest.mark.wide
@many
@seed(61)
@given(st.dictionaries(st.sampled_from(catalogue.FIELDS) | st.text(max_size=4), likely), st.lists(row, max_size=3))
def test_documents_of_programs(document: dict[str, Any], parameters: list[dict[str, Any]]) -> None:
    checked(catalogue.read(document, catalogue.ProgramOwner()))
    checked(catalogue.read(document | {"parameters": parameters}, catalogue.ProgramOwner()))


@many
@seed(62)
@given(st.sampled_from(KINDS), anything, st.dictionaries(st.text(max_size=3) | st.just("p"), anything, max_size=3))
def test_values_of_parameters(kind: str, default: Any, values: dict[str, Any]) -> None:
    parameter = {"name": "p", "kind": kind, "default": default, "choices": ["a"] if kind == "choice" else None}
    document = {"name": "n", "shape": "independent", "command": ["ls", "{p}"], "parameters": [parameter]}
    program = catalogue.read(document, catalogue.ProgramOwner())
    checked(program)
    if isinstance(program, catalogue.Program):
        checked(catalogue.values_of(program, values))


@many
@seed(63)
@given(
    st.dictionaries(st.sampled_from(["hours", "most", "least", "worker", "scaling", "mode", "speed", "x"]), anything),
    st.dictionaries(st.sampled_from(["within_seconds", "credits", "later", "x"]), anything),
)
def test_answers_in_hours_and_about_worth(answers: dict[str, Any], value: dict[str, Any]) -> None:
    checked(hours.read(answers, ("gpu", "cpu")))
    measured = {"hours": 1, "most": 2, "worker": {"gpu": 1}, "scaling": "measured"}
    checked(hours.read(measured | {"speed": answers.get("speed")}, ("gpu", "cpu")))
    checked(worth.read(value))
