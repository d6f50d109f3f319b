"""A question and its answer as one reader may see them: an auditor everybody, a tenant itself and others unnamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.models import OPEN_WORK, WhatIf
from scheduling.snapshots.frame import OPERATOR_ID
from tenants.models import Tenant

OTHERS_SEE = ("state", "phase", "start", "end", "workers", "ps", "paid")  # of a job, as on the chart of servers


@dataclass(frozen=True)
class JobRow:
    """`before`, `after`: state, reason, phase, start, end, workers, ps, paid, value, floor; of another tenant's job
    only what everybody sees of it. Amounts are credits."""

    job: int | None
    tenant: int | None
    label: str
    is_asked: bool
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True)
class TenantRow:
    """Gains of this interval. `promised`: by how much more the floors are worth of its jobs that go on waiting."""

    tenant: int | None
    label: str
    before: float | None
    after: float | None
    difference: float
    promised: float


@dataclass(frozen=True)
class PriceRow:
    """The highest posted price of the interval's windows."""

    resource: str
    before: float
    after: float


@dataclass(frozen=True)
class Result:
    interval: int
    is_whole: bool  # everybody is named
    jobs: tuple[JobRow, ...]
    tenants: tuple[TenantRow, ...]
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


def seen(row: WhatIf, *, is_whole: bool) -> WhatIfSeen:
    """Needs the scope of all tenants."""
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
        result=None if row.result is None else _result(row, is_whole=is_whole),
    )


def _result(row: WhatIf, *, is_whole: bool) -> Result:
    found: Mapping[str, Any] = row.result or {}
    names = dict(Tenant.objects.filter(pk__in={r["tenant"] for r in found["tenants"]}).values_list("pk", "name"))
    jobs = [r if is_whole or r["tenant"] == row.tenant_id else _unnamed(r) for r in found["jobs"]]
    tenants = [_tenant(r, row.tenant_id, names, is_whole=is_whole) for r in found["tenants"]]
    return Result(
        interval=row.interval.number,
        is_whole=is_whole,
        jobs=tuple(_job(r, row.job_id, place) for place, r in enumerate(jobs, 1)),
        tenants=tuple(tenants),
        prices=tuple(PriceRow(*price) for price in found["prices"]),
    )


def _unnamed(job: Mapping[str, Any]) -> dict[str, Any]:
    parts = {when: {name: job[when][name] for name in OTHERS_SEE} for when in ("before", "after")}
    return {"job": None, "tenant": None, **parts}


def _job(job: Mapping[str, Any], asked: int, place: int) -> JobRow:
    label = f"job {job['job']}" if job["job"] else f"another tenant's job ({place})"
    return JobRow(job["job"], job["tenant"], label, job["job"] == asked, job["before"], job["after"])


def _tenant(found: Mapping[str, Any], own: int, names: Mapping[int, str], *, is_whole: bool) -> TenantRow:
    """What another tenant gains by how much tells what its jobs are worth to it: only the difference is shown."""
    before, after, tenant = found["before"], found["after"], found["tenant"]
    difference, promised = after - before, found["promised_after"] - found["promised_before"]
    if is_whole or tenant in (own, OPERATOR_ID):
        label = "the operator" if tenant == OPERATOR_ID else names.get(tenant, f"tenant {tenant}")
        return TenantRow(tenant, label, before, after, difference, promised)
    return TenantRow(None, "another tenant", None, None, difference, promised)
