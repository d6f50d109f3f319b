"""Calls made up from the schema by every role: no 5xx, and no answer that the schema does not announce.

A few of each operation here; `make fuzz` makes 20,000 and more.
"""

from __future__ import annotations

import logging
import os

import pytest
from django.test import override_settings

from tests.api.fuzz import fuzz, operations
from tests.api.table import make_world

CASES = int(os.environ.get("BOURSE_FUZZ_CASES", "1"))  # of each operation; each case is asked by every role
SEED = int(os.environ.get("BOURSE_FUZZ_SEED", "1"))
ONLY = os.environ.get("BOURSE_FUZZ_ONLY", "")  # operations with this in their method and address
PARTS = 2  # for as many processes; each has other operations, so neither repeats the other


@pytest.mark.one_case
@pytest.mark.django_db
@pytest.mark.parametrize("half", range(PARTS))
@override_settings(API_CALLS_PER_MINUTE=10_000_000, API_CALLS_PER_MINUTE_OF_PERSON=10_000_000)
def test_whatever_is_asked_is_answered_as_the_schema_says(half: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # thousands of refusals are no news
    world = make_world("own")
    other = make_world("other", world.pool)
    selection = [operation for operation in operations() if ONLY in operation.label][half::PARTS]
    report = fuzz(world, [other], selection, cases=CASES, start=SEED)
    assert not report.failures, "\n\n".join(f"{what}\n{call}" for what, call in sorted(report.failures.items()))
    if ONLY:
        return
    assert report.calls > CASES
    assert {status // 100 for status in report.statuses} >= {2, 4}
    methods = report.by_method()
    assert set(methods) == {operation.method.upper() for operation in selection}
    assert {name for name, answers in methods.items() if not answers.keys() & {200, 201}} == set()


def test_the_parts_are_all_operations_with_their_methods() -> None:
    assert {operation.method.upper() for operation in operations()} == {"GET", "POST", "PUT"}
