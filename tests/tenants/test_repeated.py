"""A read that was put into SQL once finds what the ORM finds, in the scope that is open and in no other."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenants.common.repeated import RepeatedRead, Whose
from tenants.models import Membership
from tenants.roles import OWNER, VIEWER
from tenants.scoping import ScopeClosed, scope, scope_disabled
from tests.tenants.builders import make_member, make_tenant

pytestmark = pytest.mark.django_db


def of_role(role: str) -> object:
    return Membership.objects.select_related("tenant", "user").filter(role=role).order_by("pk")


def test_it_finds_the_rows_of_the_open_tenant_alone_with_what_belongs_to_them() -> None:
    read = RepeatedRead(of_role, of=Whose.ONE, role="an example")
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
        (membership,) = read(role=VIEWER)
        assert (membership.tenant, membership.user, membership.role) == (two.tenant, viewer.user, VIEWER)
    assert len(queries) == 1


def test_an_example_that_stands_nowhere_in_the_query_is_an_error() -> None:
    read = RepeatedRead(lambda role, name: of_role(role), of=Whose.ONE, role="an example", name="another")
    with scope(make_tenant("one")), pytest.raises(RuntimeError, match="not every value"):
        read(role=OWNER, name="x")


def test_a_read_of_no_tenants_rows_needs_no_scope_and_one_of_a_tenants_says_so() -> None:
    with scope(make_tenant("one")), pytest.raises(RuntimeError, match="not every value"):
        RepeatedRead(of_role, of=Whose.NONE, role="an example")(role=OWNER)


def test_numbers_that_are_compared_keep_the_kind_that_the_database_gave_them() -> None:
    read = RepeatedRead(
        lambda least, most: Membership.objects.filter(pk__gte=least, pk__lt=most), of=Whose.ONE, least=-1, most=-2
    )
    one = make_member(make_tenant("one"), OWNER)
    with scope(one.tenant):
        assert read(least=one.pk, most=one.pk + 1) == [one]
        assert read(least=one.pk + 1, most=one.pk + 2) == []


def test_columns_come_as_tuples() -> None:
    read = RepeatedRead(
        lambda role: Membership.objects.filter(role=role).order_by("pk").values_list("pk", "tenant_id"),
        of=Whose.ONE,
        role="an example",
    )
    one = make_member(make_tenant("one"), OWNER)
    with scope(one.tenant):
        assert read(role=OWNER) == [(one.pk, one.tenant_id)]
        assert read(role=VIEWER) == []


def test_a_read_of_all_tenants_finds_them_where_the_scope_is_open_to_all_and_else_the_open_tenants_alone() -> None:
    read = RepeatedRead(of_role, of=Whose.ALL, role="an example")
    one, two = make_member(make_tenant("one"), OWNER), make_member(make_tenant("two"), OWNER)
    for _ in range(2):
        with scope_disabled("the test looks at both"):
            assert read(role=OWNER) == [one, two]
        with scope(two.tenant):
            assert read(role=OWNER) == [two]
        with pytest.raises(ScopeClosed):
            read(role=OWNER)


def test_a_value_that_is_reckoned_with_is_an_error_also_where_it_stands_in_the_query_as_it_is() -> None:
    read = RepeatedRead(
        lambda first: Membership.objects.filter(pk__gte=first, pk__lt=first + 1), of=Whose.ONE, first=-1
    )
    with scope(make_tenant("one")), pytest.raises(RuntimeError, match="reckons"):
        read(first=7)


def test_a_read_that_makes_something_else_is_an_error() -> None:
    read = RepeatedRead(lambda role: of_role(role).values("pk"), of=Whose.ONE, role="an example")
    with scope(make_tenant("one")), pytest.raises(RuntimeError, match="ValuesIterable"):
        read(role=OWNER)
