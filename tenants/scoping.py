"""Tenant scope: which tenant's rows this flow of control may access. It is closed unless some code opened it.

A scope belongs to the flow of control (a context variable): a new thread starts closed, an asyncio task inherits the
scope of the code that started it. A queryset keeps the tenant under which it was made; evaluating it later never widens
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn

from django.db import models


class ScopeError(RuntimeError):
    """A mistake in the code, never of the reader: no page may turn it into a message."""


class ScopeClosed(ScopeError):
    """A tenant-owned model was used outside an open tenant scope."""


class ForeignTenant(ScopeError):
    """A row of one tenant was written under the scope of another."""


@dataclass(frozen=True)
class Scope:
    tenant_id: int | None  # None for every tenant (`scope_disabled`)


_current: ContextVar[Scope | None] = ContextVar("tenant_scope", default=None)


def scope_current() -> Scope:
    scope = _current.get()
    if scope is None:
        raise ScopeClosed("no tenant scope is open: wrap the entry point in tenants.scoping.scope(tenant)")
    return scope


@contextmanager
def scope(tenant: models.Model | int) -> Iterator[None]:
    """Limit everything inside to this tenant's rows. Opening another tenant inside is refused."""
    tenant_id = tenant if isinstance(tenant, int) else tenant.pk
    if tenant_id is None:
        raise ScopeClosed("a scope needs a saved tenant")
    outer = _current.get()
    if outer is not None and outer.tenant_id not in (None, tenant_id):
        raise ForeignTenant(f"tenant {tenant_id} cannot be opened inside the scope of {outer.tenant_id}")
    token = _current.set(Scope(tenant_id))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def scope_disabled(why: str) -> Iterator[None]:
    """Open every tenant's rows. `why` is for the reviewer; a test lists every place that may do this."""
    if not why.strip():
        raise ValueError("scope_disabled needs a reason")
    token = _current.set(Scope(None))
    try:
        yield
    finally:
        _current.reset(token)


def tenant_require(tenant_id: int | None) -> None:
    """Refuse a row of a tenant other than the open one."""
    scope = scope_current()
    if scope.tenant_id is not None and tenant_id != scope.tenant_id:
        raise ForeignTenant(f"a row of tenant {tenant_id} under the scope of tenant {scope.tenant_id}")


def pieces_in_scope(pieces: Iterator[Any], tenant: models.Model | int) -> Iterator[Any]:
    """Yield the pieces of a stream, each made in the scope: a stream is read after the scope around its maker has
    closed."""
    while True:
        with scope(tenant):
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


class ScopedQuerySet(models.QuerySet[Any]):
    """A queryset that guards the two methods that every write passes: `_insert` (save, create, bulk_create) and
    `_update`."""

    def _insert(self, objs: Iterable[Any], fields: Any, **kwargs: Any) -> Any:
        objs = list(objs)
        scope = scope_current()
        for row in objs:
            if row.tenant_id is None and scope.tenant_id is not None:
                row.tenant_id = scope.tenant_id
            tenant_require(row.tenant_id)
        return super()._insert(objs, fields, **kwargs)  # type: ignore[misc]

    _insert.alters_data = True  # type: ignore[attr-defined]
    _insert.queryset_only = False  # type: ignore[attr-defined]

    def _update(self, values: Any) -> int:
        for field, _, value in values:
            if field.name == "tenant":
                tenant_require(getattr(value, "pk", value))
        return super()._update(values)  # type: ignore[misc]

    _update.alters_data = True  # type: ignore[attr-defined]
    _update.queryset_only = False  # type: ignore[attr-defined]

    def update(self, **values: Any) -> int:
        if {"tenant", "tenant_id"} & values.keys():
            raise ForeignTenant("a row never moves to another tenant")
        return super().update(**values)

    update.alters_data = True  # type: ignore[attr-defined]

    def raw(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ScopeError("raw SQL cannot be scoped; write it against the connection, in a reviewed place")


class ScopedManager(models.Manager.from_queryset(ScopedQuerySet)):  # type: ignore[misc]
    def get_queryset(self) -> ScopedQuerySet:
        scope = scope_current()
        rows = super().get_queryset()
        return rows if scope.tenant_id is None else rows.filter(tenant_id=scope.tenant_id)

    def bulk_create(self, *rows: Any, **options: Any) -> list[Any]:
        """`_insert` checks whose the rows are, so no filter is built here."""
        return list(super().get_queryset().bulk_create(*rows, **options))


class TenantOwned(models.Model):
    """A row of one tenant. Its relations to global models cannot be followed backwards: that would bypass the scope."""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")

    objects = ScopedManager()

    class Meta:
        abstract = True
        base_manager_name = "objects"  # forward relations, save() and refresh_from_db() obey the scope too

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        tenant_require(self.tenant_id)  # deleting one instance uses no manager
        return super().delete(*args, **kwargs)
