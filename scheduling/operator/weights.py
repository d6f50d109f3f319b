"""Trained weights for live pools: they are added under a name, and kept for good."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.db import transaction

from scheduling.cluster import may_change_cluster
from scheduling.core.policies.dl2.files import BadWeights, decode
from scheduling.models import PolicyWeights
from tenants import history
from tenants.access import Access, Refused
from tenants.services.members import row_refusal, row_store

# Why valid weights cannot be used.
FLAWS = {
    "weights_outdated": "were made for another version of the program",
    "weights_not_finite": "are not all numbers",
}


@transaction.atomic
def weights_add(*, name: str, content: bytes, by: Access, reason: str, at: datetime) -> PolicyWeights | Refused:
    """Store weights that a pool's policy can name. The same file under the same name changes nothing."""
    if refusal := may_change_cluster(by, reason) or _flaw(content):
        return refusal
    row = PolicyWeights(name=name, digest=hashlib.sha256(content).hexdigest(), content=content, added_at=at)
    before = PolicyWeights.objects.filter(name=name).first()
    if before is not None and before.digest == row.digest:
        return before
    if before is not None:
        return Refused("name_taken", f"Other weights are stored as {name}. They stay: give these a name of their own.")
    if refusal := row_refusal(row, "invalid_weights") or row_store(row, "invalid_weights"):
        return refusal
    after = {"name": name, "digest": row.digest}
    history.append(at=at, by=by, action="weights_add", subject=f"weights {name}", reason=reason, after=after)
    return row


def _flaw(content: bytes) -> Refused | None:
    try:
        network = decode(content)
    except BadWeights as error:
        return Refused("invalid_weights", f"The file {error}.")
    if isinstance(network, str):
        return Refused("invalid_weights", f"The weights {FLAWS[network]}.")
    return None
