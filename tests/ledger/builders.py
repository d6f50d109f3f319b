"""A small book for a test: tenants with money, and ways to write past the rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tenants.ledger.postings import OPERATOR, OUTSIDE, AccountName, Posted, available, earned, held
from tenants.ledger.services import hold, post, settle
from tenants.models import Tenant
from tests.database import run, without_triggers

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def make_tenant(slug: str = "lumen", *, funds: int = 0) -> int:
    tenant = Tenant.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]
    if funds:
        grant(tenant.pk, funds, key=f"grant:{slug}")
    return tenant.pk


def grant(tenant_id: int, amount: int, *, key: str, at: datetime = NOON) -> Posted:
    return accepted(post(key=key, kind="grant", entries=[(OUTSIDE, -amount), (available(tenant_id), amount)], at=at))


def accepted(answer: object) -> Posted:
    assert isinstance(answer, Posted), answer
    return answer


def make_book() -> tuple[int, int]:
    """Create a book of two tenants by five transactions, with all cached figures in use. The first rents from the
    second."""
    renter, owner = make_tenant("renter", funds=1_000), make_tenant("owner", funds=500)
    accepted(hold(key="hold:j1", tenant_id=renter, amount=300, at=NOON, subject="job:1"))
    for slot in range(2):
        parts = {earned(owner): 90, OPERATOR: 10}
        accepted(settle(key=f"slot:{slot}", tenant_id=renter, parts=parts, at=NOON, subject="job:1"))
    commit_checks()
    return renter, owner


def commit_checks() -> None:
    """Run what waits for the commit, which a test in an open transaction never reaches."""
    run("SET CONSTRAINTS ALL IMMEDIATE")
    run("SET CONSTRAINTS ALL DEFERRED")


def tamper(sql: str, parameters: Sequence[Any] | None = None) -> None:
    """Execute a statement as somebody who may switch the triggers off."""
    with without_triggers():
        run(sql, parameters)


def all_accounts(*tenant_ids: int) -> list[AccountName]:
    owned = [name(tenant_id) for tenant_id in tenant_ids for name in (available, held, earned)]
    return [*owned, OPERATOR, OUTSIDE]
