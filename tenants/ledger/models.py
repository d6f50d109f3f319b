"""The tables of the book. Only this package uses them; all other code calls services and selectors.

What Django can declare is declared here. The rest (append-only, balance at commit, the running balances) is in
`migrations/sql/` as triggers, so that it also holds for raw SQL.
"""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import or_

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from tenants.models import Tenant


class AccountKind(models.TextChoices):
    AVAILABLE = "available"
    HELD = "held"
    EARNED = "earned"
    OPERATOR = "operator"
    OUTSIDE = "outside"


# An account's id gives its owner and kind: 8 * tenant id + offset. So a tenant's account is found without a look-up and
# cannot be given to another tenant; ids below 8 are the house's own. ledger_account_id_names_owner enforces it.
TENANT_OFFSETS = {AccountKind.AVAILABLE: 0, AccountKind.HELD: 1, AccountKind.EARNED: 2}
HOUSE_IDS = {AccountKind.OPERATOR: 1, AccountKind.OUTSIDE: 2}
IDS_PER_TENANT = 8

# Printable characters that JSON does not escape: the digest is computed over JSON text that is built by concatenation.
PLAIN = r"^[!#-[\]-~]+$"


def _id_names_owner() -> Q:
    # A CHECK lets NULL pass, so the condition must itself be false for a missing tenant.
    owned = [
        Q(tenant__isnull=False, kind=kind, id=F("tenant") * IDS_PER_TENANT + offset)
        for kind, offset in TENANT_OFFSETS.items()
    ]
    house = [Q(kind=kind, id=number, tenant__isnull=True) for kind, number in HOUSE_IDS.items()]
    return reduce(or_, [*owned, *house])


class Account(models.Model):
    """The owner and kind of a balance. It has no amount: amounts are sums over entries."""

    id = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=16, choices=AccountKind.choices)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=_id_names_owner(), name="ledger_account_id_names_owner"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of tenant {self.tenant_id}" if self.tenant_id else str(self.kind)


class Transaction(models.Model):
    """One posting: entries that sum to zero, under a key that can be used once."""

    key = models.CharField(max_length=200, db_collation="C")
    kind = models.CharField(max_length=40)
    # What the money is about (a job, an interval), so that one index look-up finds one job's postings.
    subject = models.CharField(max_length=120, blank=True, default="", db_collation="C")
    occurred_at = models.DateTimeField()
    corrects = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, related_name="corrections", db_index=False
    )
    facts = models.JSONField(default=dict)
    # Set when the transaction is written: its lines are 0 .. entry_count-1, and there is never another one.
    entry_count = models.PositiveSmallIntegerField()
    digest = models.BinaryField(max_length=32)

    class Meta:
        indexes = [
            models.Index(fields=["subject", "id"], condition=~Q(subject=""), name="ledger_transaction_subject"),
            models.Index(fields=["corrects"], condition=Q(corrects__isnull=False), name="ledger_transaction_corrects"),
            # Finds the few among very many holds and settlements: money paid in, returned or corrected (`movements`).
            models.Index(
                fields=["occurred_at", "id"],
                condition=~Q(kind__in=["hold", "settle"]),
                name="ledger_transaction_other",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["key"], name="ledger_transaction_key_once"),
            models.CheckConstraint(condition=Q(entry_count__gte=2), name="ledger_transaction_two_entries"),
            models.CheckConstraint(
                condition=Q(key__regex=PLAIN) & Q(kind__regex=PLAIN), name="ledger_transaction_plain_names"
            ),
            models.CheckConstraint(
                condition=Q(subject="") | Q(subject__regex=PLAIN), name="ledger_transaction_plain_subject"
            ),
            models.CheckConstraint(condition=Q(corrects__lt=F("id")), name="ledger_transaction_corrects_earlier"),
        ]

    def __str__(self) -> str:
        return self.key


class Entry(models.Model):
    """One line of a transaction: micro-credits into (+) or out of (-) one account."""

    pk = models.CompositePrimaryKey("transaction_id", "line")
    # The busiest table has no foreign-key triggers: the trigger on entries checks the transaction, the key of the day
    # totals checks the account, and neither can ever be deleted (decision 0010 has the figures).
    transaction = models.ForeignKey(
        Transaction, on_delete=models.PROTECT, related_name="entries", db_index=False, db_constraint=False
    )
    line = models.PositiveSmallIntegerField()
    account = models.ForeignKey(
        Account, on_delete=models.PROTECT, related_name="entries", db_index=False, db_constraint=False
    )
    amount = models.BigIntegerField()
    # The transaction's time is repeated here, so that a statement reads one index range of its account.
    occurred_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "entries"
        indexes = [
            models.Index(fields=["account", "occurred_at", "transaction", "line"], name="ledger_entry_statement")
        ]
        constraints = [models.CheckConstraint(condition=~Q(amount=0), name="ledger_entry_not_zero")]

    def __str__(self) -> str:
        return f"{self.transaction_id}.{self.line}"


