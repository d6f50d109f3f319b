"""The history of every change by an owner or operator: append-only, each entry chained to the one before.

`append` belongs into the transaction of the change itself, as its last write: it locks the end of the chain
until commit, and every other lock must be taken before it. `verify` recomputes the whole chain.
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
from tenants.models import AuditEntry, AuditHead, Tenant

START = "0" * 64

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Verified:
    entries: int
    hash: str


@dataclass(frozen=True)
class Broken:
    sequence: int
    what: str


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
    """One entry. `action` is `<entity>_<verb>` like the service; `subject` names the thing for a person."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("the history is written in the transaction of the change it tells of")
    head = _head_locked()
    entry = AuditEntry(
        sequence=head.sequence + 1,
        at=at,
        actor=by.user,
        actor_name=by.actor_name,
        tenant=tenant,
        action=action,
        subject=subject,
        reason=reason,
        before=_exact(before),
        after=_exact(after),
        previous_hash=head.hash,
    )
    entry.hash = entry_hash(entry)
    entry.save(force_insert=True)
    AuditHead.objects.filter(pk=head.pk).update(sequence=entry.sequence, hash=entry.hash)
    return entry


def verify() -> Verified | Broken:
    """Recompute every hash. Names the first entry that was changed, is missing, or does not follow."""
    last, last_hash = 0, START
    for entry in AuditEntry.objects.order_by("sequence").iterator(chunk_size=2000):
        if entry.sequence != last + 1:
            return Broken(last + 1, "the entry is missing")
        if entry.previous_hash != last_hash:
            return Broken(entry.sequence, "it does not follow the entry before it")
        if entry.hash != entry_hash(entry):
            return Broken(entry.sequence, "it was changed")
        last, last_hash = entry.sequence, entry.hash
    head = AuditHead.objects.first()
    if (head.sequence, head.hash) != (last, last_hash) if head else last > 0:
        return Broken(last + 1, "the end of the history was cut off")
    return Verified(last, last_hash)


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
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _head_locked() -> AuditHead:
    # The insert waits for another writer's uncommitted first row: no two first entries are both number 1.
    AuditHead.objects.bulk_create([AuditHead(sequence=0, hash=START)], ignore_conflicts=True)
    return AuditHead.objects.select_for_update().get()


def _exact(value: Any) -> Any:
    """What JSON gives back unchanged. A float becomes its text: the database may write 1e20 otherwise."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(key): _exact(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_exact(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"the history keeps plain values, not {type(value).__name__}")
