"""Writing the book. Every function is one database call, except `post_batches`; inside an open transaction it becomes
part of it.

LOCKING RULE: a posting locks the balance rows of its tenants' accounts, highest account id first, until the database
transaction ends. So ledger calls come last in a transaction, and one call has all postings (`post_many`);
`post_batches` first locks what all of its batches use. docs/architecture.md, "Locking", says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection

from tenants.ledger.models import Entry, Transaction
from tenants.ledger.postings import (
    AccountName,
    BadPosting,
    InsufficientFunds,
    Posted,
    Posting,
    Shortage,
    TenantBalances,
    available,
    batch_arguments,
    earned,
    held,
    settlement,
)
from tenants.scoping import tenant_require


class KeyReused(RuntimeError):
    """A key was used again with other contents: two different payments claim to be the same one."""


class UnknownTransaction(LookupError):
    """No transaction was posted under this key."""


def post(
    *,
    key: str,
    kind: str,
    entries: Sequence[tuple[AccountName, int]],
    at: datetime,
    subject: str = "",
    corrects: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Posted | InsufficientFunds:
    """Write one transaction, once: the same key with the same contents returns the earlier one."""
    posting = Posting(
        key=key, kind=kind, entries=tuple(entries), at=at, subject=subject, corrects=corrects, facts=facts or {}
    )
    return _one(post_many(postings=[posting]))


def post_many(*, postings: Sequence[Posting]) -> tuple[Posted, ...] | InsufficientFunds:
    """Write all postings or none, in one round trip. Funds are checked for what the whole batch takes from each
    account."""
    if not postings:
        return ()
    return _post(postings, batch_arguments(postings))


def _post(postings: Sequence[Posting], arguments: tuple[str, str]) -> tuple[Posted, ...] | InsufficientFunds:
    """Write the postings. `arguments` are the postings as the database reads them."""
    if len({posting.key for posting in postings}) < len(postings):
        raise BadPosting("one batch names the same key twice")
    _require_scope(postings)
    rows = _call(*arguments)
    conflicts = [key for outcome, key, *_ in rows if outcome == "conflict"]
    if conflicts:
        raise KeyReused(f"posted before with other contents: {', '.join(conflicts[:5])}")
    if rows[0][0] == "short":
        return InsufficientFunds(
            tuple(Shortage(AccountName.of(account), balance, needed) for _, _, account, balance, needed in rows)
        )
    by_key = {key: Posted(key, transaction_id, outcome == "repeated") for outcome, key, transaction_id, *_ in rows}
    return tuple(by_key[posting.key] for posting in postings)


def post_batches(
    *, batches: Sequence[Callable[[], Sequence[Posting]]], tenant_ids: Iterable[int]
) -> InsufficientFunds | None:
    """Write very many postings, as `post_many` does, in batches: the next one is built while the database writes one.

    It follows the locking rule: all accounts of all these tenants are locked first, so name every tenant from whom a
    posting takes money or to whom it pays. Building must not use the database. Funds are checked batch by batch, which
    is the same as all at once if no account that pays is paid in a later batch. After a refusal the caller must roll
    back its transaction, since earlier batches are written.
    """
    if len(batches) > 1:  # a single batch locks what it uses
        balances_lock(tenant_ids=tenant_ids)
    for postings, arguments in _built_ahead(batches):
        answer = _post(postings, arguments)
        if isinstance(answer, InsufficientFunds):
            return answer
    return None


def hold(
    *,
    key: str,
    tenant_id: int,
    amount: int,
    at: datetime,
    subject: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Posted | InsufficientFunds:
    """Set money aside for what was awarded: available -> held."""
    entries = _transfer(available(tenant_id), held(tenant_id), amount)
    return post(key=key, kind="hold", entries=entries, at=at, subject=subject, facts=facts)


def release(
    *,
    key: str,
    tenant_id: int,
    amount: int,
    at: datetime,
    subject: str = "",
    corrects: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Posted | InsufficientFunds:
    """Return money that was set aside: held -> available."""
    entries = _transfer(held(tenant_id), available(tenant_id), amount)
    return post(key=key, kind="release", entries=entries, at=at, subject=subject, corrects=corrects, facts=facts)


def settle(
    *,
    key: str,
    tenant_id: int,
    parts: Mapping[AccountName, int],
    at: datetime,
    subject: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Posted | InsufficientFunds:
    """Pay the owners from what the tenant holds. For a whole slot use `settlement(...)` values and `post_many`."""
    posting = settlement(key=key, tenant_id=tenant_id, parts=parts, at=at, subject=subject, facts=facts)
    return _one(post_many(postings=[posting]))


def reverse(
    *, key: str, original_key: str, at: datetime, facts: Mapping[str, Any] | None = None
) -> Posted | InsufficientFunds:
    """Undo a transaction by its mirror image, which names it. It is refused when the money is no longer there."""
    original = Transaction.objects.filter(key=original_key).first()
    if original is None:
        raise UnknownTransaction(original_key)
    lines = Entry.objects.filter(transaction=original).order_by("line")
    entries = [(AccountName.of(line.account_id), -line.amount) for line in lines]
    return post(
        key=key, kind="reverse", entries=entries, at=at, subject=original.subject, corrects=original.pk, facts=facts
    )


def accounts_open(*, tenant_ids: Iterable[int]) -> None:
    """Open the three accounts of each tenant before their first use. It does nothing to open ones."""
    ids = [available(tenant_id).id for tenant_id in tenant_ids]
    with connection.cursor() as cursor:
        cursor.execute("SELECT ledger_open_accounts(%s)", [ids])


def balances_lock(*, tenant_ids: Iterable[int]) -> dict[int, TenantBalances]:
    """Lock the balances until the caller's transaction ends, and return them, for deciding what can be afforded.

    It follows the locking rule: it locks all accounts of all these tenants at once, so name every tenant from whom the
    transaction will take money or to whom it will pay.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("locks end with the transaction: balances_lock needs one")
    tenants = sorted(set(tenant_ids))
    for tenant_id in tenants:
        tenant_require(tenant_id)
    accounts_open(tenant_ids=tenants)
    names = [name(tenant_id) for tenant_id in tenants for name in (available, held, earned)]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT account_id, amount FROM ledger_balance WHERE account_id = ANY(%s)"
            " ORDER BY account_id DESC FOR NO KEY UPDATE",
            [[name.id for name in names]],
        )
        balances_by_tenant = dict(cursor.fetchall())
    return {
        tenant_id: TenantBalances(*(balances_by_tenant[name(tenant_id).id] for name in (available, held, earned)))
        for tenant_id in tenants
    }


