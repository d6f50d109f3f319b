"""Where tasks, sockets and commands open a tenant scope. Requests: tenants.middleware."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from functools import wraps
from typing import Any

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from django.core.management.base import BaseCommand, CommandError

from tenants.access import NOBODY, Access
from tenants.models import Tenant, User
from tenants.rechecks import access_still
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.selectors import access_of, tenant_by_slug


def tenant_task(function: Callable[..., Any]) -> Callable[..., Any]:
    """Under `@app.task`: the task is called with `tenant_id=` and runs in that tenant's scope."""

    @wraps(function)
    def run(*, tenant_id: int, **arguments: Any) -> Any:
        with scope(tenant_id):
            return function(tenant_id=tenant_id, **arguments)

    return run


class TenantConsumer:
    """Mix into an asynchronous Channels consumer whose route has `tenant_slug`.

    Every message is handled in the tenant's scope. Who may listen is asked again every `recheck_seconds`, because
    a socket can outlive a membership.
    """

    permission = Permission.TENANT_VIEW
    recheck_seconds = 30.0

    scope: dict[str, Any]
    access: Access = NOBODY
    _checked_at: float | None = None

    async def dispatch(self, message: dict[str, Any]) -> None:
        if message["type"] == "websocket.disconnect":
            # Leaving is always allowed; without a tenant there is nothing to tidy up.
            if self.access.tenant is None:
                raise StopConsumer
        elif not await self._may_listen():
            self.access = NOBODY
            await self.close(code=4404)  # type: ignore[attr-defined]
            return
        assert self.access.tenant is not None  # noqa: S101  both branches above have made sure
        with scope(self.access.tenant):
            await super().dispatch(message)  # type: ignore[misc]

    async def _may_listen(self) -> bool:
        now = time.monotonic()
        if self._checked_at is None or now - self._checked_at >= self.recheck_seconds:
            self.access = await database_sync_to_async(self._access)()
            self._checked_at = now
        return self._is_let_in()

    async def _may_still_listen(self) -> bool:
        """Asked anew, together with other sockets."""
        self.access = await access_still(
            (_pk(self.scope.get("user")), self.scope["url_route"]["kwargs"]["tenant_slug"])
        )
        self._checked_at = time.monotonic()
        return self._is_let_in()

    def _is_let_in(self) -> bool:
        return self.access.tenant is not None and self.access.allows(self.permission)

    def _access(self) -> Access:
        tenant = tenant_by_slug(self.scope["url_route"]["kwargs"]["tenant_slug"])
        user = User.objects.filter(pk=_pk(self.scope.get("user"))).first()
        return access_of(user, tenant) if tenant else NOBODY


class StaffConsumer:
    """Mix into an asynchronous Channels consumer whose route names no tenant: for those with a role over all.

    No scope is open; whatever is read of tenants' rows says why it may. Who may listen is asked again now and then.
    """

    permission = Permission.TENANTS_VIEW
    recheck_seconds = 30.0

    scope: dict[str, Any]
    access: Access = NOBODY
    _checked_at: float | None = None

    async def dispatch(self, message: dict[str, Any]) -> None:
        if message["type"] == "websocket.disconnect":
            if self.access.user is None:
                raise StopConsumer
        elif not await self._may_listen():
            self.access = NOBODY
            await self.close(code=4404)  # type: ignore[attr-defined]
            return
        await super().dispatch(message)  # type: ignore[misc]

    async def _may_listen(self) -> bool:
        now = time.monotonic()
        if self._checked_at is None or now - self._checked_at >= self.recheck_seconds:
            self.access = await database_sync_to_async(self._access)()
            self._checked_at = now
        return self.access.allows(self.permission)

    async def _may_still_listen(self) -> bool:
        """Asked anew, together with other sockets."""
        self.access = await access_still((_pk(self.scope.get("user")), None))
        self._checked_at = time.monotonic()
        return self.access.allows(self.permission)

    def _access(self) -> Access:
        return access_of(User.objects.filter(pk=_pk(self.scope.get("user"))).first(), None)


def _pk(user: Any) -> int:
    """Of whoever opened the socket; of nobody, the number that no row has."""
    return getattr(user, "pk", None) or 0


class TenantCommand(BaseCommand):
    """A command that works for one tenant: `--tenant SLUG`. Override `handle_tenant`."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="the tenant to work for")

    def handle(self, *args: Any, tenant: str, **options: Any) -> str | None:
        tenant_row = tenant_by_slug(tenant)
        if tenant_row is None:
            raise CommandError(f"there is no tenant {tenant!r}")
        with scope(tenant_row):
            return self.handle_tenant(tenant_row, **options)

    def handle_tenant(self, tenant: Tenant, **options: Any) -> str | None:
        raise NotImplementedError
