"""The only crossing between the core's credits (floats) and the ledger's micro-credits (integers).

Every amount is rounded once, here. What is rounded is then only ever split, and the parts of a split add up to the
whole exactly, so that no posting made of them can fail to balance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from scheduling.core.speed import exact
from scheduling.core.types import Booking, FloatArray

MICRO = 1_000_000  # micro-credits in a credit
ROUNDING = 1e-6  # relative: what the floats of one booking may disagree by

Amounts = npt.NDArray[np.int64]


class NothingToSplitBy(ValueError):
    """Weights that do not say who gets what: negative, not finite, or none above zero."""


class UnbalancedBooking(ValueError):
    """A booking whose payouts do not add up to its payment. That is a broken promise of the policy."""


def micro(credits: float, unit: int = MICRO) -> int:
    """A number of credits in micro-credits (or `unit` to the credit), rounded half up: the decimal that is shown."""
    if not math.isfinite(credits):
        raise ValueError(f"{credits} is not an amount")
    return math.floor(exact(float(credits)) * unit + Fraction(1, 2))


def split_exactly(amount: int, weights: Iterable[float | Fraction]) -> tuple[int, ...]:
    """Integer parts in proportion to the weights that add up to the amount, by largest remainder.

    Each part is its exact share rounded down, or one more: what is left over goes to the largest remainders, among
    equal ones to the first. A weight of zero gets nothing. A negative amount (a refund) is split like its opposite.
    Nothing is rounded on the way; a float weighs exactly the binary fraction it is.
    """
    shares = _integers(weights)
    if amount == 0 and shares:
        return (0,) * len(shares)
    if not any(shares):
        raise NothingToSplitBy(f"{amount} cannot be split: no weight is above zero")
    total, sign = sum(shares), 1 if amount > 0 else -1
    parts = [abs(amount) * share // total for share in shares]
    left_over = abs(amount) - sum(parts)
    by_remainder = sorted(range(len(shares)), key=lambda index: -(abs(amount) * shares[index] % total))
    for index in by_remainder[:left_over]:  # the sort is stable: ties stay in order
        parts[index] += 1
    return tuple(sign * part for part in parts)


def contributions(quota: FloatArray, used: FloatArray) -> FloatArray:
    """(resources, owners) units an owner leaves to others: its quota less its own use in the frozen batch plan.

    An owner that uses more than its quota contributes nothing; it does not take from the others' part.
    """
    left: FloatArray = np.maximum(quota - used, 0.0)
    return left


def slot_payout(amount: int, costs: Sequence[float], contributed: FloatArray) -> tuple[int, ...]:
    """The owners' parts of what one job pays for one slot, in whole units that add up to `amount`.

    `costs` (resources,) says how much of the slot's cost is for each resource; that part goes to the owners in
    proportion to their frozen contributions (resources, owners). On the operator's units the operator alone
    contributes.
    """
    if amount == 0:
        return (0,) * len(contributed.T)
    shares = [Fraction(0)] * contributed.shape[1]
    for cost, units in zip(costs, contributed.tolist(), strict=True):
        if cost:
            for owner, share in enumerate(_proportions(units)):
                shares[owner] += exact(float(cost)) * share
    return split_exactly(amount, shares)


def charges(booking: Booking) -> Amounts:
    """(slots, owners) micro-credits to settle at the end of each slot; all together they are the payment exactly.

    The payment is split among the owners by their payouts, and each owner's part among the slots by its payout in
    each: so an owner's total is within one micro-credit of what the award says, however many slots there are.
    """
    if booking.slot_payouts is None:
        if booking.paid:
            raise UnbalancedBooking(f"job {booking.job} pays {booking.paid:g} and nobody is named to receive it")
        return np.zeros((booking.end - booking.start, 0), np.int64)
    payouts = _checked(booking, booking.slot_payouts)
    owed = split_exactly(micro(booking.paid), payouts.sum(axis=0).tolist())
    columns = [
        split_exactly(part, payouts[:, owner].tolist()) if part else [0] * len(payouts)
        for owner, part in enumerate(owed)
    ]
    return np.array(columns, np.int64).T


def _checked(booking: Booking, payouts: FloatArray) -> FloatArray:
    """The payouts per slot, without the negative zeros that float arithmetic leaves."""
    slack = ROUNDING * max(1.0, abs(booking.paid))
    if payouts.min(initial=0.0) < -slack or booking.paid < 0:
        raise UnbalancedBooking(f"job {booking.job}: a payment or payout is negative")
    if not abs(payouts.sum() - booking.paid) <= slack:
        raise UnbalancedBooking(f"job {booking.job} pays {booking.paid!r}, its payouts are {payouts.sum()!r}")
    positive: FloatArray = np.maximum(payouts, 0.0)
    return positive


def _proportions(weights: Sequence[float]) -> list[Fraction]:
    """Exact shares of one."""
    shares = _integers(weights)
    if not any(shares):
        raise NothingToSplitBy("nobody contributed what is to be paid for")
    return [Fraction(share, sum(shares)) for share in shares]


def _integers(weights: Iterable[float | Fraction]) -> list[int]:
    """The weights over their common denominator: the same proportions, in integers."""
    ratios = [_ratio(weight) for weight in weights]
    common = math.lcm(*(denominator for _, denominator in ratios))
    return [numerator * (common // denominator) for numerator, denominator in ratios]


def _ratio(weight: float | Fraction) -> tuple[int, int]:
    if not (math.isfinite(weight) and weight >= 0):
        raise NothingToSplitBy(f"a weight must be a finite number, zero or more, not {weight}")
    return weight.as_integer_ratio()
