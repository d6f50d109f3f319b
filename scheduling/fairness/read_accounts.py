"""One interval's fairness as pages read it, in frozen values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

from scheduling.core.settlement import split_exactly
from scheduling.models import Interval, IntervalFairness, TenantFairness
from tenants.ledger.amounts import micro

Source = TypeVar("Source")
Row = TypeVar("Row")

MOST_SHOWN = 30  # rows of one list on a page; programs get all of them


@dataclass(frozen=True)
class TenantAccount:
    name: str
    slug: str
    row: TenantFairness
    revenue: float

    @property
    def part_of_gains(self) -> float | None:
        return self.row.gain / self.revenue if self.revenue > 0 else None

    def __getattr__(self, name: str) -> Any:
        """Return the figures themselves, as a table reads them."""
        if name == "row":
            raise AttributeError(name)
        return getattr(self.row, name)


@dataclass(frozen=True)
class CertificateRow:
    """A certificate of the interval, with its arithmetic: got = value - paid, compared with alone."""

    job: int
    tenant_id: int
    tenant: str
    slug: str
    served: bool
    elapsed: float | None  # slots from the job's arrival to its end
    value: float
    paid: float
    got: float
    alone: float | None  # None where it is reached: then it is not worked out
    broken: str

    @property
    def got_shown(self) -> int:
        """Return what it got, in micro-credits that a reader gets by taking what is shown as paid from the value."""
        return micro(self.value) - micro(self.paid)

    @property
    def margin_shown(self) -> int | None:
        """Return in the same way how much more than alone that is."""
        return None if self.alone is None else self.got_shown - micro(self.alone)


@dataclass(frozen=True)
class RentPayment:
    """The payment of one job for its rent: the gross price, the part that its tenant owed itself, and who gets the
    rest. What comes back of an open rent when it is settled is a payment below zero, over the slots of the rent."""

    job: int
    tenant_id: int
    tenant: str
    start: int
    end: int
    cost: float
    paid: float
    parts: tuple[tuple[str, float], ...]
    dividend: float = 0.0  # part of `paid`: a share of what renting gained

    @property
    def is_refund(self) -> bool:
        return self.paid < 0

    @property
    def own_part(self) -> float:
        return self.cost - (self.paid - self.dividend)

    @property
    def own_part_shown(self) -> int:
        """Return the own part, in micro-credits that a reader gets from what is shown of the price and as paid."""
        return micro(self.cost) - (micro(self.paid) - micro(self.dividend))

    @property
    def parts_shown(self) -> tuple[tuple[str, int], ...]:
        """Return the parts in micro-credits that add up to what is shown as paid; to their own sum if that differs."""
        whole = self.paid if micro(self.difference) == 0 else sum(amount for _, amount in self.parts)
        sizes = split_exactly(micro(whole), [abs(amount) for _, amount in self.parts]) if self.parts else ()
        return tuple((name, size) for (name, _), size in zip(self.parts, sizes, strict=True))

    @property
    def difference(self) -> float:
        return self.paid - sum(amount for _, amount in self.parts)


class RowsMade(Sequence[Row], Generic[Source, Row]):
    """Rows that are each made only when read: a page shows thirty of ten thousand."""

    def __init__(self, sources: Sequence[Source], make: Callable[[Source], Row]) -> None:
        self._sources, self._make = sources, make

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        if isinstance(place, slice):
            return tuple(map(self._make, self._sources[place]))
        return self._make(self._sources[place])


@dataclass(frozen=True)
class IntervalAccount:
    """An interval's fairness. `fairness` is None where it is not worked out yet. `readable` is False where the stored
    bytes were changed; verification names them. `jobs` has broken certificates first. `without_refunds` means that its
    figures are of a version before, and that something came back of open rents that they do not take off.
    `whole_in_each_slot` means that those of an elastic pool are of a version that counted a whole job in each of its
    slots."""

    interval: Interval
    fairness: IntervalFairness | None
    policy: str
    tenants: tuple[TenantAccount, ...]
    jobs: Sequence[CertificateRow]
    payments: Sequence[RentPayment]
    readable: bool
    without_refunds: bool
    whole_in_each_slot: bool
    before: int | None
    after: int | None

    @cached_property
    def jobs_shown(self) -> Sequence[CertificateRow]:
        return self.jobs[:MOST_SHOWN]

    @cached_property
    def payments_shown(self) -> Sequence[RentPayment]:
        return self.payments[:MOST_SHOWN]

    @property
    def gains(self) -> float:
        return sum(one.row.gain for one in self.tenants)

    @property
    def operator_part(self) -> float:
        """Return what tenants paid and no tenant received."""
        return sum(one.row.paid - one.row.received for one in self.tenants)

    @property
    def out_of_sum(self) -> float:
        """Return all gains and the operator's part, less all value: 0 but for the last digits of floats."""
        revenue = self.fairness.revenue if self.fairness else 0.0
        return self.gains + self.operator_part - revenue
