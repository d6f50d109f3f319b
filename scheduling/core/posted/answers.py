"""Write the booking of a job that is answered at once, whichever policy made its menu: on the tenant's own idle cells
for nothing, or else at the posted prices."""

from __future__ import annotations

from typing import Any

from scheduling.core.posted.menu import PAPER, Choice
from scheduling.core.types import OWN, SHARED, FloatArray, Job


def terms(job: Job, choice: Choice, mode: str, *, first: int, end: int, floor: float) -> dict[str, Any]:
    """Return the fields of the booking for value and price. The ideal value counts from the first slot in which the job
    could run."""
    return {
        "value": choice.value,
        "ideal": choice.value if mode == PAPER else float(job.value(end - first)),
        "floor": floor,
        "cost": choice.cost,
        "paid": choice.price,
    }


def payment(choice: Choice, credits: FloatArray) -> dict[str, Any]:
    """Return the fields of the booking for its payouts: the price is split in proportion to the `credits` (slots,
    owners) that its units cost; the payer may be one of the owners. On the tenant's own cells nothing is paid."""
    if choice.at_home:
        return {"phase": OWN}
    total = credits.sum()
    credits *= choice.price / total if total > 0 else 0.0
    return {"phase": SHARED, "payouts": credits.sum(axis=0), "slot_payouts": credits}
