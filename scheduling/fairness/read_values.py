"""Fairness over some days as pages read it, in frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from scheduling.core.metrics.period import PeriodSpread, period_ratio, period_reward
from scheduling.models import PoolDay
from tenants.ledger.amounts import micro


@dataclass(frozen=True)
class TenantPeriod:
    """One tenant over the days. Amounts are credits; units are unit-slots by resource."""

    tenant_id: int
    name: str
    slug: str
    own_value: float
    rented_value: float
    paid: float
    received: float
    gain: float
    alone: float
    even: float
    earned: float
    contributed: float
    forgone: float
    rent_saved: float
    waiting: int
    broken: int
    offered: Mapping[str, float]
    sold: Mapping[str, float]
    kept: Mapping[str, float]
    by_day: Mapping[date, float | None]  # the ratio of each day
    revenue: float  # that of all tenants

    @property
    def gain_shown(self) -> int:
        """Return the gain in micro-credits that a reader gets by adding up its four parts as they are shown."""
        return micro(self.own_value) + micro(self.rented_value) - micro(self.paid) + micro(self.received)

    @property
    def ratio(self) -> float | None:
        return period_ratio(self.gain, self.even)

    @property
    def reward(self) -> float | None:
        return period_reward(self.earned, self.contributed)

    @property
    def part_of_gains(self) -> float | None:
        return self.gain / self.revenue if self.revenue > 0 else None

    @property
    def part_of_cells(self) -> float | None:
        return self.even / self.revenue if self.revenue > 0 else None

    @property
    def against_alone(self) -> float | None:
        return self.gain / self.alone if self.alone > 0 else None

    @property
    def offered_units(self) -> float:
        return sum(self.offered.values())

    @property
    def sold_units(self) -> float:
        return sum(self.sold.values())

    @property
    def kept_units(self) -> float:
        return sum(self.kept.values())

    @property
    def sold_part(self) -> float | None:
        return self.sold_units / self.offered_units if self.offered_units > 0 else None

    @property
    def lowest(self) -> float | None:
        return min((ratio for ratio in self.by_day.values() if ratio is not None), default=None)

    @property
    def highest(self) -> float | None:
        return max((ratio for ratio in self.by_day.values() if ratio is not None), default=None)


@dataclass(frozen=True)
class MarketHealth:
    """Counts of intervals. `waiting_for` maps each reason to the jobs that waited while units stayed unsold, summed by
    interval."""

    intervals: int
    with_renters: int
    one_bidder: int
    price_jumps: int
    waiting: int
    idle_beside_waiting: int
    waiting_for: Mapping[str, int]
    unsold: Mapping[str, float]
    highest: Mapping[str, float]

    @property
    def one_bidder_part(self) -> float | None:
        return self.one_bidder / self.with_renters if self.with_renters else None

    @property
    def idle_beside_waiting_part(self) -> float | None:
        return self.idle_beside_waiting / self.intervals if self.intervals else None


@dataclass(frozen=True)
class Overview:
    """A pool over some days. `behind` counts closed intervals whose figures are not worked out yet. `before` is about
    the same number of days earlier."""

    first: date
    last: date
    days: tuple[PoolDay, ...]
    tenants: tuple[TenantPeriod, ...]  # the highest ratio first, those without one last
    spread: PeriodSpread
    before: PeriodSpread
    health: MarketHealth
    certificates: int
    broken: int
    broken_intervals: int
    revenue: float
    behind: int

    @property
    def worst_off(self) -> TenantPeriod | None:
        return next((one for one in self.tenants if one.tenant_id == self.spread.worst_off), None)

    @property
    def with_ratio(self) -> tuple[TenantPeriod, ...]:
        return tuple(one for one in self.tenants if one.ratio is not None)

    def tenant(self, tenant_id: int) -> TenantPeriod | None:
        return next((one for one in self.tenants if one.tenant_id == tenant_id), None)

    def sum_of(self, name: str) -> float:
        return sum(getattr(one, name) for one in self.tenants)


def units_by_resource(one: TenantPeriod) -> tuple[tuple[str, float, float, float], ...]:
    """Return rows of (resource, offered, sold, kept)."""
    names = sorted(one.offered.keys() | one.sold.keys() | one.kept.keys())
    return tuple((name, one.offered.get(name, 0.0), one.sold.get(name, 0.0), one.kept.get(name, 0.0)) for name in names)
