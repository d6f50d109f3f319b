"""The table of operations: who gets what from each, in the own tenant, in another one, and with no tenant at all.

Each module `rows_<subject>.py` in this folder lists its `ROWS`; they are collected here. An operation without a row
fails `test_table`. To add one: a `Row`, with `prepare` for the objects that its address and body name, then
`BOURSE_WRITE_BASELINE=1 .venv/bin/pytest tests/api/test_queries.py` for its number of queries.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test.client import BOUNDARY, encode_multipart
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from scheduling.models import Pool, TrainingJob
from tenants.api.open import OpenView
from tenants.api.views import CoalitionView, PersonView, StaffView, TenantView
from tenants.models import Membership, Tenant, User
from tenants.roles import STAFF_ROLES, TENANT_ROLES
from tests.api.builders import Program, outsider, program
from tests.scheduling.builders import make_cells, make_server
from tests.scheduling.live import fund, make_live_pool
from tests.scheduling.markets import make_waiting
from tests.tenants.builders import make_member, make_staff, make_tenant

OUTSIDER, STRANGER = "outsider", "stranger"  # logged in without any role; nobody
CALLERS = (*TENANT_ROLES, *STAFF_ROLES, OUTSIDER, STRANGER)
READERS = (*TENANT_ROLES, *STAFF_ROLES)
METHODS = ("get", "post", "put", "patch", "delete")

Names = Mapping[str, Any]


@dataclass(frozen=True)
class World:
    """One tenant in a pool that opened just now, with money, cells and jobs that wait; a member of each role."""

    tenant: Tenant
    pool: Pool
    jobs: list[TrainingJob]
    members: Mapping[str, Membership]


def make_world(slug: str, pool: Pool | None = None) -> World:
    tenant = make_tenant(slug)
    fund(tenant)
    pool = pool or make_live_pool(epoch_at=timezone.now())
    # Two of each thing at least: a query for each row would show in the number of queries.
    for number in range(2):
        server = make_server(pool, f"{slug}-{number}", worker=8, ps=2)
        make_cells(server, tenant, {"worker": 4, "ps": 1})
    jobs = [make_waiting(pool, tenant) for _ in range(3)]
    return World(tenant, pool, jobs, {role: make_member(tenant, role) for role in TENANT_ROLES})


def nothing(world: World) -> Names:
    return {}


def encoded(body: Mapping[str, Any]) -> bytes:
    files = {name: SimpleUploadedFile(name, part) for name, part in body.items() if isinstance(part, bytes)}
    return encode_multipart(BOUNDARY, {**body, **files})


@dataclass(frozen=True)
class Row:
    """`answers`: the statuses of those named, in the own tenant; everybody else gets 403, an outsider 404.

    `address` is relative to /api/v1/ and may hold {tenant}, {pool}, {job} and what `prepare` names; so may the texts
    in `body`. `foreign`: the names in the address that are a tenant's own, so that another tenant's are not found.
    """

    operation: str
    method: str
    address: str
    answers: Mapping[str, int]
    body: Callable[[Names], Mapping[str, Any]] = field(default=lambda names: {})
    prepare: Callable[[World], Names] = nothing
    foreign: tuple[str, ...] = ()
    form: bool = False  # the body goes as a form; bytes go as files

    def names(self, world: World) -> dict[str, Any]:
        usual = {"tenant": world.tenant.slug, "pool": world.pool.slug, "job": world.jobs[0].pk}
        return usual | dict(self.prepare(world))

    def ask(self, caller: Program, names: Names) -> Any:
        address = self.address.format(**names)
        if self.method == "get":
            return caller.get(address)
        if self.method == "put":
            return caller.put(address, self.body(names))
        assert self.method == "post", "add the method to tests.api.builders.Program"
        if self.form:
            kind = f"multipart/form-data; boundary={BOUNDARY}"
            return caller.post(address, encoded(self.body(names)), content_type=kind)
        return caller.post(address, self.body(names))

    def expected(self, caller: str, *, own: bool) -> int:
        view = view_of(self.operation)
        if issubclass(view, OpenView):
            return 200
        if caller == STRANGER:
            return 401
        if issubclass(view, PersonView):
            return self.answers.get(caller, 200 if self.method == "get" else 403)
        if issubclass(view, TenantView):
            if caller == OUTSIDER or (not own and caller in TENANT_ROLES):
                return 404
        elif issubclass(view, CoalitionView):
            if caller == OUTSIDER:
                return 404
        else:
            assert issubclass(view, StaffView), view
        return self.answers.get(caller, 403)


def everybody(status: int = 200) -> dict[str, int]:
    return dict.fromkeys(READERS, status)


def answers(status: int, *roles: str) -> dict[str, int]:
    return dict.fromkeys(roles, status)


@cache
def rows() -> tuple[Row, ...]:
    here = Path(__file__).parent
    modules = [module.name for module in pkgutil.iter_modules([str(here)]) if module.name.startswith("rows_")]
    return tuple(row for name in sorted(modules) for row in import_module(f"tests.api.{name}").ROWS)


@dataclass(frozen=True)
class OperationRoute:
    """An operation as the resolver of addresses knows it."""

    name: str
    method: str
    route: str
    view: type[Any]
    handler: Callable[..., Any]


@cache
def operations() -> tuple[OperationRoute, ...]:
    return tuple(_walk(get_resolver(), ""))


def _walk(resolver: URLResolver, above: str) -> Iterator[OperationRoute]:
    for entry in resolver.url_patterns:
        route = above + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _walk(entry, route)
        elif isinstance(entry, URLPattern) and route.startswith("api/v1/"):
            view = getattr(entry.callback, "cls", None)
            for method in METHODS if view else ():
                if handler := getattr(view, method, None):
                    yield OperationRoute(handler.operation.name, method, route, view, handler)


def view_of(operation: str) -> type[Any]:
    return next(each.view for each in operations() if each.name == operation)


def caller_of(name: str, world: World) -> Program:
    """A program of somebody with this role in this world."""
    if name == STRANGER:
        return Program()
    if name == OUTSIDER:
        return _with_session(outsider())
    if name in STAFF_ROLES:
        return program(make_staff(name).user, None)
    return program(world.members[name].user, world.tenant)


def _with_session(user: User) -> Program:
    """Whoever has no role can have no token either."""
    caller = Program()
    caller.client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return caller
