"""Where sockets open a tenant scope. For requests tenants.requests.middleware does it."""

from __future__ import annotations

import time
from typing import Any

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from django.utils import timezone

from tenants.access import NOBODY, Access
from tenants.requests.rechecks import access_still
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.selectors import Place, accesses_of
from tenants.sessions import login_of


class TenantConsumer:
    """A mixin for an asynchronous Channels consumer whose route has `tenant_slug`.

    Every message is handled in the tenant's scope. The right to listen is checked again every `recheck_seconds`,
    because a socket can outlive a session and a membership.
    """

    permission = Permission.TENANT_VIEW
    recheck_seconds = 30.0

    scope: dict[str, Any]
    access: Access = NOBODY
    _checked_at: float | None = None

    async def dispatch(self, message: dict[str, Any]) -> None:
        if message["type"] == "websocket.disconnect":
            # A disconnect is always allowed; without a tenant there is nothing to clean up.
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
        """Check again whether the reader may listen, in one query with other sockets."""
        self.access = await access_still(self._place())
        self._checked_at = time.monotonic()
        return self._is_let_in()

    def _is_let_in(self) -> bool:
        return self.access.tenant is not None and self.access.allows(self.permission)

    def _access(self) -> Access:
        return _access_at(self._place())

    def _place(self) -> Place:
        return login_of(self.scope.get("session")), self.scope["url_route"]["kwargs"]["tenant_slug"]


class StaffConsumer:
    """A mixin for an asynchronous Channels consumer whose route names no tenant: for people with a role over all
    tenants.

    No scope is open; code that reads tenants' rows opens one and says why it may. The right to listen is checked again
    every `recheck_seconds`.
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
        """Check again whether the reader may listen, in one query with other sockets."""
        self.access = await access_still(self._place())
        self._checked_at = time.monotonic()
        return self.access.allows(self.permission)

    def _access(self) -> Access:
        return _access_at(self._place())

    def _place(self) -> Place:
        return login_of(self.scope.get("session")), None


def _access_at(place: Place) -> Access:
    return accesses_of({place}, timezone.now())[place]
