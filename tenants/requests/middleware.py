"""The one place where a request opens a tenant scope: for every address under /t/<slug>/.

The tenant is in the address and not in the session, so two windows can show two tenants, a link means the same for
everybody, and no page is of another tenant because of what was opened last.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware
from django.utils.functional import SimpleLazyObject

from tenants.access import Access, AccessRequest
from tenants.common.patience import deadline
from tenants.common.zones import zone_of
from tenants.devices import device_remember
from tenants.models import Tenant, User
from tenants.roles import Permission
from tenants.scoping import pieces_in_scope, scope
from tenants.selectors import access_of, memberships_of, own_tenants, tenant_by_slug

TENANT_PATH = re.compile(r"^/t/([^/]+)/")

Handler = Callable[[HttpRequest], Any]


@sync_and_async_middleware
def reader_zone(get_response: Handler) -> Handler:
    """Set the reader's time zone for the times on pages. Nothing is decided or stored in it."""
    if iscoroutinefunction(get_response):

        async def handle_later(request: HttpRequest) -> HttpResponseBase:
            with timezone.override(zone_of(request)):
                return await get_response(request)

        return handle_later

    def handle(request: HttpRequest) -> HttpResponseBase:
        with timezone.override(zone_of(request)):
            return get_response(request)

    return handle


def request_deadline(get_response: Handler) -> Handler:
    """Give the view a deadline. A stream, which is read after the view, has no end of its own."""

    def handle(request: HttpRequest) -> HttpResponseBase:
        with deadline(getattr(request, "ends", time.monotonic() + settings.REQUEST_SECONDS)):
            return get_response(request)

    return handle


@sync_and_async_middleware
def private_answers(get_response: Handler) -> Handler:
    """Forbid caches to keep answers to requests with a session, and make the browser ask for them again."""
    if iscoroutinefunction(get_response):

        async def handle_later(request: HttpRequest) -> HttpResponseBase:
            return _kept_private(request, await get_response(request))

        return handle_later

    def handle(request: HttpRequest) -> HttpResponseBase:
        return _kept_private(request, get_response(request))

    return handle


def _kept_private(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if settings.SESSION_COOKIE_NAME in request.COOKIES:
        response.headers.setdefault("Cache-Control", "private, no-cache")
    return response


@sync_and_async_middleware
def known_device(get_response: Handler) -> Handler:
    """Set the cookie of the device in the answer to a person who has just proved who they are."""
    if iscoroutinefunction(get_response):

        async def handle_later(request: HttpRequest) -> HttpResponseBase:
            return _with_device(request, await get_response(request))

        return handle_later

    def handle(request: HttpRequest) -> HttpResponseBase:
        return _with_device(request, get_response(request))

    return handle


def _with_device(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if user := getattr(request, "known_device_of", None):
        device_remember(request, response, user)
    return response


@sync_and_async_middleware
def tenant_scope(get_response: Handler) -> Handler:
    if iscoroutinefunction(get_response):
        return _asynchronous(get_response)

    def handle(request: HttpRequest) -> HttpResponseBase:
        admitted = _admit(cast(AccessRequest, request))
        if not isinstance(admitted, Tenant):
            return admitted or get_response(request)
        with scope(admitted):
            return _kept_open(get_response(request), admitted)

    return handle


def _asynchronous(get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> Handler:
    async def handle(request: HttpRequest) -> HttpResponseBase:
        admitted = await sync_to_async(_admit)(cast(AccessRequest, request))
        if not isinstance(admitted, Tenant):
            return admitted or await get_response(request)
        with scope(admitted):
            return _kept_open(await get_response(request), admitted)

    return handle


def _admit(request: AccessRequest) -> Tenant | HttpResponseBase | None:
    """Return the tenant to open, an answer in its place, or None where the address names no tenant."""
    match = TENANT_PATH.match(request.path_info)
    if not match:
        request.access = cast(Access, SimpleLazyObject(lambda: access_of(_person(request), None)))
        return None
    user = _person(request)
    if user is None:
        return redirect_to_login(request.get_full_path())
    own = memberships_of(user)  # every page lists them all, so they are read once
    tenant = next((row.tenant for row in own if row.tenant.slug == match[1]), None) or tenant_by_slug(match[1])
    request.access, request.own_tenants = access_of(user, tenant, own), own_tenants(own)
    if tenant is None or not request.access.allows(Permission.TENANT_VIEW):
        raise Http404  # a stranger must not learn whether such a tenant exists
    return tenant


def _person(request: HttpRequest) -> User | None:
    return request.user if request.user.is_authenticated else None


def _kept_open(response: HttpResponseBase, tenant: Tenant) -> HttpResponseBase:
    """Return the response. If it is a stream, which is read after the scope around the view has closed, each of its
    pieces gets the scope."""
    if isinstance(response, StreamingHttpResponse):
        pieces: Any = response.streaming_content
        response.streaming_content = (
            _async_pieces(pieces, tenant) if response.is_async else pieces_in_scope(pieces, tenant)
        )
    return response


async def _async_pieces(pieces: AsyncIterator[bytes], tenant: Tenant) -> AsyncIterator[bytes]:
    while True:
        with scope(tenant):
            piece = await anext(pieces, None)
        if piece is None:
            return
        yield piece
