"""Amounts of money: the one place that reads, rounds, writes and exports credits. Pure, no database.

The book has whole micro-credits (`int`), the core computes in credits (`float`), people and programs read decimals.

- `scheduling.core.currency` defines the unit in which a credit is counted, and how an amount of the core is rounded
  into the book, since the core needs both; all other code imports them from here.
- A text must have plain digits, and at most six more behind a point. `float` and `Decimal` would also accept "1_000",
  "1e3", "١٢", " 1" and "+1", and each of them means something else to somebody.
- What is shown is rounded half up to the digits that are shown, amounts and figures alike, so the same amount reads the
  same everywhere. Where a reader can add, a sum and its parts show so many digits that they add up (`adding_up`); with
  all six they always do. Below zero the number without its sign is rounded, so that 0.005 taken and 0.005 given look
  alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

from scheduling.core.currency import DIGITS, DIGITS_IN_WORDS, MICRO, credits_of, micro, micro_up, scaled

__all__ = ["DIGITS", "DIGITS_IN_WORDS", "MICRO", "credits_of", "micro", "micro_up"]  # for code outside the core

CENT = MICRO // 100
MOST_DIGITS = DIGITS + 3  # of a price, where fewer digits would not multiply up
MOST = 10**18  # micro-credits that one amount may have at most; 64 bits hold little more

THOUSANDS = "\N{NARROW NO-BREAK SPACE}"  # between thousands, in every text for people

_NUMBER = re.compile(rf"(-?)([0-9]{{1,13}})(?:\.([0-9]{{1,{DIGITS}}}))?")


def credits_up(credits: float) -> float:
    """Return the least number of credits with six digits that is not below this one, for a limit that must suffice.

    An error of a thousandth of a micro-credit, which floats cause, is ignored.
    """
    return credits_of(-(-scaled(credits, DIGITS + 3, ROUND_HALF_UP) // 1_000))


def price_of_one(amount: int, units: float) -> int:
    """Return the price of one unit in micro-credits, rounded half up, if `units` cost `amount`."""
    return scaled(amount / units, 0, ROUND_HALF_UP)


def amount_read(text: object) -> int | None:
    """Return the micro-credits of a text such as "12.5", or None where it is no amount, or is more than `MOST`."""
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    sign, whole, digits = match.groups("")
    amount = int(whole + digits.ljust(DIGITS, "0"))
    return None if amount > MOST else -amount if sign else amount


def exported(amount: int) -> str:
    """Return "12.500000": all six digits, a point, and nothing between thousands. For programs and files."""
    whole, rest = divmod(abs(amount), MICRO)
    return f"{'-' if amount < 0 else ''}{whole}.{rest:0{DIGITS}}"


def typed(amount: int) -> str:
    """Return "12.5": as a person writes it, for a field of a form. `amount_read` reads it back."""
    return exported(amount).rstrip("0").rstrip(".")


def full(amount: int) -> str:
    """Return "1 234.567800": all six digits. For tables that sum."""
    return shown(amount, DIGITS)


def spelt(amount: int) -> str:
    """Return "1 234.50" or "0.000001": two digits, and all further ones up to the last that is not zero. For sentences
    that compare two amounts."""
    whole, _, digits = full(amount).partition(".")
    return f"{whole}.{digits.rstrip('0'):0<2}"


def shown(amount: int, digits: int = 2) -> str:
    """Return "1 234.57": rounded half up to this many digits. For sentences and tiles. It is never "-0.00"."""
    return _grouped(_shown_as(amount, digits), digits)


def adding_up(*sums: Iterable[int]) -> int:
    """Return the least number of digits, two or more, with which each of these sums is zero as it is shown.

    Each sum is one that a reader can do: its parts with their signs, and the result with the opposite sign. Return all
    six digits where one of the sums is not zero at all.
    """
    together = [tuple(terms) for terms in sums]
    return next(
        (
            digits
            for digits in range(2, DIGITS)
            if not any(sum(_shown_as(term, digits) for term in terms) for terms in together)
        ),
        DIGITS,
    )


def price_digits(prices: Iterable[float]) -> int:
    """Return the digits for prices of a unit that are side by side: two, or four where two would show too little of
    one."""
    few = all(price >= 0.095 or micro(price) % CENT == 0 for price in prices)
    return 2 if few else 4


def multiplying_up(factors: Sequence[tuple[float, float]], amount: int) -> int:
    """Return the least number of digits, two or more, of prices with which units times price come to this amount, so
    that a reader who multiplies what is shown gets it to the micro-credit. It is `MOST_DIGITS` where no fewer suffice.
    """
    for digits in range(2, MOST_DIGITS):
        step = 10.0**digits
        priced = [(units, scaled(price, digits, ROUND_HALF_UP) / step) for units, price in factors]
        if micro(sum(units * price for units, price in priced)) == amount:
            return digits
    return MOST_DIGITS


def enough(amount: int) -> str:
    """Return "1 234.57": two digits, rounded up. For an amount that somebody would have to set or have."""
    return shown(-(-amount // CENT) * CENT)


def plain(number: float) -> str:
    """Return "12.5", "3" or "0.0000001": a number of any kind as a person writes it."""
    digits = f"{Decimal(repr(number) if isinstance(number, int) else repr(float(number))):f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def rounded(number: float, digits: int) -> str:
    """Return a figure with this many digits, rounded half up: a price of a unit, a ratio, a count. It is
    never "-0.00"."""
    if not math.isfinite(number):
        return str(float(number))
    size = scaled(abs(number), digits, ROUND_HALF_UP)
    return _grouped(-size if number < 0 else size, digits)


def _shown_as(amount: int, digits: int) -> int:
    """Return the amount in units of its last shown digit."""
    step = 10 ** (DIGITS - digits)
    size = (2 * abs(amount) + step) // (2 * step)
    return -size if amount < 0 else size


def _grouped(scaled: int, digits: int) -> str:
    """Return a number that is given in units of its last digit, as people read it."""
    whole, rest = divmod(abs(scaled), 10**digits)
    point = f".{rest:0{digits}}" if digits else ""
    return f"{'-' if scaled < 0 else ''}{whole:,}{point}".replace(",", THOUSANDS)
