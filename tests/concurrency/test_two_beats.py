"""Two beats, duplicate deliveries, several workers: the market is the one that a single worker makes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from marketplace.celery import app
from scheduling.app.clock import pool_advance
from tests.concurrency.test_crashes import books_are_right, contested_world, undisturbed
from tests.patience import PATIENCE
from tests.scheduling.clocks import everything, moment

SLOTS = 25


@pytest.mark.django_db(transaction=True)
def test_workers_that_race_through_the_same_boundaries_make_one_market() -> None:
    pool = contested_world()
    expected, _, _ = undisturbed(SLOTS)

    def catch_up(_: int) -> None:
        try:
            for slot in range(SLOTS + 1):
                pool_advance(pool_id=pool.pk, at=moment(pool, slot))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as workers:
        list(workers.map(catch_up, range(3), timeout=PATIENCE))
    pool_advance(pool_id=pool.pk, at=moment(pool, SLOTS))  # whoever was last may have left a boundary to a busy other
    assert everything() == expected
    books_are_right()


def test_beat_starts_tasks_that_exist() -> None:
    app.loader.import_default_modules()
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} <= set(app.tasks)
    assert {"market", "outside"} <= set(app.conf.beat_schedule)
