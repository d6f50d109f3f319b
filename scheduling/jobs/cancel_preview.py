"""What a cancellation would do, before anybody asks for it. The same arithmetic as `cancellation`, nothing written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.jobs.cancellation import has_begun, kept_parts, slot_running
from scheduling.models import ALIVE, Award, Lane, LaneClock, TrainingJob
from scheduling.models.jobs import LIVE_STATES


@dataclass(frozen=True)
class CancelPreview:
    """Micro-credits. `returned` comes back at once, `kept` goes to the owners, `still_paid` goes on being settled."""

    job: TrainingJob
    possible: bool
    state: str  # waiting | before_start | running | over
    paid: int = 0
    returned: int = 0
    kept: int = 0
    settled: int = 0
    still_paid: int = 0
    free_from: int | None = None  # the first slot in which its units are on sale again; None: none are

    @property
    def sentence(self) -> str:
        return BY_USE if self.state == "running" and self.job.pool.is_elastic else _SENTENCES[self.state]


BY_USE = "It runs: the slot that is running is its last, and is paid. Nothing is held beyond it."
_SENTENCES = {
    "waiting": "It waits and holds nothing: cancelling costs nothing.",
    "before_start": "It has not begun: all of its units are free again.",
    "running": "It runs: the slot that is running is its last. What it reserved stays paid to its end, and whatever "
    "the freed units are sold for again is credited to you.",
    "over": "It is over, so there is nothing to cancel.",
}


def cancel_preview(job: TrainingJob, at: datetime) -> CancelPreview:
    return cancel_previews([job], at)[0]


def cancel_previews(jobs: Sequence[TrainingJob], at: datetime) -> list[CancelPreview]:
    """In the order of the jobs, which come with their pools; two queries for all. Needs the tenant's scope."""
    alive = Award.objects.filter(job__in=[job.pk for job in jobs], state__in=ALIVE).order_by("-start")
    awards = {(award.job_id, award.attempt): award for award in alive}  # the first of each job
    pools = {job.pool_id for job in jobs}
    clocks = {clock.pool_id: clock for clock in LaneClock.objects.filter(pool__in=pools, lane=Lane.BATCH)}
    return [_preview(job, awards.get((job.pk, job.attempt)), clocks.get(job.pool_id), at) for job in jobs]


def _preview(job: TrainingJob, award: Award | None, batch: LaneClock | None, at: datetime) -> CancelPreview:
    if job.state not in LIVE_STATES:
        return CancelPreview(job, possible=False, state="over")
    if award is None:
        return CancelPreview(job, possible=True, state="waiting")
    running = slot_running(job.pool, batch, at)
    if not has_begun(award, running):
        kept = sum(part for _, part in kept_parts(award.charges, job.pool.cancellation_keep_percent))
        back = award.paid - kept
        return CancelPreview(job, True, "before_start", award.paid, back, kept, free_from=award.start)
    settled = batch.settled_slot if batch else -1
    done = sum(part for slot in award.charges[: award.unpaid_since(settled) - award.start] for _, part in slot)
    return CancelPreview(
        job,
        possible=True,
        state="running",
        paid=award.paid,
        settled=done,
        still_paid=award.paid - done,
        free_from=running + 1 if running + 1 < award.end else None,
    )
