"""Split what a booking pays, in whole micro-credits, exactly among owners and slots.

Every amount is rounded once (`scheduling.core.currency`). After that it is only split, and the parts of a split add up
to the whole exactly, so that no posting made of them can fail to balance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from scheduling.core.currency import micro as micro  # modules that settle import it from here
from scheduling.core.types import Booking, BoolArray, FloatArray

ROUNDING = 1e-6  # relative: how far the floats of one booking may disagree
LEAST_TOTAL = 1e-280  # of weights: division by a smaller total would lose digits

AT_ONCE = 64  # bookings that are split together: as many as fit into the processor's cache

Amounts = npt.NDArray[np.int64]


class NothingToSplitBy(ValueError):
    """The weights of a split determine no parts: one is negative or not finite, or none is above zero."""


class UnbalancedBooking(ValueError):
    """The payouts of a booking do not add up to its payment. The policy has then broken its promise."""


def split_exactly(amount: int, weights: Iterable[float | Fraction]) -> tuple[int, ...]:
    """Return integer parts in proportion to the weights that add up to the amount, by largest remainder.

    Each part is its exact share rounded down, or one more: the units left over go to the largest remainders, among
    equal ones to the first. A weight of zero gets nothing. A negative amount (a refund) is split like its opposite.
    Nothing is rounded on the way; a float weight counts as exactly its binary fraction.
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


def charges(booking: Booking) -> Amounts:
    """Return the micro-credits to settle at the end of each slot, (slots, owners); their sum is exactly the payment.

    The payment is split among the owners by their payouts, and each owner's part among the slots by its payout in
    each: so an owner's total is within one micro-credit of its payout in the award, however many slots there are.
    """
    return charges_of_all([booking])[0]


def charges_of_all(bookings: Sequence[Booking]) -> list[Amounts]:
    """Return the charges of each booking of one plan. Many at once take far less time than one by one."""
    charges = [_nothing(booking) for booking in bookings if booking.slot_payouts is None]
    if len(charges) == len(bookings):
        return charges
    if charges:
        others = iter(charges_of_all([booking for booking in bookings if booking.slot_payouts is not None]))
        nothing = iter(charges)
        return [next(nothing if booking.slot_payouts is None else others) for booking in bookings]
    chunks = [bookings[begin : begin + AT_ONCE] for begin in range(0, len(bookings), AT_ONCE)]
    return [charged for chunk in chunks for charged in _split_payments(chunk)]


def _nothing(booking: Booking) -> Amounts:
    if booking.paid:
        raise UnbalancedBooking(f"job {booking.job} pays {booking.paid:g} and nobody is named to receive it")
    return np.zeros((booking.end - booking.start, 0), np.int64)


def _split_payments(bookings: Sequence[Booking]) -> list[Amounts]:
    """Split each payment among the owners, then each owner's part among the slots. Shorter bookings are padded with
    empty slots at their end."""
    payouts = [_checked(booking) for booking in bookings]
    totals = np.stack([amounts.sum(axis=0) for amounts in payouts])  # (bookings, owners)
    owed = split_rows(np.array([micro(booking.paid) for booking in bookings], np.int64), totals)
    slots = max(len(amounts) for amounts in payouts)
    if slots == 1:  # nothing is left to split
        return [parts[None, :] for parts in owed]
    by_slot = np.zeros((*totals.shape, slots))  # (bookings, owners, slots)
    for index, amounts in enumerate(payouts):
        by_slot[index, :, : len(amounts)] = amounts.T
    parts = split_rows(owed.ravel(), by_slot.reshape(-1, by_slot.shape[2])).reshape(by_slot.shape)
    return [parts[index, :, : len(amounts)].T for index, amounts in enumerate(payouts)]


def split_rows(amounts: Amounts, weights: FloatArray) -> Amounts:
    """Return parts (rows, parts): each row's amount (rows,) split by its weights (rows, parts) as by `split_exactly`.

    Many rows are split at once, in floats whose errors are bounded. A row in which an error could decide about a unit,
    because a share is near a whole number or remainders are near each other, is split again in exact numbers. Equal
    weights need no rounding at all. None of the amounts or weights may be negative.
    """
    parts = np.zeros(weights.shape, np.int64)
    most = weights.max(axis=1, initial=0.0)
    even = ((weights == most[:, None]) | (weights == 0)).all(axis=1) & (most > 0)
    evenly, otherwise = np.flatnonzero(even & (amounts > 0)), np.flatnonzero(~even & (amounts > 0))
    parts[evenly] = _split_evenly(amounts[evenly], weights[evenly] > 0)
    if len(otherwise):
        parts[otherwise], uncertain = _split_in_floats(amounts[otherwise], weights[otherwise])
        for row in otherwise[uncertain]:
            parts[row] = split_exactly(int(amounts[row]), weights[row].tolist())
    return parts


