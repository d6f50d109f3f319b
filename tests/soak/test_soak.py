"""The market as a state machine, and its worlds by chance: in the suite for a minute (the state machine in
`make test-wide`), by `make soak` and `make soak-machine` for hours."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.soak.chance import world_of
from tests.soak.faults import dying
from tests.soak.machine import machine_run
from tests.soak.world import ACTS, World, undone

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.wide
def test_money_units_and_jobs_agree_whatever_happens_in_whatever_order() -> None:
    machine_run(int(os.environ.get("BOURSE_SOAK_EXAMPLES", "12")))


@pytest.mark.wide
@pytest.mark.parametrize("seed", [3, 5])
def test_a_seed_repeats_its_world_exactly(seed: int) -> None:
    digests = []
    for _ in range(2):
        with undone():
            digests.append(world_of(seed, length=120).trace.hexdigest())
    assert digests[0] == digests[1]


def test_who_dies_before_the_commit_leaves_nothing_and_who_dies_after_it_leaves_all() -> None:
    """What the worlds rely on: the fault strikes at the transaction that was named, and at no other."""
    with undone():
        world = World(0)
        work: Any = ACTS["job_is_submitted"](world, 0, 0, 0)
        assert dying(work, 0, committed=False)
        assert world._job(0, "queued") is None
        assert dying(work, 0, committed=True)
        assert world._job(0, "queued") is not None
        assert not dying(work, 5, committed=True)
