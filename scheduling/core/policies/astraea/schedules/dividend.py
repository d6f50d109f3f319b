"""The dividend: a share of what renting gains a job, paid to the owners besides the price."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduling.core.types import Booking, FloatArray


@dataclass(frozen=True, eq=False)
class Dividend:
    """What one job pays besides the price: share * (value - price - need), split among the owners by contribution.

    An owner's weight, in each slot and resource, is its part of what is for sale times the units that the job takes.
    The payer's own part is neither charged nor paid. Share < 1, so that what is strictly better stays so.
    """

    share: float  # beta
    need: float  # credits that the job has without renting
    payer: int
    contribution: FloatArray  # (resources, owners, slots) parts of one

    def due(self, amounts: FloatArray, start: int, end: int, gain: float) -> float:
        """Return the dividend, in credits, of a schedule that takes `amounts` (resources,) in [start, end) and whose
        value - price is `gain`."""
        above = gain - self.need
        if above <= 0:
            return 0.0
        weights = amounts @ self.contribution[:, :, start:end].sum(axis=2)
        everybody = float(weights.sum())
        return self.share * above * (everybody - float(weights[self.payer])) / everybody if everybody else 0.0

    def charged(self, booking: Booking, amounts: FloatArray, start: int, end: int) -> Booking:
        """Return the booking of such a schedule with its dividend added; each slot pays a part of it."""
        above = booking.value - booking.paid - self.need
        weights = (amounts @ self.contribution[:, :, start:end].transpose(1, 0, 2)).T  # (slots, owners)
        everybody = float(weights.sum())
        if above <= 0 or not everybody or booking.slot_payouts is None:
            return booking
        weights[:, self.payer] = 0.0
        parts = weights * (self.share * above / everybody)
        slot_payouts = booking.slot_payouts + parts
        dividend = float(parts.sum())
        return replace(
            booking,
            paid=booking.paid + dividend,
            dividend=dividend,
            payouts=slot_payouts.sum(axis=0),
            slot_payouts=slot_payouts,
            split=None,
        )
