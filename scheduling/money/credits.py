"""Pay credits in and out for a tenant, which an operator does with a reason; and make earned credits spendable."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction

from scheduling.feed import EventKind, event, events_append
from tenants import history
from tenants.access import Access, Refused, RefusedForMoney
from tenants.ledger.amounts import MICRO, spelt
from tenants.ledger.postings import (
    OUTSIDE,
    AccountName,
    InsufficientFunds,
    Posted,
    Posting,
    TenantBalances,
    available,
    collection_key,
    earned,
)
from tenants.ledger.selectors import TransactionView, balances, transaction_view
from tenants.ledger.services import KeyReused, balances_lock, post_many
from tenants.models import Tenant
from tenants.names import is_blank
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.services.members import NO_REASON, NOT_ALLOWED

MOST = 10**9 * MICRO  # the most in one grant or withdrawal: a billion credits
WITHDRAWN_BEFORE = Refused("key_reused", "This key was used for another withdrawal.")


@dataclass(frozen=True)
class BeyondFunds(RefusedForMoney):
    asked: int
    left: int


@transaction.atomic
def credits_grant(*, tenant: Tenant, amount: int, key: str, by: Access, reason: str, at: datetime) -> Posted | Refused:
    """Pay `amount` micro-credits into the tenant's available ones. A key grants only once; `repeated` says whether it
    had been used before."""
    if not by.allows(Permission.CREDITS_CHANGE):
        return NOT_ALLOWED
    if is_blank(reason):
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
            with transaction.atomic():  # where the database finds out, only this is undone, and the book can be read
                answer = post_many(postings=[posting])
        except KeyReused:  # the same grant was requested before, or another one with this key
            return _earlier(posting) or Refused("key_reused", "This key was used for another grant.")
    if isinstance(answer, InsufficientFunds):
        raise RuntimeError(f"what comes from outside has no limit: {answer}")
    if not answer[0].repeated:
        after = {"amount": amount, "key": key}
        subject = f"credits of {tenant.slug}"
        history.append(at=at, by=by, tenant=tenant, action="credits_grant", subject=subject, reason=reason, after=after)
    return answer[0]


@transaction.atomic
def credits_withdraw(
    *, tenant: Tenant, amount: int, key: str, by: Access, reason: str, at: datetime
) -> Posted | Refused:
    """Pay `amount` micro-credits out: first from what the tenant has earned, then from what is available. Held credits
    stay held. A key withdraws only once; `repeated` says whether it had been used before."""
    if not by.allows(Permission.CREDITS_CHANGE):
        return NOT_ALLOWED
    if is_blank(reason):
        return NO_REASON
    if not 0 < amount <= MOST:
        return Refused("invalid_amount", "A withdrawal is more than nothing and at most a billion credits.")
    with scope_disabled("an operator pays out for a tenant"):
        # The lock keeps others from moving this tenant's money, so the balance read here still holds below.
        balance = balances_lock(tenant_ids=[tenant.pk])[tenant.pk]
        if before := transaction_view(key=f"withdraw:{key}"):
            return _withdrawn(before, tenant, amount) or WITHDRAWN_BEFORE
        if amount > balance.earned + balance.available:
            rest = balance.earned + balance.available
            sentence = f"{tenant.name} can pay out {spelt(rest)} credits; {spelt(amount)} were asked for."
            return BeyondFunds("beyond_funds", sentence, amount, rest)
        try:
            with transaction.atomic():
                answer = post_many(postings=[_withdrawal(tenant, amount, balance, key, at)])
        except KeyReused:  # just now, by a withdrawal for another tenant
            return WITHDRAWN_BEFORE
    if isinstance(answer, InsufficientFunds):
        raise RuntimeError(f"the balances were locked: {answer}")
    after = {"amount": amount, "key": key}
    subject = f"credits of {tenant.slug}"
    history.append(at=at, by=by, tenant=tenant, action="credits_withdraw", subject=subject, reason=reason, after=after)
    data = {"amount": amount, "reason": reason}
    events_append(
        [event(EventKind.CREDITS_WITHDRAWN, pool_id=None, tenant_id=tenant.pk, subject=subject, at=at, data=data)]
    )
    return answer[0]


def earned_collect(*, at: datetime) -> int:
    """Make what cells earned spendable, for every tenant once in each hour of UTC. Return how much that was.

    Tenants are processed one after the other, each in its own transaction, so that no tenant's payments wait for all.
    """
    with scope_disabled("everybody's earnings become spendable"):
        accounts = [earned(tenant_id) for tenant_id in Tenant.objects.order_by("pk").values_list("pk", flat=True)]
        balances_now = balances(accounts=accounts)
        return sum(
            _collect(account.tenant_id, at) for account in accounts if balances_now[account] and account.tenant_id
        )


@transaction.atomic
def _collect(tenant_id: int, at: datetime) -> int:
    hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    key = collection_key(tenant_id, f"{hour:%Y-%m-%dT%H}")
    amount = balances_lock(tenant_ids=[tenant_id])[tenant_id].earned
    if not amount or transaction_view(key=key):
        return 0
    entries = ((earned(tenant_id), -amount), (available(tenant_id), amount))
    answer = post_many(
        postings=[Posting(key=key, kind="collect", entries=entries, at=at, subject=f"tenant:{tenant_id}")]
    )
    if isinstance(answer, InsufficientFunds):
        raise RuntimeError(f"the balance was locked: {answer}")
    return amount


def _withdrawal(tenant: Tenant, amount: int, balances: TenantBalances, key: str, at: datetime) -> Posting:
    of_earned = min(amount, balances.earned)
    sources: list[tuple[AccountName, int]] = [
        (earned(tenant.pk), -of_earned),
        (available(tenant.pk), of_earned - amount),
    ]
    entries = (*(entry for entry in sources if entry[1]), (OUTSIDE, amount))
    return Posting(key=f"withdraw:{key}", kind="withdraw", entries=entries, at=at, subject=f"tenant:{tenant.pk}")


def _withdrawn(before: TransactionView, tenant: Tenant, amount: int) -> Posted | None:
    """Return the withdrawal that this key made before, if it was the same amount for the same tenant; else None."""
    if (before.subject, dict(before.entries).get(OUTSIDE)) != (f"tenant:{tenant.pk}", amount):
        return None
    return Posted(before.key, before.id, repeated=True)


def _earlier(posting: Posting) -> Posted | None:
    """Return the grant that this key made before, if it was the same amount for the same tenant; else None."""
    transaction = transaction_view(key=posting.key)
    if transaction is None or sorted(transaction.entries) != sorted(posting.entries):
        return None
    return Posted(posting.key, transaction.id, repeated=True)
