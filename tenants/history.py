"""The history of every change by an owner or operator: append-only, each entry chained to the one before.

Call `append` in the transaction of the change itself, as its last write: it locks the end of the chain until commit,
and every other lock must be taken before it. `verify` recomputes the whole chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from tenants.access import Access
from tenants.common.guards import HISTORY, Flaw, flaws
from tenants.history_words import ACTIONS
from tenants.ledger.seals import ChainHead, NotedHead, newest_seal, noted_heads
from tenants.models import AuditEntry, AuditHead, Tenant

START = "0" * 64
CHAIN = "history"  # its name among the chains whose ends the ledger's seals note

Values = Mapping[str, Any]


@dataclass(frozen=True)
class VerifiedHistory:
    entries: int
    hash: str


@dataclass(frozen=True)
class Broken:
    """The findings of a broken history. Each names an entry, or a rule of the database, and says what is
    wrong with it."""

    findings: tuple[Flaw, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.findings))


def append(
    *,
    at: datetime,
    by: Access,
    action: str,
    subject: str,
    tenant: Tenant | None = None,
    reason: str = "",
    before: Values | None = None,
    after: Values | None = None,
) -> AuditEntry:
    """Append one entry. `action` is `<entity>_<verb>` like the service, and has words in `history_words`; `subject`
    names the thing for a person."""
    if action not in ACTIONS:
        raise ValueError(f"{action!r} has no words in history_words.py")
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("the history is written in the transaction of the change it tells of")
    head, seal = _head_locked(), newest_seal()
    entry = AuditEntry(
        sequence=head.sequence + 1,
        at=at,
        actor=by.user,
        actor_name=by.actor_name,
        tenant=tenant,
        action=action,
        subject=subject,
        reason=reason,
        before=exact(before),
        after=exact(after),
        seal_number=seal.number if seal else None,
        seal_digest=seal.digest if seal else "",
        previous_hash=head.hash,
    )
    entry.hash = entry_hash(entry)
    entry.save(force_insert=True)
    AuditHead.objects.filter(pk=head.pk).update(sequence=entry.sequence, hash=entry.hash)
    return entry


def head() -> ChainHead | None:
    """Return the end of the history, or None while it is empty. Note it outside the database: it fixes everything
    before."""
    row = AuditHead.objects.first()
    return ChainHead(row.sequence, row.hash) if row and row.sequence else None


def verify(*, known_heads: Sequence[str] = ()) -> VerifiedHistory | Broken:
    """Recompute every hash, and check the rules that let the history only grow. `known_heads` are hashes that were
    noted earlier outside the database."""
    noted = noted_heads(CHAIN)  # read before the entries: what a seal notes is written by then
    last, findings = _chain(noted, frozenset(known_heads))
    findings += flaws(HISTORY)
    return Broken(tuple(findings)) if findings else VerifiedHistory(last.height, last.digest)


def _chain(noted: Sequence[NotedHead], digests: frozenset[str]) -> tuple[ChainHead, list[Flaw]]:
    """Return the last entry up to which the chain is intact, and what is wrong: the first broken entry, and among the
    missing noted ends the newest."""
    ends, unseen = {one.head for one in noted}, set(digests)
    last = end = ChainHead(0, START)
    row = AuditHead.objects.values_list("sequence", "hash")
    # The entries and their end are read at the same moment, since others may write meanwhile.
    entries = AuditEntry.objects.annotate(end=row.values("sequence")[:1], end_hash=row.values("hash")[:1])
    for entry in entries.order_by("sequence").iterator(chunk_size=2000):
        if flaw := _flaw(entry, last):
            return last, [flaw]
        last, end = ChainHead(entry.sequence, entry.hash), ChainHead(entry.end or 0, entry.end_hash or START)
        unseen.discard(last.digest)
        ends.discard(last)
    if last.height == 0:
        end = head() or end
    findings = [Flaw(f"entry {last.height + 1}", "the end of the history was cut off")] if end != last else []
    for one in [one for one in noted if one.head in ends][-1:]:
        what = "is missing" if one.head.height > last.height else "was rewritten"
        findings.append(Flaw(f"entry {one.head.height}", f"it {what}: seal {one.seal} of the ledger noted it"))
    findings += [Flaw(f"head {one}", "was noted earlier and is not in the chain") for one in sorted(unseen)]
    return last, findings


def _flaw(entry: AuditEntry, last: ChainHead) -> Flaw | None:
    if entry.sequence != last.height + 1:
        return Flaw(f"entry {last.height + 1}", "the entry is missing")
    if entry.previous_hash != last.digest:
        return Flaw(f"entry {entry.sequence}", "it does not follow the entry before it")
    return Flaw(f"entry {entry.sequence}", "it was changed") if entry.hash != entry_hash(entry) else None


def entry_hash(entry: AuditEntry) -> str:
    fields = {
        "sequence": entry.sequence,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": entry.actor_id,
        "actor_name": entry.actor_name,
        "tenant": entry.tenant_id,
        "action": entry.action,
        "subject": entry.subject,
        "reason": entry.reason,
        "before": entry.before,
        "after": entry.after,
        "previous": entry.previous_hash,
    }
    if entry.seal_number is not None or entry.seal_digest:  # entries of older versions have no seal
        fields["seal"] = [entry.seal_number, entry.seal_digest]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _head_locked() -> AuditHead:
    # The insert waits for another writer's uncommitted first row, so that no two first entries get number 1.
    AuditHead.objects.bulk_create([AuditHead(sequence=0, hash=START)], ignore_conflicts=True)
    return AuditHead.objects.select_for_update().get()


def exact(value: Any) -> Any:
    """Return a value that JSON returns unchanged. A float becomes its text: the database may write 1e20 differently."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [exact(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"the history keeps plain values, not {type(value).__name__}")
