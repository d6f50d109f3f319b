"""A question and its answer as one reader may see them: an auditor sees everybody, a tenant sees itself and others
without names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.market.view import OPERATOR_ID
from scheduling.models import OPEN_WORK, WhatIf
from tenants.access import Access
from tenants.models import Tenant
from tenants.roles import Permission

OTHERS_SEE = ("state", "phase", "start", "end", "workers", "ps", "paid")  # parts of a job, as on the chart of servers


@dataclass(frozen=True)
class SeenJob:
    """A job before and after: state, reason, phase, start, end, workers, ps, paid, value, floor. Of another tenant's
    job there is only what everybody sees of it. Amounts are credits."""

    job: int | None
    tenant: int | None
    label: str
    is_asked: bool
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True)
class SeenTenant:
    """A tenant's gains in this interval, or None where the reader may not see them.

    `promised` is how much more the floors are worth of its jobs that keep waiting.
    """

    tenant: int | None
    label: str
    before: float | None
    after: float | None
    difference: float
    promised: float


@dataclass(frozen=True)
class PriceRow:
    """The highest posted price of a resource in the interval's windows, before and after."""

    resource: str
    before: float
    after: float


@dataclass(frozen=True)
class Result:
    interval: int
    is_whole: bool  # whether everybody is named
    jobs: tuple[SeenJob, ...]
    tenants: tuple[SeenTenant, ...]
    prices: tuple[PriceRow, ...]


@dataclass(frozen=True)
class WhatIfSeen:
    id: int
    pool_id: int
    number: int
    job_id: int
    tenant_id: int
    field: str
    said: Any
    instead: Any
    state: str
    done: int
    of: int
    code: str
    sentence: str
    asked_at: datetime
    expires_at: datetime
    result: Result | None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_WORK


@dataclass(frozen=True)
class _Eyes:
    """The rights of the reader: what it may see."""

    is_whole: bool
    money: bool  # whether it may see what its own tenant gains
    names: Mapping[int, str]


def view_of(row: WhatIf, by: Access) -> WhatIfSeen:
    """Return one question as the reader may see it. Needs the scope of all tenants."""
    return seen_all([row], by)[0]


def seen_all(rows: Iterable[WhatIf], by: Access) -> tuple[WhatIfSeen, ...]:
    """Return questions as the reader may see them, with one query for all names. Needs the scope of all tenants."""
    rows_seen = list(rows)
    ids = {each["tenant"] for row in rows_seen for each in (row.result or {}).get("tenants", ())}
    names = dict(Tenant.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}
    eyes = _Eyes(by.allows(Permission.FAIRNESS_VIEW), by.allows(Permission.LEDGER_VIEW), names)
    return tuple(_view(row, eyes) for row in rows_seen)


def _view(row: WhatIf, eyes: _Eyes) -> WhatIfSeen:
    return WhatIfSeen(
        id=row.pk,
        pool_id=row.interval.pool_id,
        number=row.interval.number,
        job_id=row.job_id,
        tenant_id=row.tenant_id,
        field=row.field,
        said=row.said,
        instead=row.instead,
        state=row.state,
        done=row.done,
        of=row.total,
        code=row.code,
        sentence=row.sentence,
        asked_at=row.asked_at,
        expires_at=row.expires_at,
        result=None if row.result is None else _result(row, eyes),
    )


def _result(row: WhatIf, eyes: _Eyes) -> Result:
    result: Mapping[str, Any] = row.result or {}
    jobs = [r if eyes.is_whole or r["tenant"] == row.tenant_id else _unnamed(r) for r in result["jobs"]]
    return Result(
        interval=row.interval.number,
        is_whole=eyes.is_whole,
        jobs=tuple(_job(r, row.job_id, place) for place, r in enumerate(jobs, 1)),
        tenants=tuple(_tenant(r, row.tenant_id, eyes) for r in result["tenants"]),
        prices=tuple(PriceRow(*price) for price in result["prices"]),
    )


def _unnamed(job: Mapping[str, Any]) -> dict[str, Any]:
    parts = {when: {name: job[when][name] for name in OTHERS_SEE} for when in ("before", "after")}
    return {"job": None, "tenant": None, **parts}


def _job(job: Mapping[str, Any], number: int, place: int) -> SeenJob:
    label = f"job {job['job']}" if job["job"] else f"another tenant's job ({place})"
    return SeenJob(job["job"], job["tenant"], label, job["job"] == number, job["before"], job["after"])


def _tenant(row: Mapping[str, Any], own: int, eyes: _Eyes) -> SeenTenant:
    """Return the row of a tenant. Its gains would reveal what another tenant's jobs are worth to it, so of others only
    the difference is shown."""
    before, after, tenant = row["before"], row["after"], row["tenant"]
    difference, promised = after - before, row["promised_after"] - row["promised_before"]
    if not eyes.is_whole and tenant not in (own, OPERATOR_ID):
        return SeenTenant(None, "another tenant", None, None, difference, promised)
    label = "the operator" if tenant == OPERATOR_ID else eyes.names.get(tenant, f"tenant {tenant}")
    if not eyes.money and tenant == own:
        return SeenTenant(tenant, label, None, None, difference, promised)
    return SeenTenant(tenant, label, before, after, difference, promised)