class Balance(models.Model):
    """The running balance. Only the trigger on entries changes it, in the transaction that writes them.

    An account that may not fall below zero has one row (stripe 0), and its row lock is the account's lock. The house's
    own accounts, into which everybody pays, have several rows (stripes) so that writers do not queue; their balance is
    the sum of the stripes.
    """

    pk = models.CompositePrimaryKey("account_id", "stripe")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="balances", db_index=False)
    stripe = models.PositiveSmallIntegerField()
    guarded = models.BooleanField()
    amount = models.BigIntegerField(default=0)
    entry_count = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(guarded=False) | Q(amount__gte=0, stripe=0), name="ledger_balance_not_negative"
            )
        ]

    def __str__(self) -> str:
        return f"{self.account_id}/{self.stripe}"


class DayTotal(models.Model):
    """What one UTC day added to an account. With it the opening balance of a period needs no years of entries."""

    pk = models.CompositePrimaryKey("account_id", "day", "stripe")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="day_totals", db_index=False)
    day = models.DateField()
    stripe = models.PositiveSmallIntegerField()
    amount = models.BigIntegerField()
    entry_count = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.account_id} on {self.day}"


def _texts() -> ArrayField[list[str], list[str]]:
    return ArrayField(models.TextField())


def _numbers() -> ArrayField[list[int], list[int]]:
    return ArrayField(models.BigIntegerField())


def _times() -> ArrayField[list[datetime], list[datetime]]:
    return ArrayField(models.DateTimeField())


class DaySheet(models.Model):
    """What one UTC day moved for a tenant, in sums, which a statement reads instead of the entries.

    It is made once the day is over, and a trigger fills it from the book alone (`migrations/sql/sheets.sql`). It is
    valid while the day totals count as many `entries`; otherwise the day is read from the book, and the sheet is made
    anew.

    Columns with one prefix have the same length. `kind_` columns have by kind of transaction what moved on each
    account. `paid_` columns have by subject and kind what rent moved on available and held. `other_subjects` are the
    other subjects for which these two moved. `earned_` columns have by award (or none) and kind what rent brought in.
    """

    pk = models.CompositePrimaryKey("tenant_id", "day")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    day = models.DateField()
    entries = models.BigIntegerField()
    kind_names = _texts()
    kind_payments = _numbers()
    kind_available = _numbers()
    kind_held = _numbers()
    kind_earned = _numbers()
    paid_subjects = _texts()
    paid_kinds = _texts()
    paid_payments = _numbers()
    paid_available = _numbers()
    paid_held = _numbers()
    paid_last_at = _times()
    other_subjects = _texts()
    earned_awards = _numbers()
    earned_kinds = _texts()
    earned_payments = _numbers()
    earned_first_slots = _numbers()
    earned_last_slots = _numbers()
    earned_amounts = _numbers()
    earned_first_at = _times()

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} on {self.day}"


class Seal(models.Model):
    """A closed block of transactions, from after the last block up to `last_transaction_id`, chained to that block.

    `members` is, per transaction in id order, 8 bytes of id and 32 bytes of digest. `heads` is where the other chains
    ended when the seal was made: by each chain's name [its length, the digest of its last link]. A seal without members
    was made for the heads alone. `digest` is SHA-256 of the previous digest, the number, the time (microseconds), the
    members and, if there are any, the SHA-256 of the heads.
    """

    number = models.BigIntegerField(primary_key=True)
    last_transaction_id = models.BigIntegerField(db_index=True)
    sealed_at = models.DateTimeField()
    members = models.BinaryField()
    heads = models.JSONField(null=True)
    digest = models.BinaryField(max_length=32)

    class Meta:
        ordering = ["number"]

    def __str__(self) -> str:
        return f"seal {self.number}"


class SealHead(models.Model):
    """The end of the chain of seals: one row that the database updates with every seal. It shows if seals
    were cut off."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    number = models.BigIntegerField()
    digest = models.BinaryField(max_length=32)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="ledger_sealhead_single")]

    def __str__(self) -> str:
        return f"seal {self.number}"
