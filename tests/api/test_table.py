"""Every operation, every role: in the own tenant, in another one, and with none. See `tests.api.table`."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
from django.db import transaction

from tenants.api.open import OpenView
from tenants.api.views import CoalitionView, PersonView, StaffView, TenantView
from tenants.models import ApiToken
from tenants.roles import STAFF_ROLES, scope_of
from tests.api.builders import Program
from tests.api.table import CALLERS, STRANGER, Names, Row, World, caller_of, make_world, operations, rows
from tests.worlds import built_once

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Scene:
    """Two tenants in one pool, and somebody of each kind who calls, in the first of them or in none."""

    own: World
    other: World
    callers: dict[str, Program]


def make_scene() -> Scene:
    own = make_world("own")
    other = make_world("other", own.pool)
    return Scene(own, other, {name: caller_of(name, own) for name in CALLERS})


built = built_once(make_scene)


@pytest.fixture
def scene(built: Scene) -> Scene:
    return copy.deepcopy(built)


def status(row: Row, caller: Program, names: Names) -> tuple[int, str]:
    """And then as if nobody had asked."""
    with transaction.atomic():
        response = row.ask(caller, names)
        kind = response.headers.get("Content-Type", "")
        transaction.set_rollback(True)
    return response.status_code, kind


def scopes_of(row: Row) -> list[str]:
    return next(
        list(operation.handler.operation.scopes) for operation in operations() if operation.name == row.operation
    )


# What the staff's tokens need, as the description says, where the row's question is somebody else's.
BESIDES = {"what_ifs_read": ["audit:read"], "what_ifs_cancel": ["audit:read", "audit:write"]}


def test_every_operation_has_its_row_in_the_table() -> None:
    assert {(operation.name, operation.method) for operation in operations()} == {
        (row.operation, row.method) for row in rows()
    }
    assert len({operation.name for operation in operations()}) == len(operations())


def test_every_view_says_whose_its_address_is() -> None:
    kinds = (TenantView, CoalitionView, StaffView, PersonView, OpenView)
    assert all(issubclass(operation.view, kinds) for operation in operations())
    in_tenant = {
        operation.name for operation in operations() if operation.route.startswith("api/v1/tenants/<slug:tenant_slug>/")
    }
    assert in_tenant == {operation.name for operation in operations() if issubclass(operation.view, TenantView)}
    assert all(operation.route.endswith("/") for operation in operations())


# Each answers at once and stores nothing, or stores a question that its own person alone reads and calls off.
HARMLESS = {"charges_verify", "intervals_verify", "what_ifs_create", "what_ifs_cancel"}


def test_scope_of_reading_reaches_nothing_that_changes() -> None:
    changing = [operation for operation in operations() if operation.method != "get"]
    permissions = {operation.name: operation.handler.operation.permission for operation in changing}
    scopes = {name: scope_of(permission) for name, permission in permissions.items() if permission}
    assert scopes.keys() == permissions.keys()
    assert {name for name, scope in scopes.items() if scope.endswith(":read")} == HARMLESS


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.operation)
def test_role_gets_what_the_table_says(row: Row, scene: Scene) -> None:
    statuses, expected = {}, {}
    worlds = [(world, row.names(world)) for world in (scene.own, scene.other)]
    for name, caller in scene.callers.items():
        for world, names in worlds:
            place = name, world.tenant.slug
            got, kind = status(row, caller, names)
            expected[place] = row.expected(name, own=world is scene.own)
            statuses[place] = got
            assert (kind == "application/problem+json") == (got >= 400), place
    assert statuses == expected


@pytest.mark.parametrize("row", [row for row in rows() if scopes_of(row)], ids=lambda row: row.operation)
def test_scope_that_is_documented_is_enough(row: Row, scene: Scene) -> None:
    names, answers, expected = row.names(scene.own), {}, {}
    for role in row.answers:
        caller = scene.callers[role]
        assert caller.token is not None
        besides = BESIDES.get(row.operation, []) if role in STAFF_ROLES else []
        ApiToken.objects.filter(pk=caller.token.pk).update(scopes=scopes_of(row) + besides)
        answers[role], _ = status(row, caller, names)
        expected[role] = row.expected(role, own=True)
    assert answers == expected


@pytest.mark.parametrize("row", [row for row in rows() if row.foreign], ids=lambda row: row.operation)
def test_another_tenants_object_is_not_found_under_the_own_address(row: Row, scene: Scene) -> None:
    theirs = row.names(scene.other)
    mixed = row.names(scene.own) | {name: theirs[name] for name in row.foreign}
    for name, caller in scene.callers.items():
        if name == STRANGER:
            continue
        allowed = row.expected(name, own=True)
        expected = 404 if allowed < 400 else allowed
        assert status(row, caller, mixed)[0] == expected, name
