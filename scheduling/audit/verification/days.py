"""Verifying that the sums of fairness by day are those of the intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from django.db import DataError

from scheduling.audit.verification.findings import Finding, differences
from scheduling.common import one_moment
from scheduling.fairness import Day, days_added_up
from scheduling.models import PoolDay, TenantDay
from tenants.scoping import scope_disabled

UNREADABLE = (DataError, TypeError, ValueError, KeyError, AttributeError)  # from figures that somebody changed


@dataclass(frozen=True)
class DaysDone:
    """The outcome for some days. `last` is the last day that was verified, or None where there was none. `is_last` says
    that there are no more."""

    days: int
    last: date | None
    is_last: bool
    findings: tuple[Finding, ...]


def days_verify(*, pool_ids: Sequence[int]) -> tuple[Finding, ...]:
    """Name every sum by day that is not the sum of its rows."""
    days = [days_on(pool_id) for pool_id in pool_ids]
    return tuple(finding for done in days for finding in done.findings)


def days_on(pool_id: int, *, after: date = date.min, enough: Callable[[], bool] = lambda: False) -> DaysDone:
    """Verify the days after `after`, until `enough` says so, as they were at one moment: the market adds to the last
    day."""
    looked = _Looked(pool_id, after)
    try:
        with one_moment(), scope_disabled("a day is that of all tenants of a pool"):
            is_last = looked.go_on(enough)
    except UNREADABLE as error:
        what = f"its figures after {looked.last} cannot be added up ({type(error).__name__}: {error})"
        looked.findings.append(Finding(f"fairness of pool {pool_id}", what))
        is_last = True
    return DaysDone(looked.days, None if looked.last == date.min else looked.last, is_last, tuple(looked.findings))


@dataclass
class _Looked:
    pool_id: int
    last: date
    days: int = 0
    findings: list[Finding] = field(default_factory=list)

    def go_on(self, enough: Callable[[], bool]) -> bool:
        """Verify the next days. Return whether there are no more."""
        stored = {day.day: day for day in PoolDay.objects.filter(pool=self.pool_id, day__gt=self.last)}
        for right in days_added_up(self.pool_id, after=self.last):
            self.findings += _day_verify(right, stored.pop(right.whole.day, None))
            self.days, self.last = self.days + 1, right.whole.day
            if enough():
                self._without_intervals(day for day in stored if day < self.last)
                return False
        self._without_intervals(stored)
        return True

    def _without_intervals(self, days: Iterable[date]) -> None:
        where = f"fairness of pool {self.pool_id} on"
        self.findings += [Finding(f"{where} {day}", "no interval was decided then") for day in days]


def _day_verify(right: Day, pool_day: PoolDay | None) -> Iterator[Finding]:
    pool_id, day = right.whole.pool_id, right.whole.day
    where = f"fairness of pool {pool_id} on {day}"
    if pool_day is None:
        yield Finding(where, "its sums are missing")
        return
    yield from differences(where, _pairs(pool_day, right.whole))
    rows = {row.tenant_id: row for row in TenantDay.objects.filter(pool=pool_id, day=day)}
    for tenant_id, sums in right.tenants.items():
        about, row = f"{where}, tenant {tenant_id}", rows.pop(tenant_id, None)
        yield from [Finding(about, "its sums are missing")] if row is None else differences(about, _pairs(row, sums))
    yield from (Finding(f"{where}, tenant {tenant_id}", "took no part") for tenant_id in rows)


def _pairs(stored: PoolDay | TenantDay, right: PoolDay | TenantDay) -> dict[str, tuple[object, object]]:
    names = [column.attname for column in stored._meta.concrete_fields if column.name != "id"]
    return {name: (getattr(stored, name), getattr(right, name)) for name in names}
