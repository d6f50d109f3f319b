"""What happens to a websocket before and after its consumer: wrong addresses, long headers, errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import SessionMiddlewareStack
from django.urls import URLPattern

from marketplace.logs import log_unavailable
from marketplace.web.heads import head_is_too_large
from tenants.common.failures import unavailable_of

NO_SUCH_ADDRESS, LONG_HEAD, LATER, BROKEN = 4404, 4431, 1013, 1011  # codes of closing
OF_FRAMES = {1007: "a frame that is no UTF-8", 1009: "a frame that is too large"}  # the server itself closes with these
LONGEST = 200  # characters of an address in the log

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
log = logging.getLogger(__name__)


class Sockets:
    """Ends every socket with a code, and writes one line into the log if nobody is at fault. A socket that is closed
    before it is accepted gets status 403 for its request."""

    def __init__(self, patterns: Sequence[URLPattern]) -> None:
        self._patterns = patterns
        # Consumers read from the session who is there (`tenants.requests.entrypoints`). What Channels has for that
        # knows no earlier secret key, and would end the session of whoever comes with one from before.
        self._consumers = AllowedHostsOriginValidator(SessionMiddlewareStack(URLRouter(list(patterns))))

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path = str(scope["path"])
        if head_is_too_large(scope):
            return await _refused(send, LONG_HEAD, "its headers are too long", path)
        if not any(pattern.pattern.match(path.lstrip("/")) for pattern in self._patterns):
            return await _refused(send, NO_SUCH_ADDRESS, "there is no such address", path)

        async def hear() -> Mapping[str, Any]:
            message = await receive()
            if message["type"] == "websocket.disconnect" and message.get("code") in OF_FRAMES:
                log.info("a socket was closed with %s after %s", message["code"], OF_FRAMES[message["code"]])
            return message

        try:
            await self._consumers(scope, hear, send)
        except Exception as error:
            unavailable = unavailable_of(error)
            if unavailable is not None:
                log_unavailable(path, unavailable, error)
            elif isinstance(error, OSError):  # in ASGI it means that the other side is gone, so nothing can be sent
                while (await hear())["type"] != "websocket.disconnect":
                    pass
                return
            else:
                log.exception("a socket broke")
            await send({"type": "websocket.close", "code": LATER if unavailable else BROKEN})


async def _refused(send: Send, code: int, why: str, path: str) -> None:
    log.info("a socket was refused with %s, %s: %s", code, why, path[:LONGEST])
    await send({"type": "websocket.close", "code": code})
