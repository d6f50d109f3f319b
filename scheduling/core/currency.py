"""What money is counted in, and how an amount is rounded: the one place that says both, for the core and for the book.

The core computes in credits (`float`), the book counts whole micro-credits (`int`). An amount crosses from one to the
other once, here, half up, as the decimal number that it is written as and not as the binary fraction behind it.

Who counts in something finer changes `DIGITS`: tests/ledger/test_other_digits.py does. What is in a book was counted
and rounded as the code said then, so that, and another rounding, are for an empty book; amounts have 64 bits there.

Who rounds another way has four things to know:

- `micro` and `rounded` are one rule, said twice: exactly for what is paid, and in floats for what a job is offered.
  Where only one of them changes, a job is decided by another price than it pays.
- "Up" is towards the higher number, below zero too; so `micro` has two modes of `decimal`, whose own "up" is away from
  zero. `micro_up` goes up whatever the rule.
- Nothing is rounded twice: what was rounded once is only split afterwards (`settlement`).
- The program in a bundle repeats the rule on purpose, for it stands alone: `charges_of` in audit/bundle/check.py. How
  many digits a credit has the bundle states.

tests/ledger/test_amounts.py compares all of them.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_HALF_DOWN, ROUND_HALF_UP, Context, Decimal

DIGITS, DIGITS_IN_WORDS = 6, "six"  # of a credit, behind its point
MICRO = 10**DIGITS  # micro-credits in a credit

_WIDE = Context(prec=800)  # more digits than a float can have, so that nothing is rounded on the way


def micro(credits: float) -> int:
    """Credits of the core in micro-credits, rounded half up: of two that are equally near, the higher one."""
    return scaled(credits, DIGITS, ROUND_HALF_UP if credits >= 0 else ROUND_HALF_DOWN)


def micro_up(credits: float) -> int:
    """The least amount that is not below this number of credits: for what must suffice."""
    return scaled(credits, DIGITS, ROUND_CEILING)


def credits_of(amount: int) -> float:
    """Micro-credits as credits for the core: the float nearest to them, so that `micro` gives the same amount back (as
    long as it has at most fifteen digits)."""
    return amount / MICRO


def rounded(cost: float) -> float:
    """The price of a schedule, in credits: its cost, half up to whole micro-credits. In floats, which is quicker, for a
    menu has a price for every slot."""
    return math.floor(cost * MICRO + 0.5) / MICRO


def scaled(number: float, digits: int, rounding: str) -> int:
    """The number, as the decimal that it is written as, times 10 to the power of `digits`, as a whole number."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is not an amount")
    product = _WIDE.scaleb(Decimal(repr(float(number))), digits)
    return int(product.to_integral_value(rounding, _WIDE))
