"""Turn a booking into the row of an award, with amounts in whole micro-credits. Both lanes use this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduling.core import settlement
from scheduling.core.stored_charges import SlotPairs, charges_listed, packed
from scheduling.core.types import Allocation, Booking
from scheduling.market.view.frame import PoolFrame
from scheduling.models import Award, Lane, TrainingJob


def award_new(
    job: TrainingJob, frame: PoolFrame, booking: Booking, amounts: settlement.Amounts, *, lane: Lane
) -> Award:
    """Return the award of a booking, not saved. The booking names the pool's own servers, not those of the counter."""
    paid = int(amounts.sum())
    owners, stored = packed(frame.owner_ids, amounts)
    return Award(
        tenant_id=job.tenant_id,
        job=job,
        attempt=job.attempt,
        pool=frame.pool,
        lane=lane,
        phase=booking.phase or "",
        placement=booking.placement or "",
        start=booking.start,
        end=booking.end,
        workers=booking.workers,
        ps=booking.ps,
        worker_type=booking.worker_type,
        ps_type=booking.ps_type,
        allocation=allocation_rows(frame, booking.allocation),
        value=booking.value,
        floor=booking.floor,
        cost=booking.cost,
        paid=paid,
        dividend=dividend_of(booking, paid),
        owners=owners,
        amounts=stored,
    )


def dividend_of(booking: Booking, paid: int) -> int:
    """Return the booking's dividend in whole micro-credits; at most what is paid."""
    return min(settlement.micro(booking.dividend), paid)


def charges_of(owner_ids: Sequence[int], booking: Booking) -> SlotPairs:
    """Return what each slot of the booking costs and who earns it, as `Award.charges` lists it."""
    return charges_listed(owner_ids, settlement.charges(booking))


def allocation_rows(frame: PoolFrame, allocation: Iterable[Allocation]) -> list[list[int]]:
    """Return the rows of an allocation as they are stored: with the server's id in place of its index."""
    return [[frame.server_ids[row.server], row.start, row.end, row.workers, row.ps] for row in allocation]
