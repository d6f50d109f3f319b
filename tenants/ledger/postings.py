"""The values of the book: accounts, postings, and the answers to them. Pure, no database."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

# See tenants.ledger.models: account id = 8 * tenant id + index in this list; the house's own are below 8.
IDS_PER_TENANT = 8
TENANT_KINDS = ("available", "held", "earned")
HOUSE_IDS = {"operator": 1, "outside": 2}

MOST_ENTRIES = 32_767  # of one transaction
NAMES = 10_000  # account names that are cached: a payment may name a hundred of them, and the next one the same
_LIMIT = 2**63
_PLAIN = re.compile(r"[!#-\[\]-~]+")  # printable ASCII without blanks, quotes and backslashes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadPosting(ValueError):
    """A posting that no caller may build: unbalanced, empty, with a zero entry, or with a name that the book cannot
    hold."""


@dataclass(frozen=True, order=True)
class AccountName:
    """One of the three accounts of a tenant, or one of the house (tenant_id None)."""

    kind: str
    tenant_id: int | None = None
    id: int = field(init=False, repr=False, compare=False)  # follows from the others, and is used very often

    def __post_init__(self) -> None:
        if self.kind not in (HOUSE_IDS if self.tenant_id is None else TENANT_KINDS):
            raise BadPosting(f"there is no account {self.kind!r} of {self.tenant_id or 'the house'}")
        place = HOUSE_IDS[self.kind] if self.tenant_id is None else TENANT_KINDS.index(self.kind)
        object.__setattr__(self, "id", (self.tenant_id or 0) * IDS_PER_TENANT + place)

    def __hash__(self) -> int:
        return self.id

    @classmethod
    @lru_cache(maxsize=NAMES)
    def of(cls, account_id: int) -> AccountName:
        tenant_id, place = divmod(account_id, IDS_PER_TENANT)
        if tenant_id:
            return cls(TENANT_KINDS[place], tenant_id)
        return cls({number: kind for kind, number in HOUSE_IDS.items()}[place])

    def __str__(self) -> str:
        return self.kind if self.tenant_id is None else f"{self.kind} of tenant {self.tenant_id}"


OPERATOR = AccountName("operator")
OUTSIDE = AccountName("outside")


@lru_cache(maxsize=NAMES)
def available(tenant_id: int) -> AccountName:
    return AccountName("available", tenant_id)


@lru_cache(maxsize=NAMES)
def held(tenant_id: int) -> AccountName:
    return AccountName("held", tenant_id)


def collection_key(tenant_id: int, begin: str) -> str:
    """Return the key of the posting that makes a tenant's earnings spendable, once in an hour of UTC. `begin` is the
    hour as 2026-11-23T16; a shorter `begin` gives the beginning of such keys."""
    return f"collect:{tenant_id}:{begin}"


@lru_cache(maxsize=NAMES)
def earned(tenant_id: int) -> AccountName:
    return AccountName("earned", tenant_id)


@dataclass(frozen=True)
class TenantBalances:
    available: int
    held: int
    earned: int


@dataclass(frozen=True)
class Posting:
    """One transaction to be written: micro-credits into (+) or out of (-) each account, which sum to zero."""

    key: str
    kind: str
    entries: tuple[tuple[AccountName, int], ...]
    at: datetime
    subject: str = ""
    corrects: int | None = None  # id of the transaction that this one corrects
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(self.entries))
        amounts = [amount for _, amount in self.entries]
        if not 2 <= len(amounts) <= MOST_ENTRIES or 0 in amounts or sum(amounts) != 0:
            raise BadPosting(f"{self.key}: entries {amounts[:20]} must be two or more, none zero, summing to zero")
        if any(type(amount) is not int or not -_LIMIT < amount < _LIMIT for amount in amounts):
            raise BadPosting(f"{self.key}: amounts must be whole micro-credits of 64 bits")
        if self.at.tzinfo is None:
            raise BadPosting(f"{self.key}: the time {self.at} has no time zone")
        _require_plain("key", self.key, 200)
        _require_plain("kind", self.kind, 40)
        if self.subject:
            _require_plain("subject", self.subject, 120)

    def as_row(self) -> list[Any]:
        """Return the posting as ledger_post reads it; see migrations/sql/post.sql."""
        microseconds = (self.at - _EPOCH) // timedelta(microseconds=1)
        entries = [[account.id, amount] for account, amount in self.entries]
        return [self.key, self.kind, self.subject, microseconds, self.corrects, dict(self.facts), entries]


def _require_plain(what: str, name: str, longest: int) -> None:
    if not _PLAIN.fullmatch(name) or len(name) > longest:
        raise BadPosting(f"{what} {name!r} must be 1 to {longest} printable characters, no blank, quote or backslash")


def batch_arguments(postings: Sequence[Posting]) -> tuple[str, str]:
    """Return the two JSON arguments of ledger_post: the postings, and what they add to each tenant's account."""
    deltas: dict[int, int] = {}
    for posting in postings:
        for account, amount in posting.entries:
            if account.tenant_id is not None:
                deltas[account.id] = deltas.get(account.id, 0) + amount
    rows = [posting.as_row() for posting in postings]
    return json.dumps(rows, allow_nan=False), json.dumps(deltas)


def settlement(
    *,
    key: str,
    tenant_id: int,
    parts: Mapping[AccountName, int],
    at: datetime,
    subject: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Posting:
    """Return a posting that pays the renting tenant's held money to those who lent. Parts of zero are left out."""
    credits = [(account, amount) for account, amount in sorted(parts.items()) if amount]
    if any(amount < 0 for _, amount in credits):
        raise BadPosting(f"{key}: a settlement pays, it never takes: {credits}")
    entries = ((held(tenant_id), -sum(amount for _, amount in credits)), *credits)
    return Posting(key=key, kind="settle", entries=entries, at=at, subject=subject, facts=facts or {})


@dataclass(frozen=True)
class Posted:
    key: str
    transaction_id: int
    repeated: bool  # the same posting was written before; nothing was written now


@dataclass(frozen=True)
class Shortage:
    account: AccountName
    balance: int
    needed: int


@dataclass(frozen=True)
class InsufficientFunds:
    """A refusal: nothing was written, because these accounts would have fallen below zero."""

    shortages: tuple[Shortage, ...]

    code = "insufficient_funds"

    def __str__(self) -> str:
        return "; ".join(f"{s.account} has {s.balance}, needs {s.needed}" for s in self.shortages)
