from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.ledger.split import split

WEIGHTS = st.lists(st.integers(0, 10**9), min_size=1, max_size=40).filter(any)


@given(amount=st.integers(0, 10**18), weights=WEIGHTS)
def test_parts_are_exact(amount: int, weights: list[int]) -> None:
    parts = split(amount, weights)
    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(amount * weight, sum(weights))) < 1
        assert weight or not part


@given(amount=st.integers(0, 10**12), weights=WEIGHTS, factor=st.integers(1, 1000))
def test_scale_of_weights_does_not_matter(amount: int, weights: list[int], factor: int) -> None:
    assert split(amount, [weight * factor for weight in weights]) == split(amount, weights)


def test_leftover_goes_to_largest_remainder() -> None:
    assert split(10, [1, 1, 4]) == (2, 2, 6)  # exact shares 1.67, 1.67, 6.67
    assert split(11, [5, 3, 2]) == (6, 3, 2)  # exact shares 5.5, 3.3, 2.2


def test_ties_go_to_the_lowest_index() -> None:
    assert split(5, [1, 0, 1, 1]) == (2, 0, 2, 1)


@pytest.mark.parametrize(("amount", "weights"), [(-1, [1]), (1, []), (1, [0, 0]), (1, [2, -1])])
def test_refuses_what_has_no_answer(amount: int, weights: list[int]) -> None:
    with pytest.raises(ValueError, match="cannot split"):
        split(amount, weights)
