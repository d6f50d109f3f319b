"""A value function as it is counted from a later arrival."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.types import Value
from scheduling.core.value import Convex, Deadline, Linear, LinearUntil, Sigmoid, SigmoidUntil, ValuesOfMany, from_later

numbers = st.floats(0.0, 1_000.0)
values = st.one_of(
    st.builds(Linear, slope=numbers.map(lambda number: -number), base=numbers),
    st.builds(Sigmoid, priority=numbers, decay=st.floats(0.0, 2.0), target=numbers),
    st.builds(Deadline, base=numbers, deadline=numbers),
    st.builds(LinearUntil, slope=numbers.map(lambda number: -number), base=numbers, until=numbers),
    st.builds(SigmoidUntil, priority=numbers, decay=st.floats(0.0, 2.0), target=numbers, until=numbers),
)


@given(value=values, slots=numbers, elapsed=st.floats(0.5, 1_000.0))
def test_the_same_moments_are_worth_the_same(value: Value, slots: float, elapsed: float) -> None:
    end = getattr(value, "until", getattr(value, "deadline", None))
    if end is not None and abs(elapsed + slots - end) < 1e-6:
        elapsed += 1e-3
    assert float(from_later(value, slots)(elapsed)) == pytest.approx(float(value(elapsed + slots)), abs=1e-6)


def test_who_is_done_at_the_deadline_is_in_time_however_it_is_counted() -> None:
    for arrival in np.arange(0.1, 9.9, 0.1):
        value = from_later(Deadline(5.0, 30.0 - 0.1), float(arrival) - 0.1)
        assert float(value(30.0 - float(arrival))) == 5.0
        assert float(value(30.5 - float(arrival))) == 0.0
    assert float(from_later(Deadline(5.0, 3.0), 50.0)(0.5)) == 0.0


def test_what_falls_and_ends_is_that_value_until_its_end_and_nothing_after_it() -> None:
    falling = LinearUntil(-1.0, 10.0, 4.0)
    assert falling([0.0, 4.0, 4.1, 12.0]).tolist() == [10.0, 6.0, 0.0, -2.0]  # never more than without an end
    curve = SigmoidUntil(8.0, 1.0, 4.0, 4.0)
    assert curve([4.0, 4.1]).tolist() == [Sigmoid(8.0, 1.0, 4.0)(4.0), 0.0]
    many = ValuesOfMany([falling, Sigmoid(8.0, 1.0, 4.0), curve, Linear(-1.0, 10.0)])
    assert many(np.arange(4), np.full(4, 5.0)).tolist() == [0.0, Sigmoid(8.0, 1.0, 4.0)(5.0), 0.0, 5.0]


def test_a_convex_value_stays_as_it_is() -> None:
    assert from_later(Convex(3.0, 2.0), 5.0) == Convex(3.0, 2.0)
