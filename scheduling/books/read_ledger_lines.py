"""The values that the ledger page shows: lines, grouped by the interval they are about, with balances before and
after."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduling.market.reads import period_money, total
from scheduling.models import Pool
from tenants.ledger.amounts import adding_up
from tenants.ledger.movements import Outside, Position
from tenants.ledger.postings import TenantBalances


@dataclass(frozen=True)
class LedgerRow:
    """One line of the page: one transaction, or several of one sort in one interval. `at` is the time of the newest."""

    at: datetime
    slot: int | None
    text: str  # has {job} in place of the job's name
    job_id: int | None
    job_name: str
    count: int
    transaction_id: int
    kind: str
    available: int
    held: int
    earned: int
    balance: int | None  # the balance after it; None where a filter leaves transactions out

    @property
    def total(self) -> int:
        return self.available + self.held + self.earned

    @property
    def words(self) -> tuple[str, str]:
        """The text before the job's name, and the text after it."""
        before, _, after = self.text.partition("{job}")
        return before, after


@dataclass(frozen=True)
class LedgerGroup:
    """The lines about one interval. `number` is None for lines that are about no interval, and for those about slots of
    an elastic pool, each of which is decided by itself."""

    number: int | None
    pool: Pool | None
    starts_at: datetime | None
    ends_at: datetime | None
    rows: tuple[LedgerRow, ...]

    @property
    def earned(self) -> int:
        """What was earned by lending, less what renters got back, as the lead of the page counts it. What leaves the
        account "earned" to be spent, or to be paid out, was earned before."""
        return sum(row.earned for row in self.rows if row.kind in ("settle", "cancel", "refund", "release"))

    @property
    def spent(self) -> int:
        """What was spent for good: rent, and what owners keep of a cancelled rent."""
        moved = [row.available + row.held for row in self.rows if row.kind in ("settle", "cancel")]
        return -sum(moved)


@dataclass(frozen=True)
class LedgerView:
    now: TenantBalances
    opening: TenantBalances
    closing: TenantBalances
    outside: Outside
    groups: tuple[LedgerGroup, ...]
    on_page: TenantBalances  # sums of the rows on this page
    newer: bool  # this is not the first page
    next: Position | None
    flat: bool = False  # sorted by anything else than time: rows are not grouped, and have no balance
    cut: bool = False  # there are more rows than were requested

    @property
    def opened(self) -> int:
        return total(self.opening)

    @property
    def closed(self) -> int:
        return total(self.closing)

    @property
    def digits(self) -> int:
        """The number of digits with which opening, movements and closing add up as shown."""
        return adding_up((self.opened, self.paid_in, self.earned, -self.spent, -self.closed))

    @property
    def digits_now(self) -> int:
        """The number of digits with which the three balances add up as shown."""
        return adding_up((self.now.available, self.now.held, self.now.earned, -self.together))

    @property
    def together(self) -> int:
        return total(self.now)

    @property
    def earned(self) -> int:
        return period_money(self.opening, self.closing, self.outside).earned

    @property
    def paid_in(self) -> int:
        return self.outside.paid_in

    @property
    def spent(self) -> int:
        return period_money(self.opening, self.closing, self.outside).spent
