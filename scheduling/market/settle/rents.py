"""Close open rents (K4, D16): the lenders are paid, and the tenant that rented gets back the amount by which it would
have been better off alone, or everything if its job was never done.

Until that is known, the whole price of the award stays held. So nothing is ever paid out that might have to be
returned, and an owner's income is final when it comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import QuerySet

from scheduling.feed import EventKind, event, job_subject
from scheduling.market.settle.payments import rent_refund_key, slot_posting
from scheduling.market.view.rents import cut_short
from scheduling.models import BETTER_ALONE, Award, Event, Pool, RentState
from tenants.common.repeated import RepeatedRead, Whose
from tenants.ledger.postings import Posting, available, held


class RefundTooLarge(RuntimeError):
    """More was to come back of a rent than is held for it. The money would be that of another award."""


@dataclass(frozen=True)
class Closing:
    """A rent that is over, and the micro-credits that are returned. `facts` say why, for the book and for people."""

    award: Award
    refund: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


def rents_cut(pool: Pool) -> list[Closing]:
    """Return the rents of awards that were cut short, or whose jobs ended early; they end in their owner's world too.
    Delivered slots are paid for, so nothing is returned."""
    return [Closing(award) for award in _cut[pool.parts_worth_nothing](pool_id=pool.pk)]


def _open_but_cut(pool_id: int, *, parts_worth_nothing: bool) -> QuerySet[Award]:
    rows = Award.objects.filter(cut_short(parts_worth_nothing), pool=pool_id, rent=RentState.OPEN)
    return rows.select_related("job").order_by("pk")


_cut = {
    nothing: RepeatedRead(partial(_open_but_cut, parts_worth_nothing=nothing), of=Whose.ALL, pool_id=-1)
    for nothing in (False, True)
}


def rents_close(
    pool: Pool, closings: Sequence[Closing], settled_slot: int, at: datetime
) -> tuple[list[Posting], list[Event]]:
    """Close these rents, and return the postings and events for that. Needs the batch lane's lock.

    Slots that have been settled meanwhile are paid for by these postings. Later slots are paid for like those of any
    award. A refund of more than is held for its award is a broken promise, and raises `RefundTooLarge`.
    """
    postings: list[Posting] = []
    events: list[Event] = []
    for closing in closings:
        award = closing.award
        if closing.refund and closing.refund > award.owed_after(settled_slot):
            raise RefundTooLarge(f"{closing.refund} of award {award.pk}: {award.owed_after(settled_slot)} are held")
        award.rent, award.adjusted = RentState.CLOSED, closing.refund
        award.returned += closing.refund
        arrears = zip(range(award.start, min(award.paid_until, settled_slot + 1)), award.owed, strict=False)
        postings += [
            slot_posting(award.pool_id, award.pk, award.tenant_id, award.job_id, slot, parts, at)
            for slot, parts in arrears
            if slot not in award.missed and any(amount for _, amount in parts)
        ]
        if closing.refund:
            facts = {"award": award.pk, "cause": BETTER_ALONE, **closing.facts}
            entries = ((held(award.tenant_id), -closing.refund), (available(award.tenant_id), closing.refund))
            subject = job_subject(award.job_id)
            key = rent_refund_key(award.pk)
            postings.append(Posting(key=key, kind="refund", entries=entries, at=at, subject=subject, facts=facts))
            data = {"job": award.job_id, "refunded": closing.refund, **facts}
            events.append(
                event(
                    EventKind.AWARD_ADJUSTED,
                    pool_id=pool.pk,
                    tenant_id=award.tenant_id,
                    subject=subject,
                    at=at,
                    data=data,
                )
            )
    Award.objects.bulk_update([closing.award for closing in closings], ["rent", "adjusted", "returned"])
    return postings, events
