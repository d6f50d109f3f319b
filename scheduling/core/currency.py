"""Define the unit in which money is counted and how an amount is rounded, for the core and for the book alike.

The core computes in credits (`float`), the book counts whole micro-credits (`int`). An amount crosses from one to the
other once, here, rounded half up, as the decimal number that it is written as and not as its binary fraction.

To count in something finer, change `DIGITS`, as tests/ledger/test_other_digits.py does. The amounts in a book were
counted and rounded by the code of their time, so change the digits or the rounding only with an empty book. Amounts
have 64 bits there.

If you change the rounding, there are four things to know:

- `micro` and `rounded` state one rule twice: exactly for what is paid, and in floats for what a job is offered. If
  only one of them changes, a job is decided by another price than it pays.
- "Up" is towards the higher number, below zero too; so `micro` uses two modes of `decimal`, whose own "up" is away from
  zero. `micro_up` rounds up whatever the rule is.
- Nothing is rounded twice: what was rounded once is only split afterwards (`settlement`).
- The program in a bundle repeats the rule on purpose, for it imports nothing from here: `charges_of` in
  audit/bundle/check.py. The bundle itself states how many digits a credit has.

tests/ledger/test_amounts.py compares all of them.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_HALF_DOWN, ROUND_HALF_UP, Context, Decimal

import numpy as np
import numpy.typing as npt

DIGITS, DIGITS_IN_WORDS = 6, "six"  # decimals of a credit
MICRO = 10**DIGITS  # micro-credits in a credit

_WIDE = Context(prec=800)  # more digits than a float can have, so that nothing is rounded on the way


def micro(credits: float) -> int:
    """Return credits of the core in micro-credits, rounded half up: of two equally near amounts, the higher one."""
    return scaled(credits, DIGITS, ROUND_HALF_UP if credits >= 0 else ROUND_HALF_DOWN)


def micro_up(credits: float) -> int:
    """Return the least amount that is not below this number of credits, for amounts that must suffice."""
    return scaled(credits, DIGITS, ROUND_CEILING)


def credits_of(amount: int) -> float:
    """Return micro-credits as credits for the core: the nearest float, so that `micro` gives the same amount back (as
    long as it has at most fifteen digits)."""
    return amount / MICRO


def credits_of_each(amounts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return many amounts of micro-credits as credits: the same floats as `credits_of` gives, as both divide alike."""
    credits: npt.NDArray[np.float64] = amounts / MICRO
    return credits


def rounded(cost: float) -> float:
    """Return the price of a schedule, in credits: its cost, rounded half up to whole micro-credits. It is computed in
    floats, which is quicker, for a menu has a price for every slot."""
    return math.floor(cost * MICRO + 0.5) / MICRO


def scaled(number: float, digits: int, rounding: str) -> int:
    """Return the number, read as the decimal that it is written as, times 10 to the power of `digits`, as a whole
    number."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is not an amount")
    product = _WIDE.scaleb(Decimal(repr(float(number))), digits)
    return int(product.to_integral_value(rounding, _WIDE))
