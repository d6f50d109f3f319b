"""The market as a state machine, and its worlds by chance: in the suite for a minute (the state machine in
`make test-wide`), by `make soak` and `make soak-machine` for hours."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from tests.database import undone
from tests.soak import figures
from tests.soak.chance import world_of
from tests.soak.faults import dying
from tests.soak.machine import machine_run
from tests.soak.world import ACTS, Broken, Step, World

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


def test_a_figure_that_is_not_the_books_breaks_a_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the worlds rely on: they look at what is shown, and see where it is a micro-credit off."""
    with undone():
        world = World(0)
        world.take(Step("job_is_submitted", 26, 1, 1))  # it may rent
        assert world._misshown() == []
        for read, changed in (("row_view", "price"), ("job_page", "slots.held"), ("statement_view", "spent_sum")):
            reading = getattr(figures, read)
            monkeypatch.setattr(
                figures, read, lambda *some, _r=reading, _c=changed, **named: _off(_r(*some, **named), _c)
            )
        with pytest.raises(Broken) as broken:
            world.come_to_rest()
    for figure in ("its price in the list", "held by its slots", "the statement, spent"):
        assert f": {figure}: shown is " in str(broken.value)


def _off(figures: Any, name: str) -> Any:
    """The same with one figure that is a micro-credit too high, where it has one."""
    first, _, rest = name.partition(".")
    value = getattr(figures, first)
    if value is None:
        return figures
    return replace(figures, **{first: _off(value, rest) if rest else value + 1})


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
