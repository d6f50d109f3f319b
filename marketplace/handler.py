"""How the web process answers one request: everything that works in a thread does so in one journey, in a thread that
is kept for the next one, when it is its tenant's turn, and not for longer than a request may take.

Left to itself, Django's asynchronous handler carries a request into a thread and back for each piece of middleware that
is not written twice, once more before it and once more after it, and starts two threads for each request. The journeys
cost more than most answers, and each waits for its turn (decisions 0149, 0168 and 0183).
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

from marketplace.heads import head_is_too_large
from marketplace.turns import Credential, InTurn, Parties, Turns, credential_in
from marketplace.unavailable import FOR_PROGRAMS, unavailable_response
from tenants.api.bodies import MOST_BYTES
from tenants.api.problems import TOO_LARGE, Problem, problem_response
from tenants.failures import DEADLINE
from tenants.parties import party_of_session, party_of_token
from tenants.uploads import Sender, Uploads, sender_of, ticket_is_over

IDLE_THREADS = 32  # kept for later requests; more at once get threads that end with them
MOST_WAITING = 200  # requests of one party
PROBES = ("/healthz", "/readyz")  # of whoever watches the process
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
UPLOAD_SECONDS = 300  # for a body that comes as a file; no thread waits for it
UPLOAD_WAIT_SECONDS = 10.0  # for a place; nothing is read meanwhile
HEADINGS = {429: "Too much at once", 413: "That is too long", 431: "That is too long"}

log = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class BodyTooLarge(Exception):
    """More came than any request may have."""


class OneThreadHandler(ASGIHandler):
    """Streams are still sent by the event loop, piece by piece: only making the response is the thread's work."""

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[ThreadPoolExecutor] = []  # of one thread each; touched by the event loop alone
        self._turns = Turns(settings.WEB_AT_ONCE, settings.WEB_AT_ONCE_OF_ONE, self._later)
        self._probes = Turns(len(PROBES), 1, self._later)  # each beside all that others ask for and wait for
        self._parties = Parties()
        self._uploads = Uploads()

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(self._loop.call_later, seconds, call)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whatever one request does in a thread, it does in the same one, as a connection to the database needs it."""
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
                # It may be at work for somebody who has left. Its connection goes back when it is done.
                thread.submit(connections.close_all)
                thread.shutdown(wait=False)

    def _whose(self, scope: Scope) -> tuple[Credential | None, Turns, str]:
        """What of a log-in or token it shows, and among which turns it waits as whom."""
        if scope["path"] in PROBES:
            return None, self._probes, str(scope["path"])
        credential = credential_in(scope["headers"], settings.SESSION_COOKIE_NAME.encode())
        address = str((scope.get("client") or ("?",))[0])
        return credential, self._turns, self._parties.of(None if credential is None else credential.digest, address)

    async def _looked_up(self, credential: Credential, party: str, thread: ThreadPoolExecutor) -> str:
        """Whose turns the request uses: looked up in a piece of work of whoever nobody knows at its address."""
        async with ThreadSensitiveContext(executor=InTurn(self._turns, party, thread)):
            account = await database_sync_to_async(_party_of, thread_sensitive=True)(credential)
        if account is None:
            return party
        self._parties.learn(credential.digest, account)
        return account

    async def _handled(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether the thread is free again."""
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
            if sender is not None:  # its answer has the time that any answer has
                ends = clock() + settings.REQUEST_SECONDS
            return await self._answered(scope, receive, send, body, ends)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, body: IO[bytes], ends: float) -> bool:
        """Whether the thread is free again."""
        with closing(body):
            set_script_prefix(get_script_prefix(scope))
            request, refusal = self.create_request(scope, body)
            if request is None:
                assert refusal is not None  # noqa: S101  one of the two
                await self.send_response(refusal, send)
                return True
            # After its body a caller has nothing to say but that it leaves.
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
        """In memory, or where somebody may send a file, in one: nothing longer than it may be is read to its end."""
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
        """The response, of which a caller who left has not seen all. None: it was not made in time, and whoever makes
        it is still at work, or has not begun and never will."""
        request.ends = ends  # type: ignore[attr-defined]  # for `tenants.middleware.request_deadline`
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
        """All of it that no stream follows, with what Django does before and after each request."""
        request_started.send(sender=type(self), scope=scope)
        response = self.get_response(request)
        response._handler_class = type(self)  # type: ignore[attr-defined]
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if response.streaming:
            close_old_connections()  # its pieces wait for their turns; meanwhile the connection can go to somebody else
        else:
            response.close()  # which gives the connection back, too: its content is at hand
        return response


def _party_of(credential: Credential) -> str | None:
    """None: nobody is known by that, or the database does not say; then the request itself meets that too."""
    try:
        return party_of_token(credential.token) if credential.token else party_of_session(credential.session)
    except Error:
        return None


def refused(scope: Mapping[str, Any], problem: Problem) -> HttpResponse:
    """Asks nobody anything: as a program or as a person reads it."""
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
