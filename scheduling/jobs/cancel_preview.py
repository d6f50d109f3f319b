"""Work out what a cancellation would do, before anybody asks for it, by the arithmetic of `cancellation`. Nothing is
written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.jobs.cancellation import has_begun, kept_parts, slot_running
from scheduling.models import ALIVE, MAY_HOLD, Award, Lane, LaneClock, TrainingJob
from scheduling.models.jobs import LIVE_STATES


@dataclass(frozen=True)
class CancelPreview:
    """What a cancellation would do to the money of a job, in micro-credits. `returned` comes back at once, `kept` goes
    to the owners, `still_paid` goes on being settled. `paid` is the price of what the job has now. `earlier` is the
    part of `still_paid` that is held for slots that it had before: pieces that are due only once the job is done are
    also due if it is cancelled."""

    job: TrainingJob
    possible: bool
    state: str  # waiting | before_start | running | over
    paid: int = 0
    returned: int = 0
    kept: int = 0
    settled: int = 0
    still_paid: int = 0
    earlier: int = 0

    @property
    def reserved(self) -> int:
        """Return the part of `still_paid` that is held for the slots of what the job has now."""
        return self.still_paid - self.earlier

    @property
    def is_free(self) -> bool:
        """Return whether there is no money in it at all."""
        return not (self.paid or self.earlier)

    @property
    def sentence(self) -> str:
        if self.state == "waiting" and self.earlier:
            return f"It waits. {EARLIER}"
        if self.is_free and self.state in _FREE:
            return _FREE[self.state]
        sentence = BY_USE if self.state == "running" and self.job.pool.is_elastic else _SENTENCES[self.state]
        return f"{sentence} {EARLIER}" if self.earlier else sentence


EARLIER = "What is held for the slots that it had before goes to their owners, and none of it comes back."
BY_USE = "It runs: the slot that is running is its last, and is paid. Nothing is held beyond it."
_SENTENCES = {
    "waiting": "It waits and holds nothing: cancelling costs nothing.",
    "before_start": "It has not begun: all of its units are free again.",
    "running": "It runs: the slot that is running is its last. What it reserved stays paid to its end, and whatever "
    "the freed units are sold for again is credited to you.",
    "over": "It is over, so there is nothing to cancel.",
}
_FREE = {
    "before_start": "It has not begun, and it is free: cancelling costs nothing.",
    "running": "It runs, and it is free: the slot that is running is its last, and cancelling costs nothing.",
}


def cancel_preview(job: TrainingJob, at: datetime) -> CancelPreview:
    return cancel_previews([job], at)[0]


def cancel_previews(jobs: Sequence[TrainingJob], at: datetime) -> list[CancelPreview]:
    """Return a preview for each job, in their order; the jobs come with their pools. Takes two queries for all. Needs
    the tenant's scope."""
    awards: dict[int, list[Award]] = {}
    for award in Award.objects.filter(MAY_HOLD, job__in=[job.pk for job in jobs]).order_by("start"):
        awards.setdefault(award.job_id, []).append(award)
    pools = {job.pool_id for job in jobs}
    clocks = {clock.pool_id: clock for clock in LaneClock.objects.filter(pool__in=pools, lane=Lane.BATCH)}
    return [_preview(job, awards.get(job.pk, []), clocks.get(job.pool_id), at) for job in jobs]


def _preview(job: TrainingJob, awards: Sequence[Award], batch: LaneClock | None, at: datetime) -> CancelPreview:
    """Return the preview of one job. `awards` are those for which something may be held, in the order of their slots,
    including pieces that are over."""
    if job.state not in LIVE_STATES:
        return CancelPreview(job, possible=False, state="over")
    settled = batch.settled_slot if batch else -1
    alive = [award for award in awards if award.state in ALIVE and award.attempt == job.attempt]
    earlier = sum(award.owed_after(settled) for award in awards if award not in alive)
    if not alive:
        return CancelPreview(job, possible=True, state="waiting", still_paid=earlier, earlier=earlier)
    award, running = alive[0], slot_running(job.pool, batch, at)  # what follows it in its window is at home and free
    if not has_begun(award, running):
        kept = sum(part for _, part in kept_parts(award.charges, job.pool.cancellation_keep_percent))
        back = award.paid - kept
        return CancelPreview(
            job,
            possible=True,
            state="before_start",
            paid=award.paid,
            returned=back,
            kept=kept,
            still_paid=earlier,
            earlier=earlier,
        )
    reserved = award.owed_after(settled)
    return CancelPreview(
        job,
        possible=True,
        state="running",
        paid=award.paid,
        settled=award.paid - award.returned - reserved,
        still_paid=reserved + earlier,
        earlier=earlier,
    )