def _transfer(source: AccountName, target: AccountName, amount: int) -> list[tuple[AccountName, int]]:
    if amount <= 0:
        raise BadPosting(f"only more than nothing can move from {source} to {target}, not {amount}")
    return [(source, -amount), (target, amount)]


def _one(answer: tuple[Posted, ...] | InsufficientFunds) -> Posted | InsufficientFunds:
    return answer if isinstance(answer, InsufficientFunds) else answer[0]


def _built_ahead(
    batches: Sequence[Callable[[], Sequence[Posting]]],
) -> Iterator[tuple[Sequence[Posting], tuple[str, str]]]:
    """Yield each batch with the arguments of `ledger_post`, while a thread builds the next one."""

    def build(batch: Callable[[], Sequence[Posting]]) -> tuple[Sequence[Posting], tuple[str, str]]:
        postings = batch()
        return postings, batch_arguments(postings)

    with ThreadPoolExecutor(max_workers=1) as builder:
        coming = [builder.submit(build, batch) for batch in batches[:1]]
        for batch in batches[1:]:
            ready = coming.pop().result()
            coming.append(builder.submit(build, batch))
            yield ready
        yield from (last.result() for last in coming)


def _require_scope(postings: Sequence[Posting]) -> None:
    """Check the scope: paying somebody needs none; taking money needs the payer's scope (for the house: of all
    tenants)."""
    payers = {account.tenant_id for posting in postings for account, amount in posting.entries if amount < 0}
    for tenant_id in payers:
        tenant_require(tenant_id)


def _call(batch: str, deltas: str) -> list[tuple[Any, ...]]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM ledger_post(%s::jsonb, %s::jsonb)", [batch, deltas])
            return cursor.fetchall()
    except IntegrityError as error:
        # Two writers used one key and no account in common, so only the unique key found out.
        if "ledger_transaction_key_once" in str(error):
            raise KeyReused(str(error)) from error
        raise
