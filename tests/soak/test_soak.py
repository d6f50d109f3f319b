"""The market as a state machine, and its worlds by chance: in the suite for a minute (the state machine in
`make test-wide`), by `make soak` for hours."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.soak.chance import world_of
from tests.soak.faults import dying
from tests.soak.world import ACTS, Step, World, undone

pytestmark = pytest.mark.django_db(transaction=True)

NUMBERS = st.integers(0, 999)
LAGS = (0, 3, 6, 7)  # what `time_passes` takes for no slot, 1, 2 and 3
BAD_ENDS = ("award_fails", "gang_ends", "server_is_lost", "job_is_cancelled")
RARE = sorted(ACTS.keys() - {"time_passes", "clock_ticks", "job_is_submitted"})


class Market(RuleBasedStateMachine):
    """Hypothesis looks for the shortest way to a broken rule; a world says which rules there are."""

    def __init__(self) -> None:
        super().__init__()
        self._undone = undone()
        self._undone.__enter__()
        self.world: World | None = None

    @initialize(kind=st.integers(0, 8))
    def begins(self, kind: int) -> None:
        self.world = World(kind)

    @rule(a=NUMBERS, b=NUMBERS, c=NUMBERS)
    def job_is_submitted(self, a: int, b: int, c: int) -> None:
        self._take("job_is_submitted", a, b, c)

    @rule(a=NUMBERS)
    def time_passes(self, a: int) -> None:
        self._take("time_passes", a)

    @rule(a=NUMBERS)
    def clock_ticks(self, a: int) -> None:
        self._take("clock_ticks", a)

    @rule(end=st.sampled_from(BAD_ENDS), lag=st.sampled_from(LAGS), a=NUMBERS, b=NUMBERS, c=NUMBERS)
    def something_ends_badly_while_the_clock_is_late(self, end: str, lag: int, a: int, b: int, c: int) -> None:
        self._take("time_passes", lag)
        self._take(end, a, b, c)

    @rule(act=st.sampled_from(RARE), a=NUMBERS, b=NUMBERS, c=NUMBERS)
    def something_happens(self, act: str, a: int, b: int, c: int) -> None:
        self._take(act, a, b, c)

    def _take(self, act: str, *numbers: int) -> None:
        assert self.world is not None
        self.world.take(Step(act, *numbers))

    def teardown(self) -> None:
        try:
            if self.world is not None:
                self.world.come_to_rest()
        finally:
            self._undone.__exit__(None, None, None)


@pytest.mark.wide
def test_money_units_and_jobs_agree_whatever_happens_in_whatever_order() -> None:
    run_state_machine_as_test(
        Market,
        settings=settings(
            max_examples=int(os.environ.get("BOURSE_SOAK_EXAMPLES", "12")),
            stateful_step_count=60,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            verbosity=Verbosity.normal,
            suppress_health_check=list(HealthCheck),
        ),
    )


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
