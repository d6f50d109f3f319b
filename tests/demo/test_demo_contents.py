"""What the demonstration holds once it is loaded."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from scheduling.audit.verification.settings import settings_verify
from scheduling.cluster import pool_overview
from scheduling.demo import content as demo_content
from scheduling.management.commands.demo import log_ins
from scheduling.market.elastic.read_prices import use_prices
from scheduling.market.view.frame import pool_frame
from scheduling.models import Pool
from tenants import history
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import available
from tenants.ledger.selectors import balance
from tenants.models import AuditEntry, Membership, StaffGrant, Tenant, User
from tenants.roles import STAFF_ROLES, TENANT_ROLES
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import NOON, tenant_quota
from tests.worlds import built_once

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("printed")]


def load() -> str:
    """What it says."""
    out = io.StringIO()
    with override_settings(DEVELOPMENT=True):
        call_command("demo", at=NOON, stdout=out)
    return out.getvalue()


printed = built_once(load)


def test_puts_cells_of_five_tenants_on_twelve_servers_of_the_main_pool() -> None:
    pool = Pool.objects.get(slug="main")
    overview = pool_overview(pool)
    assert (pool.slot_seconds, pool.epoch_at) == (10, NOON)
    assert (len(overview.servers), Tenant.objects.count()) == (12, 5)
    workers, ps = overview.totals
    assert (workers.units, workers.operator_units, sum(workers.units_by_tenant.values())) == (100, 21, 79)
    assert (ps.units, ps.operator_units, sum(ps.units_by_tenant.values())) == (28, 7, 21)
    lumen = Tenant.objects.get(slug="lumen-lab")
    with scope(lumen):
        assert tenant_quota(lumen, pool) == {"worker": 16, "ps": 4}


def test_has_an_elastic_pool_with_prices_beside_the_one_that_pages_open() -> None:
    first, elastic = Pool.objects.all()
    assert (first.slug, elastic.is_elastic, elastic.instant_policy) == ("main", True, None)
    assert use_prices(elastic, 0) == {"worker": 50_000, "ps": 20_000}
    workers, ps = pool_overview(elastic).totals
    assert (workers.units, ps.units, workers.operator_units) == (24, 12, 16)


def test_has_tenants_of_both_plans_and_verification_knows_why() -> None:
    pool = Pool.objects.get(slug="main")
    plans = [tenant.plan for tenant in pool_frame(pool).cluster.tenants]
    assert sorted(plans) == ["keep", "renew", "renew", "renew", "renew"]
    assert settings_verify() == []


def test_has_somebody_for_every_role_and_somebody_in_several_tenants() -> None:
    with scope(Tenant.objects.get(slug="lumen-lab")):
        assert set(Membership.objects.values_list("role", flat=True)) == set(TENANT_ROLES)
    assert set(StaffGrant.objects.values_list("role", flat=True)) == set(STAFF_ROLES)
    with scope_disabled("the test looks at all tenants"):
        tenants_of = Counter(Membership.objects.values_list("user__email", flat=True))
        owned = set(Membership.objects.filter(role="owner").values_list("tenant__slug", flat=True))
    assert max(tenants_of.values()) == 3
    assert owned == {tenant.slug for tenant in demo_content.TENANTS}
    assert all(user.check_password(demo_content.PASSWORD) for user in User.objects.all())


def test_prints_every_log_in(printed: str) -> None:
    assert "The demo is loaded." in printed
    assert log_ins() in printed
    assert all(user.email in printed for user in User.objects.all())
    assert printed.count(demo_content.PASSWORD) == 1


def test_is_told_by_the_history_and_the_history_holds() -> None:
    counted = Counter(AuditEntry.objects.values_list("action", flat=True))
    servers = [*demo_content.SERVERS, *demo_content.ELASTIC_SERVERS]
    owners_per_server = sum(len(server.cells) for server in servers)
    assert (counted["pool_create"], counted["server_add"], counted["cells_change"]) == (2, 15, owners_per_server)
    assert isinstance(history.verify(), history.VerifiedHistory)


def test_brings_credits_from_outside_to_every_tenant_and_the_book_adds_up() -> None:
    for wanted in demo_content.TENANTS:
        tenant = Tenant.objects.get(slug=wanted.slug)
        with scope(tenant):
            assert balance(account=available(tenant.pk)) == wanted.credits * MICRO
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(amount) FROM ledger_entry")
        assert cursor.fetchone() == (0,)
