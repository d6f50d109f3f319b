"""The market on a cluster that loses messages, servers and its own state: `tests.soak.cluster`, a short part of it."""

from __future__ import annotations

import pytest

from tests.database import undone
from tests.soak.cluster.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.wide
def test_no_gang_is_outside_its_slots_none_runs_twice_and_what_did_not_run_is_refunded() -> None:
    with undone():
        world = World(1).run(50)
    assert world.account.ran > 0


@pytest.mark.wide
def test_a_seed_repeats_its_world() -> None:
    digests = []
    for _ in range(2):
        with undone():
            world = World(4).run(12)
        digests.append((world.trace.hexdigest(), world.events, world.engine.events))
    assert digests[0] == digests[1]
