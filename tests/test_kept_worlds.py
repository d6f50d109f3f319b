"""Worlds that are put back: with the numbers of their rows, and of the rows that follow."""

from __future__ import annotations

import pytest
from django.test import TransactionTestCase

from tenants.models import Tenant
from tests.database import overrule
from tests.kept import built_or_put_back
from tests.tenants.builders import make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_rows_that_follow_have_larger_numbers_though_somebody_began_to_count_anew() -> None:
    built_or_put_back("a tenant", lambda: make_tenant("lumen"))
    first = Tenant.objects.get(slug="lumen").pk
    TransactionTestCase()._fixture_teardown()
    overrule("SELECT setval(pg_get_serial_sequence('tenants_tenant', 'id'), 1, false)")
    built_or_put_back("a tenant", lambda: make_tenant("never"))
    assert Tenant.objects.get().pk == first
    assert make_tenant("castor").pk == first + 1
