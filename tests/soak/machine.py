"""The market as a state machine: hypothesis chooses what happens, and looks for the shortest way to a broken rule."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.database import undone
from tests.soak.world import ACTS, Step, World

NUMBERS = st.integers(0, 999)
LAGS = (0, 3, 6, 7)  # what `time_passes` takes for no slot, 1, 2 and 3
BAD_ENDS = ("award_fails", "gang_ends", "server_is_lost", "job_is_cancelled")
RARE = sorted(ACTS.keys() - {"time_passes", "clock_ticks", "job_is_submitted"})


class Market(RuleBasedStateMachine):
    """A world says which rules there are."""

    steps: ClassVar[int] = 0  # of all markets of this process

    def __init__(self) -> None:
        super().__init__()
        self._undone = undone()
        self._undone.__enter__()
        self.world: World | None = None

    @initialize(kind=st.integers(0, 8), jobs=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=4))
    def begins(self, kind: int, jobs: list[tuple[int, int, int]]) -> None:
        """With a few jobs: hypothesis leaves whole rules out of a market, and without one nothing can go wrong."""
        self.world = World(kind)
        for numbers in jobs:
            self._take("job_is_submitted", *numbers)

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
        Market.steps += 1
        self.world.take(Step(act, *numbers))

    def teardown(self) -> None:
        try:
            if self.world is not None:
                self.world.come_to_rest()
        finally:
            self._undone.__exit__(None, None, None)


def machine_run(examples: int, seed: int = 0) -> None:
    """So many markets, of up to 60 steps each; the same seed tries the same ones. What breaks is raised with the
    shortest way there that was seen."""
    run_state_machine_as_test(
        seeded(seed)(Market),
        settings=settings(
            max_examples=examples,
            stateful_step_count=60,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
