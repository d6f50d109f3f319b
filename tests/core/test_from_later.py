"""A value function as it is counted from a later arrival."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.types import Value
from scheduling.core.value import Convex, Deadline, Linear, Sigmoid, from_later

numbers = st.floats(0.0, 1_000.0)
values = st.one_of(
    st.builds(Linear, slope=numbers.map(lambda number: -number), base=numbers),
    st.builds(Sigmoid, priority=numbers, decay=st.floats(0.0, 2.0), target=numbers),
    st.builds(Deadline, base=numbers, deadline=numbers),
)


@given(value=values, slots=numbers, elapsed=st.floats(0.5, 1_000.0))
def test_the_same_moments_are_worth_the_same(value: Value, slots: float, elapsed: float) -> None:
    if isinstance(value, Deadline) and abs(elapsed + slots - value.deadline) < 1e-6:
        elapsed += 1e-3
    assert float(from_later(value, slots)(elapsed)) == pytest.approx(float(value(elapsed + slots)), abs=1e-6)


def test_who_is_done_at_the_deadline_is_in_time_however_it_is_counted() -> None:
    for arrival in np.arange(0.1, 9.9, 0.1):
        value = from_later(Deadline(5.0, 30.0 - 0.1), float(arrival) - 0.1)
        assert float(value(30.0 - float(arrival))) == 5.0
        assert float(value(30.5 - float(arrival))) == 0.0
    assert float(from_later(Deadline(5.0, 3.0), 50.0)(0.5)) == 0.0


def test_a_convex_value_stays_as_it_is() -> None:
    assert from_later(Convex(3.0, 2.0), 5.0) == Convex(3.0, 2.0)
