"""Read a stream of server-sent events as it comes, and take it up again after its last event when it breaks.

The server sends a comment now and then; a stream on which nothing comes for longer counts as broken.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bourse_client.errors import BourseError, Refused, Unreachable
from bourse_client.transport import COME_AGAIN, FIRST_PAUSE, LOST, Reply, Transport, checked, unreachable_of

KIND = "text/event-stream"
CLOSED = "closed"  # the server sends this kind to a client that may not listen any more
QUIET_SECONDS = 60.0
LONGEST_RETRY = 60.0
LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class Message:
    kind: str
    data: str


@dataclass
class Place:
    """How far a stream was read. It goes on after the id `last`; `retry` is the seconds before coming back."""

    last: str = ""
    retry: float = FIRST_PAUSE

    def messages(self, lines: Iterable[bytes]) -> Iterator[Message | None]:
        """Yield the messages of a stream by the standard of server-sent events: fields in lines, and an empty line at
        the end of each message. Yield None for a sign of life. An id counts once its message is whole, so that half a
        message is asked for again."""
        kind, number, data = "", self.last, list[str]()
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                self.last = number
                if data:
                    yield Message(kind or "message", "\n".join(data))
                kind, data = "", []
            elif name == "data":
                data.append(value)
            elif name == "event":
                kind = value
            elif name == "id" and value.isascii() and value.isprintable():
                number = value
            else:
                self._read_pause(name, value)
                yield None

    def _read_pause(self, name: str, value: str) -> None:
        if name == "retry" and value.isascii() and value.isdigit():
            self.retry = min(int(value[:9]) / 1000, LONGEST_RETRY)


def followed(transport: Transport, path: str, after: int | None) -> Iterator[Any]:
    """Yield each event's document once, in order. This ends only by an error: the rights are gone, or no answer came
    for too long."""
    place, failures, pace = Place("" if after is None else str(after)), 0, transport.pace
    since = pace.clock()  # when the server began to be away
    while True:
        failure: BourseError | None = None
        try:
            has_life = False
            for message in _opened(transport, path, place):
                failures, has_life = 0, True
                transport.note_return()
                if message and message.kind != CLOSED:
                    yield _document(message)
            if not has_life:  # a server begins with how soon to come back; something else hangs up
                raise http.client.RemoteDisconnected("nothing came")
            pause = place.retry
        except LOST as error:
            failures += 1
            pause, failure = transport.pause_after(failures), unreachable_of(transport.address, error)
        except Refused as refused:
            if refused.status not in COME_AGAIN:
                raise
            failures += 1
            pause, failure = max(refused.retry_after or 0.0, transport.pause_after(failures)), refused
        if failure:
            since = pace.clock() if failures == 1 else since
            with transport.following():  # for this alone: calls that are made between two events are no part of it
                gives_up = transport.gives_up(failure, failures, since, pause)
            if gives_up:
                raise failure
        pace.sleep(pause)


def _opened(transport: Transport, path: str, place: Place) -> Iterator[Message | None]:
    """Open a connection for the stream alone, since it is open for long, and yield its messages."""
    connection = transport.connection(max(transport.pace.timeout, QUIET_SECONDS))
    try:
        headers = transport.headers(KIND) | ({"Last-Event-ID": place.last} if place.last else {})
        connection.request("GET", transport.target(path), headers=headers)
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        if answer.status != 200:
            checked(Reply(answer.status, named, answer.read()))
            raise http.client.HTTPException(f"status {answer.status}")
        transport.require_kind(named, KIND)
        transport.note_answer()
        yield from place.messages(_lines(answer))
    finally:
        connection.close()


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while line := answer.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:  # the rest would be read as a line of its own
            raise Unreachable("The answer is broken: an event is too long.")
        yield line


def _document(message: Message) -> Any:
    try:
        return json.loads(message.data)
    except (ValueError, RecursionError):
        raise Unreachable("The answer is broken: an event is no JSON.") from None
