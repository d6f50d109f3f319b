"""Whether the book says about awards what their terms say: set aside once, settled slot by slot, nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from scheduling.models import Award, AwardState
from scheduling.services.feed import job_subject
from scheduling.services.settlement import parts_by_account
from scheduling.services.verification.findings import Finding, differences
from tenants.ledger.postings import AccountName, available, held
from tenants.ledger.selectors import TransactionView, transactions_about_all

Entries = dict[AccountName, int]


def money_verify(awards: Sequence[Award], settled_slot: int) -> list[Finding]:
    """Against everything that the book tells about their jobs, in two queries."""
    told: defaultdict[int, dict[str, TransactionView]] = defaultdict(dict)
    for transaction in transactions_about_all(subjects={job_subject(award.job_id) for award in awards}):
        if "award" in transaction.facts:
            told[transaction.facts["award"]][transaction.key] = transaction
    return [finding for award in awards for finding in award_money(award, told[award.pk], settled_slot)]


def award_money(award: Award, told: Mapping[str, TransactionView], settled_slot: int) -> list[Finding]:
    """`told`: what the book has about this award, by key. The market may go on meanwhile: what it settles after
    `settled_slot` may be there already, if it is one of the award's slots."""
    where, slots = f"award {award.pk} of job {award.job_id}", _slots(award)
    found = differences(where, {"the hold": (_entries(told.get(f"award:{award.pk}")), _hold(award))})
    for slot, parts in slots.items():
        key = f"settle:{award.pool_id}:{slot}:{award.pk}"
        if slot <= settled_slot or key in told:
            right = {**parts, held(award.tenant_id): -sum(parts.values())}
            found += differences(where, {f"the settlement of slot {slot}": (_entries(told.get(key)), right)})
    found += differences(where, {"what came back": (award.returned, _came_back(award, told.values()))})
    settled = {key for key, transaction in told.items() if transaction.kind == "settle"}
    expected = {f"settle:{award.pool_id}:{slot}:{award.pk}" for slot in slots}
    found += [Finding(where, f"{key} was settled and is not owed") for key in sorted(settled - expected)]
    return found + _kept_within(award, where, told.values())


def _slots(award: Award) -> dict[int, Entries]:
    """Slot -> what its owners are owed for it, once it has passed. A run that was given up pays to its end; one that
    never began, or that the platform cut short, pays nothing from the cut on."""
    end = award.end
    unbegun = award.cut_at is not None and award.cut_at <= award.start
    if award.cut_at is not None and (award.state == AwardState.VOID or unbegun):
        end = min(end, award.cut_at)
    listed = zip(range(award.start, end), award.charges, strict=False)  # a shorter list is found by its award's terms
    found = {slot: parts_by_account(charges) for slot, charges in listed}
    return {slot: parts for slot, parts in found.items() if any(parts.values())}


def _hold(award: Award) -> Entries | None:
    return {available(award.tenant_id): -award.paid, held(award.tenant_id): award.paid} if award.paid else None


def _entries(transaction: TransactionView | None) -> Entries | None:
    return None if transaction is None else dict(transaction.entries)


def _came_back(award: Award, told: Iterable[TransactionView]) -> int:
    """Refunded, or left over by a cancellation."""
    mine, hold = available(award.tenant_id).id, f"award:{award.pk}"
    return sum(amount for row in told if row.key != hold for account, amount in row.entries if account.id == mine)


def _kept_within(award: Award, where: str, told: Iterable[TransactionView]) -> list[Finding]:
    """Whatever else moved (refunds, cancellations): no more leaves an award's hold than was put in."""
    mine = held(award.tenant_id).id
    left = sum(amount for row in told for account, amount in row.entries if account.id == mine)
    over = award.state in (AwardState.DONE, AwardState.ENDED, AwardState.VOID)
    if left < 0:
        return [Finding(where, f"{-left} micro-credits more left its hold than were set aside")]
    if over and left and not _still_to_settle(award, told):
        return [Finding(where, f"{left} micro-credits are still held, and it is over")]
    return []


def _still_to_settle(award: Award, told: Iterable[TransactionView]) -> bool:
    """An award is over from its end on; slots before it may wait for their settlement."""
    settled = sum(1 for row in told if row.kind == "settle")
    return award.state == AwardState.DONE and settled < sum(1 for slot in award.charges if slot)
