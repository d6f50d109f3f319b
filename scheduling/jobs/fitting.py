"""Jobs that no interval of a pool will ever serve, told as they are submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.types import BATCH, HasWindows, Reason
from scheduling.market.decide import batch_policy
from scheduling.market.reads import reason_sentence
from scheduling.market.view import JobReader, pool_frame
from scheduling.models import Pool, TrainingJob
from tenants.access import Refused
from tenants.scoping import scope_disabled


@dataclass(frozen=True)
class NeverFits(Refused):
    """No interval will ever serve the job. What would help: so many workers at once, so many epochs, or an operator
    who lets intervals grow to `needs_slots`. None: nothing of that kind would."""

    needs_slots: int | None
    window_slots: int | None
    enough_workers: int | None
    epochs_that_fit: int | None


def never_fits(row: TrainingJob, *, frontier: int) -> NeverFits | None:
    """Of a job that is to wait in the batch lane from its arrival on; it need not be stored yet."""
    pool, slot = row.pool, max(int(-(-row.arrival // 1)), frontier)
    if pool.is_elastic:
        return None
    with scope_disabled("what fits depends on everybody's cells"):
        frame = pool_frame(pool, also=[row.tenant_id])
    policy = batch_policy(frame)
    if not isinstance(policy, HasWindows):
        return None
    job = JobReader(frame).read_spec(row.spec, number=0, tenant_id=row.tenant_id, arrival=row.arrival, lane=BATCH)
    reason = policy.never_serves(frame.batch_cluster, job, slot)
    return None if reason is None else _refused(pool, reason)


def _refused(pool: Pool, reason: Reason) -> NeverFits:
    numbers: Mapping[str, Any] = reason.numbers
    return NeverFits(
        "larger_than_window",
        reason_sentence(pool, reason.code, numbers),
        needs_slots=numbers["needs_slots"],
        window_slots=numbers["window_slots"],
        enough_workers=numbers.get("enough_workers"),
        epochs_that_fit=numbers.get("epochs_that_fit"),
    )
