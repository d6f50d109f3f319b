"""A read that was put into SQL once finds what the ORM finds, in the scope that is open and in no other."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenants.models import Membership
from tenants.repeated import RepeatedRead
from tenants.roles import OWNER, VIEWER
from tenants.scoping import ScopeClosed, scope, scope_disabled
from tests.tenants.builders import make_member, make_tenant

pytestmark = pytest.mark.django_db


def of_role(role: str) -> object:
    return Membership.objects.select_related("tenant", "user").filter(role=role).order_by("pk")


def test_it_finds_the_rows_of_the_open_tenant_alone_with_what_belongs_to_them() -> None:
    read = RepeatedRead(of_role, scoped=True, role="an example")
    one, two = make_member(make_tenant("one"), OWNER), make_member(make_tenant("two"), OWNER)
    viewer = make_member(two.tenant, VIEWER)
    with pytest.raises(ScopeClosed):
        read(role=OWNER)
    for tenant, role, expected in ((one.tenant, OWNER, [one]), (two.tenant, OWNER, [two]), (one.tenant, VIEWER, [])):
        with scope(tenant):
            assert read(role=role) == expected
    with scope_disabled("the test looks at both"):
        assert read(role=OWNER) == [one, two]
    with scope(two.tenant), CaptureQueriesContext(connection) as queries:
        (found,) = read(role=VIEWER)
        assert (found.tenant, found.user, found.role) == (two.tenant, viewer.user, VIEWER)
    assert len(queries) == 1


def test_an_example_that_stands_nowhere_in_the_query_is_an_error() -> None:
    read = RepeatedRead(lambda role, name: of_role(role), scoped=True, role="an example", name="another")
    with scope(make_tenant("one")), pytest.raises(RuntimeError, match="not every value"):
        read(role=OWNER, name="x")


def test_a_read_of_no_tenants_rows_needs_no_scope_and_one_of_a_tenants_says_so() -> None:
    with scope(make_tenant("one")), pytest.raises(RuntimeError, match="not every value"):
        RepeatedRead(of_role, scoped=False, role="an example")(role=OWNER)


def test_numbers_that_are_compared_keep_the_kind_that_the_database_gave_them() -> None:
    read = RepeatedRead(
        lambda least, most: Membership.objects.filter(pk__gte=least, pk__lt=most), scoped=True, least=-1, most=-2
    )
    one = make_member(make_tenant("one"), OWNER)
    with scope(one.tenant):
        assert read(least=one.pk, most=one.pk + 1) == [one]
        assert read(least=one.pk + 1, most=one.pk + 2) == []
