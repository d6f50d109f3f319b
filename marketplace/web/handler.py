"""How the web process answers one request: all work in a thread is done in one thread, which is kept for later
requests, when it is the tenant's turn, and for no longer than a request may take.

By itself, Django's asynchronous handler moves a request into a thread and back for each middleware that has no
asynchronous form, once more before it and once more after it, and starts two threads for each request. These moves cost
more than most answers, and each waits for its turn (decisions 0149, 0168 and 0183).
"""

from __future__ import annotations

import asyncio
import io
import logging
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import IO, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from channels.db import database_sync_to_async
from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.db import Error, close_old_connections, connections
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import loader
from django.urls import set_script_prefix

from marketplace.web.heads import head_is_too_large
from marketplace.web.turns import Credential, InTurn, Parties, Turns, credential_in
from marketplace.web.unavailable import FOR_PROGRAMS, unavailable_response
from tenants.api.bodies import MOST_BYTES
from tenants.api.problems import TOO_LARGE, Problem, problem_response
from tenants.common.failures import DEADLINE
from tenants.requests.parties import party_of_session, party_of_token
from tenants.requests.uploads import Sender, Uploads, sender_of, ticket_is_over

IDLE_THREADS = 32  # kept for later requests; threads beyond these end with their requests
MOST_WAITING = 200  # requests of one party
PROBES = ("/healthz", "/readyz")  # addresses for monitors of the process
HEAD_TOO_LARGE = Problem(431, "headers_too_large", "The address and the headers are too long.")
TOO_MANY_AT_ONCE = Problem(
    429,
    "too_many_at_once",
    f"{MOST_WAITING} requests of yours wait already. Send fewer at once.",
    headers={"Retry-After": "1"},
)

UPLOAD_IS_LATE = Problem(
    413,
    "body_too_large",
    "A file can be sent for an hour after the form was opened, or the interface was asked. Open it anew, or ask again.",
)
TOO_MANY_UPLOADS = Problem(
    429,
    "too_many_at_once",
    "Files are being sent already, of you, of your tenant or of others. Send this one when they are through.",
    headers={"Retry-After": "10"},
)
UPLOAD_SECONDS = 300  # for receiving a body that is a file; no thread waits meanwhile
UPLOAD_WAIT_SECONDS = 10.0  # for a place; nothing is read meanwhile
HEADINGS = {429: "Too much at once", 413: "That is too long", 431: "That is too long"}

log = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class BodyTooLarge(Exception):
    """The body is larger than any request may have."""


