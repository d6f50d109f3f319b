"""The end of an open rent (K4, D16): who lent is paid, and who rented gets back what it would have had more of alone,
or all of it where its job was never done.

While nobody knows that, all that its award costs stays held. So nothing is ever paid out that might have to be
returned, and an owner's income is final when it comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduling.feed import EventKind, event, job_subject
from scheduling.market.settle.payments import slot_posting
from scheduling.market.view.rents import cut_short
from scheduling.models import BETTER_ALONE, Award, Event, Pool, RentState
from tenants.ledger.postings import Posting, available, held


@dataclass(frozen=True)
class Closing:
    """A rent that is over, and micro-credits that come back; `facts`: why, for the book and for people."""

    award: Award
    refund: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


def rents_cut(pool: Pool) -> list[Closing]:
    """Rents of awards that were cut short, or whose jobs ended before their time: in their owner's world they are so,
    too. What was delivered is paid for."""
    rows = Award.objects.filter(cut_short(pool), pool=pool, rent=RentState.OPEN)
    return [Closing(award) for award in rows.select_related("job").order_by("pk")]


def rents_close(
    pool: Pool, closings: Sequence[Closing], settled_slot: int, at: datetime
) -> tuple[list[Posting], list[Event]]:
    """What is to be posted and told. Needs the batch lane's lock.

    The slots that have been settled meanwhile are paid for now. Those to come are paid for as any award's.
    """
    postings: list[Posting] = []
    events: list[Event] = []
    for closing in closings:
        award = closing.award
        award.rent, award.adjusted = RentState.CLOSED, closing.refund
        award.returned += closing.refund
        arrears = zip(range(award.start, min(award.paid_until, settled_slot + 1)), award.owed, strict=False)
        postings += [
            slot_posting(award.pool_id, award.pk, award.tenant_id, award.job_id, slot, parts, at)
            for slot, parts in arrears
            if any(amount for _, amount in parts)
        ]
        if closing.refund:
            facts = {"award": award.pk, "cause": BETTER_ALONE, **closing.facts}
            entries = ((held(award.tenant_id), -closing.refund), (available(award.tenant_id), closing.refund))
            subject = job_subject(award.job_id)
            key = f"refund:{award.pk}:alone"
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
