"""How the web process answers one request: all middleware and the view after one another, in one thread.

Left to itself, Django's asynchronous handler carries a request into a thread and back for each piece of middleware that
is not written twice. With a dozen of them the journeys cost more than most answers (decision 0149).
"""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class OneThreadHandler(ASGIHandler):
    """Streams are still sent by the event loop, piece by piece: only making the response is the thread's work."""

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)