def _split_evenly(amounts: Amounts, takes_part: BoolArray) -> Amounts:
    """Return equal parts (rows, parts) where `takes_part` is true; units left over go to the first of these."""
    base, left_over = np.divmod(amounts, takes_part.sum(axis=1))
    first = np.cumsum(takes_part, axis=1) <= left_over[:, None]
    parts: Amounts = takes_part * (base[:, None] + first)
    return parts


def _split_in_floats(amounts: Amounts, weights: FloatArray) -> tuple[Amounts, BoolArray]:
    """Return parts (rows, parts) by largest remainder in floats, and which rows (rows,) are uncertain and have to be
    split in exact numbers.

    A share is wrong by at most `doubt`: one rounding each for the amount, the quotient and the product, and at most
    one for each weight in their sum, all relative to a number no larger than the amount.
    """
    totals, most = weights.sum(axis=1), weights.shape[1]
    usable = (totals > LEAST_TOTAL) & np.isfinite(totals)
    whole = amounts.astype(np.float64)
    shares = weights * np.divide(whole, totals, out=np.zeros_like(totals), where=usable)[:, None]
    floors = np.floor(shares)
    remainders = shares - floors
    doubt = (whole * (most + 8) * np.finfo(np.float64).eps)[:, None]
    left_over = np.clip(whole - floors.sum(axis=1), 0, most - 1).astype(np.int64)
    rows = np.arange(len(weights))
    least = np.sort(remainders, axis=1)[rows, most - np.maximum(left_over, 1)][:, None]  # that gets one unit more
    above, ties = remainders > least, remainders == least
    among_ties = np.cumsum(ties, axis=1) <= (left_over - above.sum(axis=1))[:, None]  # the first of the equal ones
    parts = floors.astype(np.int64) + (above & (left_over > 0)[:, None]) + (ties & among_ties)
    tied_weight = weights[rows, ties.argmax(axis=1)][:, None]
    rivals = (np.abs(remainders - least) <= 2 * doubt) & (weights != tied_weight) & (left_over > 0)[:, None]
    near_whole = np.minimum(remainders, 1 - remainders) <= doubt
    return parts, ~usable | ((weights > 0) & (near_whole | rivals)).any(axis=1)


def _checked(booking: Booking) -> FloatArray:
    """Return the payouts (slots, owners), without the slightly negative numbers that float arithmetic leaves; raise
    `UnbalancedBooking` if one is negative beyond that, or if they do not add up to the payment.

    They are in the order of a stored booking, in which sums over slots add one slot after the other: who earns what
    does not depend on how the array lies in memory.
    """
    payouts = np.zeros((0, 0)) if booking.slot_payouts is None else booking.slot_payouts
    slack = ROUNDING * max(1.0, abs(booking.paid))
    if payouts.min(initial=0.0) < -slack or booking.paid < 0:
        raise UnbalancedBooking(f"job {booking.job}: a payment or payout is negative")
    if not abs(payouts.sum() - booking.paid) <= slack:
        raise UnbalancedBooking(f"job {booking.job} pays {booking.paid!r}, its payouts are {payouts.sum()!r}")
    positive: FloatArray = np.maximum(payouts, 0.0, order="C")
    return positive


def _integers(weights: Iterable[float | Fraction]) -> list[int]:
    """Return the numerators of the weights over their common denominator: the same proportions, in integers."""
    ratios = [_ratio(weight) for weight in weights]
    common = math.lcm(*(denominator for _, denominator in ratios))
    return [numerator * (common // denominator) for numerator, denominator in ratios]


def _ratio(weight: float | Fraction) -> tuple[int, int]:
    if not (math.isfinite(weight) and weight >= 0):
        raise NothingToSplitBy(f"a weight must be a finite number, zero or more, not {weight}")
    return weight.as_integer_ratio()
