"""Amounts of money: the one place that reads, rounds, writes and exports credits. Pure, no database.

The book has whole micro-credits (`int`), the core computes in credits (`float`), people and programs read decimals.

- From the core into the book an amount is rounded once, half up, as the decimal number that it is written as, not as
  the binary fraction behind it. `scheduling.core.settlement.micro` does the same for what the core settles; a test
  compares the two over many numbers.
- A text is read by the letter: digits, and at most six more behind a point. `float` and `Decimal` would also take
  "1_000", "1e3", "١٢", " 1" and "+1", and each of them means something else to somebody.
- What is shown is rounded half up to the digits that are shown, amounts and figures alike, and the same amount reads
  the same wherever it stands. Where a reader can add, a sum and its parts show so many digits that they add up
  (`adding_up`); all six always do. Below zero the number without its sign is rounded, so that 0.005 taken and 0.005
  given look alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_HALF_DOWN, ROUND_HALF_UP, Context, Decimal

MICRO = 1_000_000  # micro-credits in a credit
CENT = MICRO // 100
DIGITS = 6  # of a credit, behind its point
MOST_DIGITS = 9  # of a price, where fewer would not multiply up
MOST = 10**12 * MICRO  # of one amount that anybody may name

THOUSANDS = "\N{NARROW NO-BREAK SPACE}"  # between thousands, in all that people read

_WRITTEN = re.compile(r"(-?)([0-9]{1,13})(?:\.([0-9]{1,6}))?")
_WIDE = Context(prec=800)  # more digits than a float can have, so that nothing is rounded on the way


def micro(credits: float) -> int:
    """Credits of the core in micro-credits, rounded half up."""
    return _scaled(credits, DIGITS, ROUND_HALF_UP if credits >= 0 else ROUND_HALF_DOWN)


def micro_up(credits: float) -> int:
    """The least amount that is not below this number of credits: for what must suffice."""
    return _scaled(credits, DIGITS, ROUND_CEILING)


def credits_of(amount: int) -> float:
    """Micro-credits as credits for the core: the float nearest to them, so that `micro` gives the same amount back (as
    long as it has at most fifteen digits)."""
    return amount / MICRO


def credits_up(credits: float) -> float:
    """The least number of credits with six digits that is not below this one; for a wish that must suffice.

    What the floats of a computation err by, a thousandth of a micro-credit, is forgiven."""
    return credits_of(-(-_scaled(credits, DIGITS + 3, ROUND_HALF_UP) // 1_000))


def price_of_one(amount: int, units: float) -> int:
    """Micro-credits for one of so many units, rounded half up."""
    return _scaled(amount / units, 0, ROUND_HALF_UP)


def amount_read(text: object) -> int | None:
    """Micro-credits that a text such as "12.5" says by the letter; None where it says none, or more than `MOST`."""
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    sign, whole, digits = match.groups("")
    amount = int(whole + digits.ljust(DIGITS, "0"))
    return None if amount > MOST else -amount if sign else amount


def exported(amount: int) -> str:
    """ "12.500000": all six digits, a point, and nothing between thousands. For programs and files."""
    whole, rest = divmod(abs(amount), MICRO)
    return f"{'-' if amount < 0 else ''}{whole}.{rest:06}"


def typed(amount: int) -> str:
    """ "12.5": as a person writes it, for a field of a form. `amount_read` reads it back."""
    return exported(amount).rstrip("0").rstrip(".")


def full(amount: int) -> str:
    """ "1 234.567800": all six digits. For tables that sum."""
    return shown(amount, DIGITS)


def spelt(amount: int) -> str:
    """ "1 234.50" or "0.000001": two digits, and all that are not zero. For sentences that compare two amounts."""
    whole, _, digits = full(amount).partition(".")
    return f"{whole}.{digits.rstrip('0'):0<2}"


def shown(amount: int, digits: int = 2) -> str:
    """ "1 234.57": rounded half up to so many digits. For sentences and tiles. Never "-0.00"."""
    return _grouped(_shown_as(amount, digits), digits)


def adding_up(*sums: Iterable[int]) -> int:
    """The least number of digits, two or more, with which each of these sums comes to nothing as it is shown.

    A sum is one that a reader can do: its parts with their signs, and the result with the opposite one. All six
    digits where one of them does not add up at all."""
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
    """For prices of a unit that stand side by side: two digits, and four where two would say too little of one."""
    few = all(price >= 0.095 or micro(price) % CENT == 0 for price in prices)
    return 2 if few else 4


def multiplying_up(factors: Sequence[tuple[float, float]], amount: int) -> int:
    """The least number of digits, two or more, of prices with which units times price come to this amount: a reader
    who multiplies what is shown gets it to the micro-credit. `MOST_DIGITS` where the factors do not make it up."""
    for digits in range(2, MOST_DIGITS):
        step = 10.0**digits
        priced = [(units, _scaled(price, digits, ROUND_HALF_UP) / step) for units, price in factors]
        if micro(sum(units * price for units, price in priced)) == amount:
            return digits
    return MOST_DIGITS


def enough(amount: int) -> str:
    """ "1 234.57": two digits, rounded up. For what somebody would have to say or have."""
    return shown(-(-amount // CENT) * CENT)


def plain(number: float) -> str:
    """ "12.5", "3" or "0.0000001": a number as a person writes it, whatever it is of."""
    digits = f"{Decimal(repr(number) if isinstance(number, int) else repr(float(number))):f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def rounded(number: float, digits: int) -> str:
    """A figure with so many digits, rounded half up: a price of a unit, a ratio, a count. Never "-0.00"."""
    if not math.isfinite(number):
        return str(float(number))
    size = _scaled(abs(number), digits, ROUND_HALF_UP)
    return _grouped(-size if number < 0 else size, digits)


def _shown_as(amount: int, digits: int) -> int:
    """The amount in units of its last shown digit."""
    step = 10 ** (DIGITS - digits)
    size = (2 * abs(amount) + step) // (2 * step)
    return -size if amount < 0 else size


def _grouped(scaled: int, digits: int) -> str:
    """A number in units of its last digit, as people read it."""
    whole, rest = divmod(abs(scaled), 10**digits)
    point = f".{rest:0{digits}}" if digits else ""
    return f"{'-' if scaled < 0 else ''}{whole:,}{point}".replace(",", THOUSANDS)


def _scaled(number: float, digits: int, rounding: str) -> int:
    """The number, as the decimal that it is written as, times 10 to the power of `digits`, as a whole number."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is not an amount")
    written = _WIDE.scaleb(Decimal(repr(float(number))), digits)
    return int(written.to_integral_value(rounding, _WIDE))
