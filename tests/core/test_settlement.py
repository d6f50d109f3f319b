"""Money: exact parts of exact wholes."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.currency import MICRO
from scheduling.core.settlement import (
    NothingToSplitBy,
    UnbalancedBooking,
    charges,
    charges_of_all,
    micro,
    split_exactly,
    split_rows,
)
from scheduling.core.types import Booking

WEIGHTS = st.lists(
    st.one_of(st.just(0.0), st.floats(0, 1e12), st.integers(0, 10**9), st.fractions(0, 1000)), min_size=1
)


def make_booking(slot_payouts: object, paid: float | None = None) -> Booking:
    payouts = None if slot_payouts is None else np.asarray(slot_payouts, dtype=float)
    slots = 1 if payouts is None else len(payouts)
    total = 0.0 if payouts is None else float(payouts.sum())
    return Booking(
        job=0,
        start=3,
        end=3 + slots,
        allocation=(),
        work=1.0,
        workers=1,
        ps=1,
        paid=total if paid is None else paid,
        slot_payouts=payouts,
    )


@given(st.integers(-(10**15), 10**15), WEIGHTS)
def test_parts_add_up_and_are_within_one_unit_of_their_exact_share(amount, weights):
    total = sum(map(Fraction, weights))
    if total == 0:
        return
    parts = split_exactly(amount, weights)
    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(weight) * amount / total) < 1
        assert part == 0 or weight > 0


@given(st.integers(0, 10**9), WEIGHTS)
def test_a_larger_weight_never_gets_less(amount, weights):
    if not any(weights):
        return
    parts = split_exactly(amount, weights)
    by_weight = sorted(zip(map(Fraction, weights), parts, strict=True))
    for (lighter, less), (heavier, more) in itertools.pairwise(by_weight):
        assert lighter == heavier or less <= more


def test_ties_go_to_the_first():
    assert split_exactly(5, [1, 1, 1]) == (2, 2, 1)
    assert split_exactly(1, [0.0, 0.1, 0.1]) == (0, 1, 0)


def test_a_refund_is_split_like_the_payment():
    assert split_exactly(-10, [1, 1, 1]) == tuple(-part for part in split_exactly(10, [1, 1, 1]))


def test_remainders_are_compared_exactly():
    """As floats both weights are 1e16 and the tie would go to the first."""
    assert split_exactly(1, [10**16, 10**16 + 1]) == (0, 1)


def test_splits_nothing_into_nothing():
    assert split_exactly(0, [0.0, 0.0]) == (0, 0)


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1e-12], [math.nan], [math.inf, 1.0]])
def test_refuses_weights_that_say_nothing(weights):
    with pytest.raises(NothingToSplitBy):
        split_exactly(7, weights)


@pytest.mark.parametrize(
    ("credits", "expected"),
    [(0.0, 0), (1.0, MICRO), (0.0000005, 1), (0.00000049, 0), (2.5000005, 2_500_001), (0.1 + 0.2, 300_000)],
)
def test_rounds_half_a_micro_credit_up(credits, expected):
    assert micro(credits) == expected


@pytest.mark.parametrize("credits", [math.nan, math.inf, -math.inf])
def test_refuses_an_amount_that_is_none(credits):
    with pytest.raises(ValueError, match="not an amount"):
        micro(credits)


SLOTS = st.integers(1, 6).flatmap(
    lambda owners: st.lists(st.lists(st.floats(0, 1e6), min_size=owners, max_size=owners), min_size=1, max_size=8)
)


@given(SLOTS)
def test_charges_add_up_to_the_payment(payouts):
    booking = make_booking(payouts)
    settled = charges(booking)
    assert settled.shape == (booking.end - booking.start, len(payouts[0]))
    assert settled.sum() == micro(booking.paid)
    assert (settled >= 0).all()
    assert (settled[np.asarray(payouts) == 0] == 0).all()


@given(SLOTS)
def test_an_owner_is_settled_what_the_award_says(payouts):
    booking = make_booking(payouts)
    if not booking.paid:
        return
    exact = [Fraction(float(part)) for part in np.asarray(payouts).sum(axis=0)]
    for part, settled in zip(exact, charges(booking).sum(axis=0), strict=True):
        assert abs(int(settled) - part * micro(booking.paid) / sum(exact)) < 1


def test_charges_nothing_for_a_booking_in_the_own_share():
    assert charges(make_booking(None)).sum() == 0


@pytest.mark.parametrize(
    "booking",
    [
        make_booking([[1.0, 2.0]], paid=4.0),
        make_booking([[3.0, -1.0]], paid=2.0),
        make_booking([[math.nan, 1.0]], paid=1.0),
        make_booking(None, paid=1.0),
        make_booking([[0.0]], paid=-1.0),
    ],
)
def test_refuses_a_booking_that_does_not_balance(booking):
    with pytest.raises(UnbalancedBooking):
        charges(booking)


def charges_one_by_one(booking: Booking) -> list[list[int]]:
    """(slots, owners) by exact splits alone: slow, and the meaning of `charges`."""
    payouts = np.maximum(booking.slot_payouts, 0.0)
    owed = split_exactly(micro(booking.paid), payouts.sum(axis=0).tolist())
    columns = [
        split_exactly(part, payouts[:, u].tolist()) if part else [0] * len(payouts) for u, part in enumerate(owed)
    ]
    return [[column[slot] for column in columns] for slot in range(len(payouts))]


# Few different payouts, so that shares are often whole and remainders often equal; and any payouts at all.
FEW = st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.3, 1e-7, 5e-7, 1 / 3, 2 / 3, 1.0, 7.0])
ANY = st.floats(0, 1e6, allow_subnormal=True)


@st.composite
def payouts_of_slots(draw):
    slots, owners = draw(st.integers(1, 9)), draw(st.integers(1, 7))
    numbers = draw(st.sampled_from([FEW, ANY, st.one_of(FEW, ANY)]))
    rows = draw(st.lists(st.lists(numbers, min_size=owners, max_size=owners), min_size=slots, max_size=slots))
    return np.array(rows) * draw(st.sampled_from([1.0, 1e-6, 1e4]))


@given(payouts_of_slots())
@settings(max_examples=150)
def test_charges_are_those_of_exact_splits(payouts):
    booking = make_booking(payouts)
    if booking.paid == 0 or micro(booking.paid) == 0:
        return
    assert charges(booking).tolist() == charges_one_by_one(booking)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(0, 60), st.floats(1e-9, 1e9))
@settings(max_examples=150)
def test_rows_are_split_as_exact_splits_where_ties_abound(weights, amount, scale):
    """Small whole weights: shares are whole numbers and remainders equal all the time."""
    if not any(weights):
        return
    row = np.array([[weight * scale for weight in weights]])
    parts = split_rows(np.array([amount]), row)[0]
    assert tuple(parts.tolist()) == split_exactly(amount, row[0].tolist())


def test_a_row_that_nobody_shares_takes_nothing_and_gives_nothing():
    parts = split_rows(np.array([0, 3]), np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert parts.tolist() == [[0, 0], [2, 1]]
    with pytest.raises(NothingToSplitBy):
        split_rows(np.array([1]), np.zeros((1, 2)))


@given(st.lists(payouts_of_slots(), min_size=1, max_size=5))
@settings(max_examples=50)
def test_charges_of_many_bookings_are_those_of_each(many):
    owners = min(payouts.shape[1] for payouts in many)
    bookings = [make_booking(payouts[:, :owners]) for payouts in many] + [make_booking(None)]
    together = charges_of_all(bookings)
    assert [amounts.tolist() for amounts in together] == [charges(booking).tolist() for booking in bookings]


def test_amounts_beyond_what_a_float_counts_are_split_exactly():
    payouts = np.array([[0.0, 0.0, 0.0, 1e5, 7.09490890625e11]])
    assert charges(make_booking(payouts)).tolist() == charges_one_by_one(make_booking(payouts))
