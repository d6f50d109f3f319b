"""The postings by which an award pays for one of its slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.feed import job_subject
from scheduling.market.reads.payments import slot_prefix
from tenants.ledger.postings import OPERATOR, AccountName, Posting, earned, settlement


def settle_key(pool_id: int, slot: int, award_id: int) -> str:
    """Return the key of the posting that pays for a slot of an award; it makes sure that this happens once."""
    return f"{slot_prefix(pool_id, slot)}{award_id}"


def hold_key(award_id: int) -> str:
    """Return the key of the posting that sets aside the price of an award."""
    return f"award:{award_id}"


def rent_refund_key(award_id: int) -> str:
    """Return the key of the posting that gives back a part of a rent when the rent is closed."""
    return f"refund:{award_id}:alone"


def parts_by_account(parts: Sequence[Sequence[int]]) -> dict[AccountName, int]:
    """Sum up a slot's parts by account of the book. `Award.charges` names owners by tenant id, the operator as 0."""
    sums: dict[AccountName, int] = {}
    for owner, amount in parts:
        account = earned(owner) if owner else OPERATOR
        sums[account] = sums.get(account, 0) + amount
    return sums


def slot_posting(
    pool_id: int, award_id: int, tenant_id: int, job_id: int, slot: int, parts: Sequence[Sequence[int]], at: datetime
) -> Posting:
    """Return the posting for one slot of an award. `parts` are pairs (owner's tenant id or 0 for the operator,
    micro-credits), and at least one amount is not zero."""
    return settlement(
        key=settle_key(pool_id, slot, award_id),
        tenant_id=tenant_id,
        parts=parts_by_account(parts),
        at=at,
        subject=job_subject(job_id),
        facts={"slot": slot, "award": award_id},
    )


@dataclass(frozen=True)
class PaidLate:
    """What the postings of closed rents pay for past slots, in micro-credits."""

    awards: frozenset[int]
    owners: int
    operator: int


def paid_late(arrears: Sequence[Posting]) -> PaidLate:
    """Sum up these postings. There may be refunds among them, which pay no owner and are not counted."""
    settled = [posting for posting in arrears if posting.kind == "settle"]
    entries = [entry for posting in settled for entry in posting.entries]
    owners = sum(amount for account, amount in entries if account.kind == "earned")
    operator = sum(amount for account, amount in entries if account == OPERATOR)
    return PaidLate(frozenset(posting.facts["award"] for posting in settled), owners, operator)
