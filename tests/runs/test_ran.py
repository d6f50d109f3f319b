"""What was charged beside what ran, and why they differ."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduling.models import Award, Run
from scheduling.runs.read_ran import charged_against_ran
from tenants.scoping import scope_disabled
from tests.engines.market import world

pytestmark = pytest.mark.django_db


def test_a_slot_that_is_not_full_is_explained_by_the_run_that_was_in_it_and_not_by_a_later_one() -> None:
    """The market was stopped in the first slot; the program was done in the second."""
    pool, _tenant, award = world(seconds=30, started_ago=61)
    _ran(award, 0, "paused", 0.0, 20.0)
    _ran(award, 1, "finished", 25.0, 50.0)
    with scope_disabled("the test compares what was charged"):
        rows = list(charged_against_ran(pool, 0, 1))
    assert [(row.slot, row.ran_seconds, row.difference) for row in rows] == [
        (0, 25.0, "it was saved, to go on later"),
        (1, 20.0, "the program was done"),
    ]


def _ran(award: Award, number: int, state: str, began: float, ended: float, **fields: Any) -> None:
    """A run of it; the moments in seconds since the pool's first slot."""
    first = award.pool.epoch_at
    since, until = (first + timedelta(seconds=seconds) for seconds in (began, ended))
    with scope_disabled("the test says what ran"):
        Run.objects.create(
            tenant_id=award.tenant_id, job=award.job, award=award, number=number, engine="local", key=f"key-{number}",
            program="trainer", state=state, ends_at=until, due_at=first, seen_at=until, started_at=since,
            ended_at=until, delivered=[["s01", since.timestamp(), until.timestamp()]], **fields,
        )  # fmt: skip