class OneThreadHandler(ASGIHandler):
    """Django's handler with one thread per request. The event loop still sends streams piece by piece: the thread only
    makes the response."""

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[ThreadPoolExecutor] = []  # one thread each; only the event loop uses this
        self._turns = Turns(settings.WEB_AT_ONCE, settings.WEB_AT_ONCE_OF_ONE, self._later)
        self._probes = Turns(len(PROBES), 1, self._later)  # each probe runs beside all other requests
        self._parties = Parties()
        self._uploads = Uploads()

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(self._loop.call_later, seconds, call)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Whatever it does in a thread is done in the same one, as its database connection
        requires."""
        if scope["type"] != "http":
            raise ValueError(f"This handler answers HTTP, not {scope['type']}.")
        if head_is_too_large(scope):
            return await self.send_response(refused(scope, HEAD_TOO_LARGE), send)
        self._loop = asyncio.get_running_loop()
        credential, turns, party = self._whose(scope)
        if turns.waiting(party) >= MOST_WAITING:
            return await self.send_response(refused(scope, TOO_MANY_AT_ONCE), send)
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(max_workers=1, thread_name_prefix="request")
        done = False
        try:
            if credential is not None and not self._parties.knows(credential.digest):
                party = await self._looked_up(credential, party, thread)
            async with ThreadSensitiveContext(executor=InTurn(turns, party, thread)):
                done = await self._handled(scope, receive, send)
        finally:
            if done and len(self._idle) < IDLE_THREADS:
                self._idle.append(thread)
            else:
                # The thread may still work for a caller who has left. It returns its connection when it is done.
                thread.submit(connections.close_all)
                thread.shutdown(wait=False)

    def _whose(self, scope: Scope) -> tuple[Credential | None, Turns, str]:
        """Return the request's credential, the turns in which it waits, and the party for which it waits."""
        if scope["path"] in PROBES:
            return None, self._probes, str(scope["path"])
        credential = credential_in(scope["headers"], settings.SESSION_COOKIE_NAME.encode())
        address = str((scope.get("client") or ("?",))[0])
        return credential, self._turns, self._parties.of(None if credential is None else credential.digest, address)

    async def _looked_up(self, credential: Credential, party: str, thread: ThreadPoolExecutor) -> str:
        """Return the party of a credential. The look-up itself takes a turn of the address, whose person is not yet
        known."""
        async with ThreadSensitiveContext(executor=InTurn(self._turns, party, thread)):
            account = await database_sync_to_async(_party_of, thread_sensitive=True)(credential)
        if account is None:
            return party
        self._parties.learn(credential.digest, account)
        return account

    async def _handled(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Return whether the thread is free again."""
        clock, sender = asyncio.get_running_loop().time, sender_of(scope)
        with ExitStack() as place:
            if sender is not None:
                if not await self._uploads.wait(sender, UPLOAD_WAIT_SECONDS):
                    await self.send_response(refused(scope, TOO_MANY_UPLOADS), send)
                    return True
                place.callback(self._uploads.end, sender)
            ends = clock() + settings.REQUEST_SECONDS
            try:
                async with asyncio.timeout_at(ends if sender is None else clock() + UPLOAD_SECONDS):
                    body = await self.read_body(receive, sender)
            except RequestAborted:
                return True
            except BodyTooLarge:
                await self.send_response(refused(scope, _too_large(scope, sender)), send)
                return True
            except TimeoutError:
                await self.send_response(too_late(scope), send)
                return True
            if sender is not None:  # the answer has as much time as any answer
                ends = clock() + settings.REQUEST_SECONDS
            return await self._answered(scope, receive, send, body, ends)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, body: IO[bytes], ends: float) -> bool:
        """Return whether the thread is free again."""
        with closing(body):
            set_script_prefix(get_script_prefix(scope))
            request, refusal = self.create_request(scope, body)
            if request is None:
                assert refusal is not None  # noqa: S101  one of the two
                await self.send_response(refusal, send)
                return True
            # After its body a caller sends nothing but that it leaves.
            departure = asyncio.ensure_future(receive())
            response_task = asyncio.create_task(self._respond(scope, request, send, ends))
            await asyncio.wait((departure, response_task), return_when=asyncio.FIRST_COMPLETED)
            departure.cancel()
            response_task.cancel()
            _, response = await asyncio.gather(departure, response_task, return_exceptions=True)
            if isinstance(response, HttpResponseBase):
                await _closed(response)
            elif isinstance(response, BaseException) and not isinstance(response, asyncio.CancelledError):
                raise response
            return isinstance(response, HttpResponseBase)

    async def read_body(self, receive: Receive, sender: Sender | None = None) -> IO[bytes]:
        """Read the body into memory, or into a file where the sender may send one. Reading stops once it is
        too long."""
        most = MOST_BYTES if sender is None else sender.most_bytes
        body: IO[bytes] = io.BytesIO() if sender is None else tempfile.TemporaryFile()  # noqa: SIM115  the caller does
        try:
            return await self._read(receive, body, most)
        except BaseException:
            body.close()
            raise

    async def _read(self, receive: Receive, body: IO[bytes], most: int) -> IO[bytes]:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestAborted
            body.write(message.get("body", b""))
            if body.tell() > most:
                raise BodyTooLarge
            if not message.get("more_body", False):
                body.seek(0)
                return body

    async def _respond(self, scope: Scope, request: HttpRequest, send: Send, ends: float) -> HttpResponseBase | None:
        """Return the response, even if the caller left before reading all of it. None means that it was not made in
        time: its thread is still at work, or has not begun and never will."""
        request.ends = ends  # type: ignore[attr-defined]  # for `tenants.requests.middleware.request_deadline`
        try:
            async with asyncio.timeout_at(ends):
                response = await sync_to_async(self._response, thread_sensitive=True)(scope, request)
        except TimeoutError:
            await self.send_response(too_late(scope), send)
            return None
        try:
            await self.send_response(response, send)
        except asyncio.CancelledError:
            pass
        except Exception:
            await _closed(response)
            raise
        return response

    def _response(self, scope: Scope, request: HttpRequest) -> HttpResponseBase:
        """Make the response, except for the pieces of a stream, with what Django does before and after each request."""
        request_started.send(sender=type(self), scope=scope)
        response = self.get_response(request)
        response._handler_class = type(self)  # type: ignore[attr-defined]
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if response.streaming:
            close_old_connections()  # its pieces wait for their turns; others may use the connection meanwhile
        else:
            response.close()  # this also returns the connection: the whole content is in memory
        return response


def _party_of(credential: Credential) -> str | None:
    """Return the party of a credential, or None if it is unknown or the database fails; then the request meets that
    too."""
    try:
        return party_of_token(credential.token) if credential.token else party_of_session(credential.session)
    except Error:
        return None


def refused(scope: Mapping[str, Any], problem: Problem) -> HttpResponse:
    """Return a refusal without any query: for a program as JSON, for a person as a page."""
    if scope["path"].startswith(FOR_PROGRAMS):
        return problem_response(problem)
    headers = {"Cache-Control": "no-store", **(problem.headers or {})}
    page = loader.render_to_string("refused.html", {"heading": HEADINGS[problem.status], "problem": problem})
    return HttpResponse(page, status=problem.status, headers=headers)


def _too_large(scope: Mapping[str, Any], sender: Sender | None) -> Problem:
    if sender is None and ticket_is_over(scope):
        return UPLOAD_IS_LATE
    if sender is None and scope["path"].startswith(FOR_PROGRAMS):
        return TOO_LARGE
    most = MOST_BYTES if sender is None else sender.most_bytes
    return replace(TOO_LARGE, detail=f"What was sent has more than the {most >> 20} MiB that are taken here.")


def too_late(scope: Mapping[str, Any]) -> HttpResponse:
    log.warning("503 %s: %s", DEADLINE.code, scope["path"])
    return unavailable_response(scope["path"], DEADLINE)


async def _closed(response: HttpResponseBase) -> None:
    if response.streaming:
        await sync_to_async(response.close, thread_sensitive=True)()
