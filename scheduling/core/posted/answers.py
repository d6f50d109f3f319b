"""An answer at once, whoever's menu it is made with: the tenant's own idle cells first, for nothing, else the posted
prices."""

from __future__ import annotations

from typing import Any

from scheduling.core.posted.menu import PAPER, Choice
from scheduling.core.types import OWN, SHARED, FloatArray, Job


def terms(job: Job, choice: Choice, mode: str, *, first: int, end: int, floor: float) -> dict[str, Any]:
    """Fields of the booking. The ideal value counts from the first slot in which the job could run."""
    return {
        "value": choice.value,
        "ideal": choice.value if mode == PAPER else float(job.value(end - first)),
        "floor": floor,
        "cost": choice.cost,
        "paid": choice.price,
    }


def payment(choice: Choice, credits: FloatArray) -> dict[str, Any]:
    """Fields of the booking: the price is split as the `credits` (slots, owners) that its units cost, the payer among
    the owners. On the tenant's own cells nobody pays anybody."""
    if choice.at_home:
        return {"phase": OWN}
    total = credits.sum()
    credits *= choice.price / total if total > 0 else 0.0
    return {"phase": SHARED, "payouts": credits.sum(axis=0), "slot_payouts": credits}
