"""What a cancellation would do, before anybody asks for it. The same arithmetic as `cancellation`, nothing written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.models import Award, AwardState, Lane, LaneClock, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.services.cancellation import kept_parts
from scheduling.services.settlement import ALIVE


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
    awards = {(a.job_id, a.attempt): a for a in Award.objects.filter(job__in=[j.pk for j in jobs], state__in=ALIVE)}
    pools = {job.pool_id for job in jobs}
    settled = dict(LaneClock.objects.filter(pool__in=pools, lane=Lane.BATCH).values_list("pool", "settled_slot"))
    return [_preview(job, awards.get((job.pk, job.attempt)), settled.get(job.pool_id, -1), at) for job in jobs]


def _preview(job: TrainingJob, award: Award | None, settled: int, at: datetime) -> CancelPreview:
    if job.state not in LIVE_STATES:
        return CancelPreview(job, possible=False, state="over")
    if award is None:
        return CancelPreview(job, possible=True, state="waiting")
    if award.state == AwardState.BOOKED:
        kept = sum(part for _, part in kept_parts(award.charges, job.pool.cancellation_keep_percent))
        back = award.paid - kept
        return CancelPreview(job, True, "before_start", award.paid, back, kept, free_from=award.start)
    done = sum(part for slot in award.charges[: max(settled + 1 - award.start, 0)] for _, part in slot)
    cut = max(job.pool.slot_at(at), settled + 1) + 1
    return CancelPreview(
        job,
        possible=True,
        state="running",
        paid=award.paid,
        settled=done,
        still_paid=award.paid - done,
        free_from=cut if cut < award.end else None,
    )
