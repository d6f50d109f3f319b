"""Server-sent events: a stream is read as it comes, and taken up again after its last event when it breaks.

The server sends a comment now and then; a stream on which nothing comes for longer is taken for broken.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bourse_client.errors import Refused
from bourse_client.transport import COME_AGAIN, LOST, Reply, Transport, checked, unreachable_of

KIND = "text/event-stream"
QUIET_SECONDS = 60.0
LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class Message:
    id: str
    kind: str
    data: str


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """As the standard of server-sent events has it: fields in lines, an empty line at the end of each message."""
    last, kind, data = "", "", list[str]()
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield Message(last, kind or "message", "\n".join(data))
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            last = value


def followed(transport: Transport, path: str, after: int | None) -> Iterator[Any]:
    """Each event's document once, in order. Ends only by an error: no rights any more, or no answer for too long."""
    last, failures = "" if after is None else str(after), 0
    pace = transport.pace
    while True:
        try:
            for message in _opened(transport, path, last):
                failures = 0
                last = message.id or last
                yield json.loads(message.data)
            failures += 1  # the server closed it; that is no failure when something had come
            pause = transport.pause_after(failures)
        except LOST as error:
            failures += 1
            if failures >= pace.attempts:
                raise unreachable_of(transport.address, error) from error
            pause = transport.pause_after(failures)
        except Refused as refused:
            failures += 1
            if refused.status not in COME_AGAIN or failures >= pace.attempts:
                raise
            pause = max(refused.retry_after or 0.0, transport.pause_after(failures))
        pace.sleep(pause)


def _opened(transport: Transport, path: str, last: str) -> Iterator[Message]:
    """A connection of its own, since it is open for long."""
    connection = transport.connection(max(transport.pace.timeout, QUIET_SECONDS))
    try:
        headers = transport.headers(KIND) | ({"Last-Event-ID": last} if last else {})
        connection.request("GET", transport.target(path), headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            named = {name.lower(): value for name, value in answer.getheaders()}
            checked(Reply(answer.status, named, answer.read()))
            raise http.client.HTTPException(f"status {answer.status}")
        yield from messages(_lines(answer))
    finally:
        connection.close()


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while line := answer.readline(LONGEST_LINE):
        yield line
