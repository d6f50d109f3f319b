"""How many queries each operation asks, against the baseline in `queries.json`.

More is a regression, or a decision: write the file anew with BOURSE_WRITE_BASELINE=1 and say why in the commit.
"""

from __future__ import annotations

import copy
import json
import os
from functools import partial
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.market.view import known
from tests.api.table import READERS, Row, World, caller_of, make_world, rows
from tests.worlds import built_once

BASELINE = Path(__file__).with_name("queries.json")
WRITE = os.environ.get("BOURSE_WRITE_BASELINE") == "1"
BESIDE_THE_POINT = ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")


def baseline() -> dict[str, int]:
    return json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}


built = built_once(partial(make_world, "own"))


@pytest.fixture
def world(built: World) -> World:
    return copy.deepcopy(built)


@pytest.mark.django_db
@pytest.mark.parametrize("row", rows(), ids=lambda row: row.operation)
def test_operation_asks_as_many_queries_as_its_baseline(row: Row, world: World) -> None:
    role = next((name for name in READERS if row.answers.get(name, 999) < 300), READERS[-1])
    caller, names = caller_of(role, world), row.names(world)
    cache.clear()
    known._pools.clear()  # of a process that never read the pool before
    with CaptureQueriesContext(connection) as captured:
        row.ask(caller, names)
    statements = [query["sql"] for query in captured if not query["sql"].startswith(BESIDE_THE_POINT)]
    if WRITE:
        counts = baseline() | {row.operation: len(statements)}
        BASELINE.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert len(statements) == baseline().get(row.operation), "\n".join(statements)


def test_baseline_names_no_operation_that_is_gone() -> None:
    assert set(baseline()) == {row.operation for row in rows()}
