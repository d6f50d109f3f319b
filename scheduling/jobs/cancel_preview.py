"""Work out what a cancellation would do, before anybody asks for it. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.models import ALIVE, MAY_HOLD, Award, AwardState, Lane, LaneClock, Pool, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from tenants.access import RefusedForMoney
from tenants.ledger.amounts import spelt
from tenants.ledger.split import split


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
    def costs(self) -> int:
        """Return what does not come back of what is held for the job. Where every slot is awarded anew that is the slot
        that runs, which is paid in any case: whoever cancels such a job stops what it costs."""
        return 0 if self.job.pool.is_elastic else self.kept + self.still_paid

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


@dataclass(frozen=True)
class CostsMore(RefusedForMoney):
    costs: int
    most: int


COSTS_MORE = "costs_more"
EARLIER = "What is held for the slots that it had before goes to their owners, and none of it comes back."
BY_USE = "It runs: the slot that is running is its last, and is paid. Nothing is held beyond it."
_SENTENCES = {
    "waiting": "It waits and holds nothing: cancelling costs nothing.",
    "before_start": "It has not begun: all of its units would be free again.",
    "running": "It runs: the slot that is running is its last. What it reserved stays paid to its end, and whatever "
    "the freed units are sold for again is credited to you.",
    "over": "It is over, so there is nothing to cancel.",
}
_FREE = {
    "before_start": "It has not begun, and it is free: cancelling costs nothing.",
    "running": "It runs, and it is free: the slot that is running is its last, and cancelling costs nothing.",
}


def costs_more(jobs: Sequence[TrainingJob], most: int | None, at: datetime) -> CostsMore | None:
    """Refuse a cancellation that costs more by now than somebody was shown: a job has begun meanwhile, or got a place.
    Needs the locks of both lanes, so that it stays so."""
    if most is None:
        return None
    costs = sum(preview.costs for preview in cancel_previews(jobs, at))
    if costs <= most:
        return None
    sentence = f"Cancelling costs {spelt(costs)} by now, and not {spelt(most)} as was shown or allowed: left as it is."
    return CostsMore(COSTS_MORE, sentence, costs, most)


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


def slot_running(pool: Pool, batch: LaneClock | None, at: datetime) -> int:
    """Return the slot that runs at this moment. It is never one that is settled, nor one whose settlement is only
    late."""
    return max(pool.slot_at(at), (batch.settled_slot if batch else -1) + 1)


def has_begun(award: Award, running: int) -> bool:
    """Return whether the award's first slot has begun by the slot that runs, even if a late clock has not started
    it."""
    return award.state == AwardState.RUNNING or award.start <= running


def kept_parts(charges: Sequence[Sequence[Sequence[int]]], keep_percent: int) -> list[tuple[int, int]]:
    """Return (owner, micro-credits) pairs that stay with the owners of a cancelled award, in proportion to their
    earnings.

    The sum is rounded once, down, in favour of the tenant that cancels; then it is split exactly.
    """
    earned: dict[int, int] = {}
    for slot in charges:
        for owner, amount in slot:
            earned[owner] = earned.get(owner, 0) + amount
    # The order is that of every axis of owners, the operator (0) last: what is left over goes to the first of equals.
    owners = sorted((owner for owner in earned if earned[owner]), key=lambda owner: (owner == 0, owner))
    keep = sum(earned.values()) * keep_percent // 100
    if not keep:
        return []
    return [(o, part) for o, part in zip(owners, split(keep, [earned[o] for o in owners]), strict=True) if part]
