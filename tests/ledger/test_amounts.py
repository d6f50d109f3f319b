"""Amounts: read by the letter, rounded once and half up, shown the same everywhere."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.audit.bundle import check
from scheduling.core import settlement
from scheduling.core.currency import rounded as price_rounded
from tenants.ledger.amounts import (
    DIGITS,
    MICRO,
    MOST,
    THOUSANDS,
    adding_up,
    amount_read,
    credits_of,
    exported,
    full,
    micro,
    micro_up,
    rounded,
    shown,
    spelt,
    typed,
)

AMOUNTS = st.integers(-MOST, MOST)
# Many of them lie on or beside the middle between two micro-credits, where half to even and half up part.
CREDITS = st.one_of(
    st.floats(-1e12, 1e12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**13), 10**13).map(lambda halves: halves / 2 / MICRO),
    st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 9)).map(lambda pair: pair[0] / 10 ** pair[1]),
)

NO_AMOUNTS = [
    "", " ", "1_000", "1e3", "1E3", " 1", "1 ", "1\n", "+1", "1.", ".5", "-", "-.5", "--1", "1,5", "1,000.00", "0x10",
    "1.5.2", "1.1234567", "Infinity", "inf", "NaN", "nan", "9" * 400, "10000000000000", "1000000000000.000001",
    "\N{MINUS SIGN}1", "\N{ARABIC-INDIC DIGIT ONE}", "\N{FULLWIDTH DIGIT ONE}", "1\N{NARROW NO-BREAK SPACE}000",
    "1\N{SUPERSCRIPT TWO}", None, 1, 1.5, True, ["1"], {"amount": "1"}, b"1",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_AMOUNTS, ids=repr)
def test_what_is_no_amount_by_the_letter_is_none(text: object) -> None:
    assert amount_read(text) is None


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("-0", 0),
        ("007", 7 * MICRO),
        ("12.5", 12_500_000),
        ("12.500000", 12_500_000),
        ("0.000001", 1),
        ("-0.000001", -1),
        ("1000000000000", MOST),
        ("-1000000000000.000000", -MOST),
    ],
)
def test_amount_is_read_by_the_letter(text: str, amount: int) -> None:
    assert amount_read(text) == amount


@given(AMOUNTS)
def test_every_written_amount_is_read_back(amount: int) -> None:
    assert amount_read(exported(amount)) == amount_read(typed(amount)) == amount
    assert Decimal(exported(amount)) * MICRO == amount
    assert (
        Decimal(full(amount).replace(THOUSANDS, ""))
        == Decimal(spelt(amount).replace(THOUSANDS, ""))
        == Decimal(exported(amount))
    )


@given(CREDITS)
def test_core_book_and_the_program_in_a_bundle_round_alike(credits: float) -> None:
    assert micro(credits) == settlement.micro(credits)
    booking = {"paid": abs(credits), "slot_payouts": {"runs": [[1, 1.0]]}}
    charged = [amount for slot in check.charges_of(booking, [7], DIGITS) for _, amount in slot]
    assert sum(charged) == micro(abs(credits))


@given(st.floats(0, 1e9))
def test_prices_of_a_menu_round_as_the_book_does(cost: float) -> None:
    exact = Fraction(repr(cost)) * MICRO
    is_doubtful = abs(exact % 1 - Fraction(1, 2)) <= (exact + 1) / 2**50  # there the floats of a menu may go either way
    assert is_doubtful or micro(price_rounded(cost)) == micro(cost)


@pytest.mark.parametrize("cost", [0.0000005, 0.0000015, 0.0000025, 1.0000005, 2.5000005, 3.0000015])
def test_halves_of_a_menu_go_where_those_of_the_book_go(cost: float) -> None:
    """There floats are exact enough to tell."""
    assert micro(price_rounded(cost)) == micro(cost)


@given(CREDITS)
def test_micro_credits_are_the_nearest_and_of_two_the_higher(credits: float) -> None:
    off = Fraction(repr(credits)) * MICRO - micro(credits)
    assert Fraction(-1, 2) <= off < Fraction(1, 2)
    assert 0 <= micro_up(credits) - Fraction(repr(credits)) * MICRO < 1


@given(st.integers(-(10**15), 10**15))
def test_core_gives_back_what_it_got(amount: int) -> None:
    assert micro(credits_of(amount)) == micro_up(credits_of(amount)) == amount


@pytest.mark.parametrize(
    ("credits", "amount"),
    [
        (0.0000005, 1),
        (0.0000015, 2),
        (0.0000025, 3),
        (-0.0000005, 0),
        (-0.0000015, -1),
        (1.0000005, 1_000_001),
        (8.5e-7, 1),
    ],
)
def test_half_goes_up_and_never_to_even(credits: float, amount: int) -> None:
    assert micro(credits) == amount


@pytest.mark.parametrize("credits", [math.nan, math.inf, -math.inf])
def test_no_number_is_no_amount(credits: float) -> None:
    for into in (micro, micro_up, settlement.micro):
        with pytest.raises(ValueError, match="is not an amount"):
            into(credits)


@given(AMOUNTS, st.integers(2, 6))
def test_shown_digits_are_the_nearest_and_of_two_the_larger_and_its_negative_is_the_same_with_a_sign(
    amount: int, digits: int
) -> None:
    words = shown(amount, digits)
    off = Fraction(abs(amount), MICRO) - abs(Fraction(words.replace(THOUSANDS, "")))
    assert -1 <= off * 2 * 10**digits < 1
    assert shown(-amount, digits).lstrip("-") == words.lstrip("-")
    assert words.startswith("-") == (amount < 0 and Fraction(words.replace(THOUSANDS, "")) != 0)


@given(st.lists(AMOUNTS, min_size=1, max_size=5), st.lists(AMOUNTS, min_size=1, max_size=5))
def test_sums_add_up_with_the_digits_that_are_chosen_for_them_and_with_none_fewer(
    one: list[int], other: list[int]
) -> None:
    sums = [(*parts, -sum(parts)) for parts in (one, other)]

    def adds_up(digits: int) -> bool:
        return not any(sum(Decimal(shown(term, digits).replace(THOUSANDS, "")) for term in terms) for terms in sums)

    digits = adding_up(*sums)
    assert adds_up(digits)
    assert not any(adds_up(fewer) for fewer in range(2, digits))


@pytest.mark.parametrize(
    ("terms", "digits"),
    [
        ((17_067_000, -734_000, -16_333_000), 3),  # 17.07 - 0.73 = 16.33 to a reader of two
        ((17_070_000, -730_000, -16_340_000), 2),
        ((1, 1, -2), 2),  # nothing and nothing is nothing
        ((4_999, 2, -5_001), 3),
        ((1, -2), 2),  # nobody sees the difference
        ((3_000_000, -4_000_000), 6),  # adds up nowhere
        ((), 2),
    ],
)
def test_digits_of_one_sum(terms: tuple[int, ...], digits: int) -> None:
    assert adding_up(terms) == digits


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (1_234_567_890, ("1\u202f234.57", "1\u202f234.56789", "1\u202f234.567890", "1234.567890", "1234.56789")),
        (-1_234_500_000, ("-1\u202f234.50", "-1\u202f234.50", "-1\u202f234.500000", "-1234.500000", "-1234.5")),
        (-9_999, ("-0.01", "-0.009999", "-0.009999", "-0.009999", "-0.009999")),
        (3_000_000, ("3.00", "3.00", "3.000000", "3.000000", "3")),
        (0, ("0.00", "0.00", "0.000000", "0.000000", "0")),
        (-4_999, ("0.00", "-0.004999", "-0.004999", "-0.004999", "-0.004999")),
        (1, ("0.00", "0.000001", "0.000001", "0.000001", "0.000001")),
    ],
)
def test_forms_of_one_amount(amount: int, words: tuple[str, ...]) -> None:
    assert (shown(amount), spelt(amount), full(amount), exported(amount), typed(amount)) == words


@pytest.mark.parametrize(
    ("number", "digits", "words"),
    [
        (0.125, 2, "0.13"),
        (1.005, 2, "1.01"),  # its binary fraction is less than half
        (2.5, 0, "3"),
        (-2.5, 0, "-3"),
        (-0.004, 2, "0.00"),
        (1234567.891, 2, "1\u202f234\u202f567.89"),
        (1e22, 1, "10\u202f000\u202f000\u202f000\u202f000\u202f000\u202f000\u202f000.0"),
        (math.inf, 2, "inf"),
    ],
)
def test_figures_are_rounded_half_up(number: float, digits: int, words: str) -> None:
    assert rounded(number, digits) == words
