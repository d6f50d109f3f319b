"""Awards of older versions name owners and amounts in lists: everything goes on with them as it does with bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from scheduling.audit.verification import intervals_verify
from scheduling.cluster import pool_overview
from scheduling.jobs.cancellation import job_cancel
from scheduling.market.reads.bookings import bookings_between
from scheduling.market.reads.share import share_view
from scheduling.models import Award, Server, TrainingJob
from tenants.ledger import audit
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.ledger.builders import tamper
from tests.scheduling.clocks import advance, contested, everything, moment
from tests.scheduling.live import member, money

pytestmark = pytest.mark.django_db


def as_older() -> int:
    """Write every award as a version before wrote it; return how many cost anything."""
    with scope_disabled("the test rewrites all awards"):
        rows = [(json.dumps(award.charges), award.pk, award.paid) for award in Award.objects.all()]
    for charges, number, _ in rows:
        stored = "UPDATE scheduling_award SET owners = NULL, amounts = NULL, charges = %s WHERE id = %s"
        tamper(stored, [charges, number])
    return sum(paid > 0 for *_, paid in rows)


def both_ways(do: Callable[[], Any]) -> tuple[Any, Any]:
    """Do something with awards as they are, take it back, and do it with awards of an older version."""
    with transaction.atomic():
        now = do()
        transaction.set_rollback(True)
    assert as_older()
    return now, do()


@pytest.mark.one_case
@pytest.mark.parametrize("slot", [5, 6, 7])
def test_a_market_goes_on_alike(slot: int) -> None:
    pool, tenants = contested()
    advance(pool, slot)

    def go_on() -> object:
        for later in range(slot + 1, 41):
            advance(pool, later)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert audit.verify().is_clean
        with scope_disabled("the test verifies all"):
            assert intervals_verify(pool_ids=[pool.pk]).findings == ()
        return everything(), [money(tenant) for tenant in tenants]

    now, older = both_ways(go_on)
    assert older == now


def test_cancelled_awards_cost_and_return_the_same() -> None:
    pool, tenants = contested()
    tamper("UPDATE scheduling_pool SET cancellation_keep_percent = 50")
    advance(pool, 5)
    with scope_disabled("the test looks for awards"):
        paying = [award.job for award in Award.objects.filter(paid__gt=0).select_related("job__tenant").order_by("pk")]

    def cancel() -> object:
        for job in paying:
            with scope(job.tenant):
                job_cancel(job_id=job.pk, by=member(job.tenant), at=moment(pool, 5.5))
        advance(pool, 30)
        return everything(), [money(tenant) for tenant in tenants]

    now, older = both_ways(cancel)
    assert older == now


def test_pages_show_the_same() -> None:
    pool, tenants = contested()
    advance(pool, 6)
    servers = list(Server.objects.values_list("pk", flat=True))

    def page_views(tenant: Tenant) -> object:
        with scope(tenant):
            share = share_view(tenant=tenant, pool=pool, at=moment(pool, 6.5), money=True, overview=pool_overview(pool))
            return share, bookings_between(tenant=tenant, pool=pool, first=0, last=20, home=servers)

    now, older = both_ways(lambda: [repr(page_views(tenant)) for tenant in tenants])
    assert older == now
    assert "lent" in now[1]


def test_nobody_takes_a_row_that_says_nothing_for_one_that_costs_nothing() -> None:
    pool, _ = contested()
    advance(pool, 6)
    with scope_disabled("the test empties an award"):
        award = Award.objects.filter(paid__gt=0).first()
        assert award is not None
        tamper("UPDATE scheduling_award SET owners = NULL, amounts = NULL, charges = NULL WHERE id = %s", [award.pk])
        lines = [f"{finding.where}: {finding.what}" for finding in intervals_verify(pool_ids=[pool.pk]).findings]
        assert TrainingJob.objects.filter(pk=award.job_id).exists()
    assert any(
        line.startswith(f"award {award.pk} of job {award.job_id}: what its slots cost cannot be read") for line in lines
    )
