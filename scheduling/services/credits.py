"""Credits from outside, by an operator who says why."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from tenants import history
from tenants.access import Access, Refused
from tenants.ledger.postings import OUTSIDE, InsufficientFunds, Posted, Posting, available
from tenants.ledger.selectors import transaction_view
from tenants.ledger.services import KeyReused, post_many
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.services.members import NO_REASON, NOT_ALLOWED

MOST = 10**15  # micro-credits in one grant: a billion credits


@transaction.atomic
def credits_grant(*, tenant: Tenant, amount: int, key: str, by: Access, reason: str, at: datetime) -> Posted | Refused:
    """`amount` micro-credits into what the tenant can spend. The same key grants once; `repeated` says so."""
    if not by.allows(Permission.CREDITS_CHANGE):
        return NOT_ALLOWED
    if not reason.strip():
        return NO_REASON
    if not 0 < amount <= MOST:
        return Refused("invalid_amount", "A grant is more than nothing and at most a billion credits.")
    posting = Posting(
        key=f"top-up:{key}",
        kind="grant",
        entries=((OUTSIDE, -amount), (available(tenant.pk), amount)),
        at=at,
        subject=f"tenant:{tenant.pk}",
    )
    with scope_disabled("an operator pays in for a tenant"):
        try:
            answer = post_many(postings=[posting])
        except KeyReused:  # the same grant asked for again, later, or another one
            return _earlier(posting) or Refused("key_reused", "This key was used for another grant.")
    if isinstance(answer, InsufficientFunds):
        raise RuntimeError(f"what comes from outside has no limit: {answer}")
    if not answer[0].repeated:
        after = {"amount": amount, "key": key}
        subject = f"credits of {tenant.slug}"
        history.append(at=at, by=by, tenant=tenant, action="credits_grant", subject=subject, reason=reason, after=after)
    return answer[0]


def _earlier(posting: Posting) -> Posted | None:
    """What this key paid in, if it was the same amount for the same tenant."""
    found = transaction_view(key=posting.key)
    if found is None or sorted(found.entries) != sorted(posting.entries):
        return None
    return Posted(posting.key, found.id, repeated=True)
