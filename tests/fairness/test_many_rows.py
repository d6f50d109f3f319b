"""Rows that are written as one document are those that were sent."""

from __future__ import annotations

from datetime import date

import pytest

from scheduling.fairness.many_rows import rows_insert
from scheduling.models import TenantDay
from tenants.scoping import ForeignTenant, scope, scope_disabled
from tests.scheduling.builders import make_pool, make_tenant

pytestmark = pytest.mark.django_db
FLOATS = (0.1 + 0.2, 5e-324, 1.7976931348623157e308, 123456789.12345679, -1 / 3)


def days(pool_id: int, tenant_ids: list[int], more: float) -> list[TenantDay]:
    """One row for each tenant."""
    at = {"pool_id": pool_id, "day": date(2026, 1, 31)}
    amounts = zip(tenant_ids, FLOATS, strict=True)
    return [TenantDay(tenant_id=one, gain=gain + more, sold={"gpu": 2.5}, **at) for one, gain in amounts]


def test_rows_read_back_exactly_and_are_written_over_where_they_may_be_there_once() -> None:
    pool, tenant_ids = make_pool(), [make_tenant(f"tenant-{number}").pk for number in range(len(FLOATS))]
    with scope_disabled("rows of several tenants"):
        for more in (0.0, 1.0):
            rows_insert(days(pool.pk, tenant_ids, more), once=("pool_id", "day", "tenant_id"))
            rows = TenantDay.objects.order_by("tenant_id").values_list("tenant_id", "gain", "sold", "day")
            wanted = days(pool.pk, tenant_ids, more)
            assert list(rows) == [(row.tenant_id, row.gain, row.sold, row.day) for row in wanted]


def test_rows_of_another_tenant_are_refused() -> None:
    pool, tenants = make_pool(), [make_tenant(f"tenant-{number}") for number in range(len(FLOATS))]
    with scope(tenants[0]), pytest.raises(ForeignTenant):
        rows_insert(days(pool.pk, [tenant.pk for tenant in tenants], 0.0))
