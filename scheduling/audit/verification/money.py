"""Verifying that the book says about awards what their terms say: set aside once, settled slot by slot, and nothing
else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.replay import read_or_named
from scheduling.feed import job_subject
from scheduling.market.reads import slots_missed
from scheduling.market.settle import hold_key, parts_by_account, settle_key
from scheduling.models import Award, RentState
from tenants.ledger.postings import AccountName, available, held
from tenants.ledger.selectors import TransactionView, transactions_about_all

Entries = dict[AccountName, int]


def money_verify(awards: Sequence[Award], settled_slot: int) -> list[Finding]:
    """Compare awards with everything that the book says about their jobs, in two queries."""
    missed = slots_missed(awards)
    entries_by_award: defaultdict[int, dict[str, TransactionView]] = defaultdict(dict)
    for transaction in transactions_about_all(subjects={job_subject(award.job_id) for award in awards}):
        if "award" in transaction.facts:
            entries_by_award[transaction.facts["award"]][transaction.key] = transaction
    return [
        finding
        for award in awards
        for finding in read_or_named(
            f"award {award.pk} of job {award.job_id}",
            partial(award_money, award, entries_by_award[award.pk], settled_slot, missed.get(award.pk, frozenset())),
        )
    ]


def award_money(
    award: Award,
    transactions: Mapping[str, TransactionView],
    settled_slot: int,
    missed: Collection[int] = frozenset(),
) -> list[Finding]:
    """Compare one award with the book. `transactions` is what the book has about it, by key. The market may continue
    meanwhile: what it settles after `settled_slot` may be there already, if it is one of the award's slots. An open
    rent has paid for none yet. `missed` are slots that it does not pay for although it pays on after them; before an
    outage is passed they are still held."""
    where, slots = f"award {award.pk} of job {award.job_id}", _slots(award)
    passed = max((_outage_end(row) for row in transactions.values()), default=0)
    held_still = max(settled_slot, passed - 1)
    slots = {slot: parts for slot, parts in slots.items() if slot not in missed or slot > held_still}
    slots = {slot: parts for slot, parts in slots.items() if slot not in award.missed}
    findings = differences(where, {"the hold": (_entries(transactions.get(hold_key(award.pk))), _hold(award))})
    for slot, parts in slots.items():
        key = settle_key(award.pool_id, slot, award.pk)
        if (slot <= settled_slot and award.rent != RentState.OPEN) or key in transactions:
            right = {**parts, held(award.tenant_id): -sum(parts.values())}
            findings += differences(where, {f"the settlement of slot {slot}": (_entries(transactions.get(key)), right)})
    findings += differences(where, {"what came back": (award.returned, _came_back(award, transactions.values()))})
    settled = {key for key, transaction in transactions.items() if transaction.kind == "settle"}
    expected = {settle_key(award.pool_id, slot, award.pk) for slot in slots}
    findings += [Finding(where, f"{key} was settled and is not owed") for key in sorted(settled - expected)]
    owed = sum(
        sum(parts.values()) for slot, parts in slots.items() if settle_key(award.pool_id, slot, award.pk) not in settled
    )
    entries = [entry for row in transactions.values() for entry in row.entries]
    rest = sum(amount for account, amount in entries if account == held(award.tenant_id))
    return findings + differences(where, {"what is held": (rest, owed)})


def _outage_end(transaction: TransactionView) -> int:
    """Return the end of the outage for which this is the refund of an award that pays on, or 0."""
    return transaction.facts.get("end", 0) if ":outage" in transaction.key else 0


def _slots(award: Award) -> dict[int, Entries]:
    """Return slot -> what its owners are owed for it once it has passed."""
    # A list of charges that is shorter than its award is a finding of the award's terms.
    pairs = zip(range(award.start, award.paid_until), award.owed, strict=False)
    payments_by_slot = {slot: parts_by_account(charges) for slot, charges in pairs}
    return {slot: parts for slot, parts in payments_by_slot.items() if any(parts.values())}


def _hold(award: Award) -> Entries | None:
    return {available(award.tenant_id): -award.paid, held(award.tenant_id): award.paid} if award.paid else None


def _entries(transaction: TransactionView | None) -> Entries | None:
    return None if transaction is None else dict(transaction.entries)


def _came_back(award: Award, transactions: Iterable[TransactionView]) -> int:
    """Return what was refunded, or left over by a cancellation."""
    mine, hold = available(award.tenant_id).id, hold_key(award.pk)
    return sum(
        amount for row in transactions if row.key != hold for account, amount in row.entries if account.id == mine
    )
