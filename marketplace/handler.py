"""How the web process answers one request: everything that works in a thread does so in one journey, in a thread that
is kept for the next one.

Left to itself, Django's asynchronous handler carries a request into a thread and back for each piece of middleware that
is not written twice, once more before it and once more after it, and starts two threads for each request. The journeys
cost more than most answers, and each waits for its turn (decisions 0149 and 0168).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

IDLE_THREADS = 32  # kept for later requests; more at once get threads that end with them

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class OneThreadHandler(ASGIHandler):
    """Streams are still sent by the event loop, piece by piece: only making the response is the thread's work."""

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[ThreadPoolExecutor] = []  # of one thread each; touched by the event loop alone

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whatever one request does in a thread, it does in the same one, as a connection to the database needs it."""
        if scope["type"] != "http":
            raise ValueError(f"This handler answers HTTP, not {scope['type']}.")
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(max_workers=1, thread_name_prefix="request")
        done = False
        try:
            async with ThreadSensitiveContext(executor=thread):
                done = await self._handled(scope, receive, send)
        finally:
            if done and len(self._idle) < IDLE_THREADS:
                self._idle.append(thread)
            else:
                thread.shutdown(wait=False)  # it may be at work for somebody who has left

    async def _handled(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether the thread is free again."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return True
        with closing(body):
            set_script_prefix(get_script_prefix(scope))
            request, refusal = self.create_request(scope, body)
            if request is None:
                assert refusal is not None  # noqa: S101  one of the two
                await self.send_response(refusal, send)
                return True
            # After its body a caller has nothing to say but that it leaves.
            left = asyncio.ensure_future(receive())
            sent = asyncio.create_task(self._sent(scope, request, send))
            await asyncio.wait((left, sent), return_when=asyncio.FIRST_COMPLETED)
            left.cancel()
            sent.cancel()
            _, response = await asyncio.gather(left, sent, return_exceptions=True)
            if isinstance(response, HttpResponseBase):
                await _closed(response)
            elif not isinstance(response, asyncio.CancelledError):
                raise response
            return isinstance(response, HttpResponseBase)

    async def _sent(self, scope: Scope, request: HttpRequest, send: Send) -> HttpResponseBase:
        """The response, of which a caller who left has not seen all."""
        response = await sync_to_async(self._made, thread_sensitive=True)(scope, request)
        try:
            await self.send_response(response, send)
        except asyncio.CancelledError:
            pass
        except Exception:
            await _closed(response)
            raise
        return response

    def _made(self, scope: Scope, request: HttpRequest) -> HttpResponseBase:
        """All of it that no stream follows, with what Django does before and after each request."""
        request_started.send(sender=type(self), scope=scope)
        response = self.get_response(request)
        response._handler_class = type(self)  # type: ignore[attr-defined]
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            response.close()  # its content is at hand, and the connection to the database can go to somebody else
        return response


async def _closed(response: HttpResponseBase) -> None:
    if response.streaming:
        await sync_to_async(response.close, thread_sensitive=True)()
