"""Make one call to a receiver: bounded in time and size, to exactly the address that was checked, and no further.

A redirect is an answer like others, and no success. The request is written and the answer read here, on a socket of our
own, because every step must keep to one deadline and none may look a name up again.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import Any, cast

from scheduling.webhooks.addresses import CallTarget, Resolver, addresses_of, target_of
from tenants.access import Refused

PATIENCE_SECONDS = 5.0
MOST_BYTES = 16_384  # of an answer, head included
MOST_KEPT = 1_000  # characters of an answer that the log keeps


@dataclass(frozen=True)
class CallOutcome:
    """What came of a call. `flaw` says why no answer came, or why it counts for nothing; it is empty where the receiver
    took the call."""

    status: int | None
    flaw: str
    answer: str = ""

    @property
    def worked(self) -> bool:
        return not self.flaw


def call(
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes,
    resolve: Resolver = addresses_of,
    patience: float = PATIENCE_SECONDS,
) -> CallOutcome:
    target = target_of(url, resolve=resolve)
    if isinstance(target, Refused):
        return CallOutcome(None, target.sentence)
    ends = time.monotonic() + patience
    try:
        with _connected(target, ends) as connection:
            _send(connection, _request(target, headers, body), ends)
            return _outcome(_received(connection, ends))
    except TimeoutError:
        return CallOutcome(None, f"No answer in {patience:g} seconds.")
    except ssl.SSLError as error:
        return CallOutcome(None, f"No trusted connection: {error.reason or 'TLS failed'}."[:200])
    except OSError as error:
        return CallOutcome(None, f"No connection: {error.strerror or 'it broke'}."[:200])
    except HTTPException:
        return CallOutcome(None, "The answer is not HTTP.")


def _connected(target: CallTarget, ends: float) -> socket.socket:
    plain = socket.create_connection((target.address, target.port), timeout=_seconds_until(ends))
    if target.scheme == "http":
        return plain
    try:
        plain.settimeout(_seconds_until(ends))
        return ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)
    except BaseException:
        plain.close()
        raise


def _request(target: CallTarget, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"POST {target.path} HTTP/1.1", f"Host: {target.authority}", f"Content-Length: {len(body)}"]
    lines += ["Accept: */*", "Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _send(connection: socket.socket, content: bytes, ends: float) -> None:
    connection.settimeout(_seconds_until(ends))
    connection.sendall(content)


def _received(connection: socket.socket, ends: float) -> bytes:
    """Return the head of the answer, and as much of the body as comes in time: the status is what counts."""
    received_bytes = bytearray()
    while len(received_bytes) < MOST_BYTES and not _is_whole(received_bytes):
        try:
            connection.settimeout(_seconds_until(ends))
            piece = connection.recv(4_096)
        except TimeoutError:
            if b"\r\n\r\n" in received_bytes:
                break
            raise
        if not piece:
            break
        received_bytes += piece
    return bytes(received_bytes[:MOST_BYTES])


def _is_whole(answer: bytearray) -> bool:
    """Return whether the answer is complete, so that we need not wait for a receiver that keeps the connection open."""
    head, mark, body = bytes(answer).partition(b"\r\n\r\n")
    if not mark:
        return False
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    length = fields.get(b"content-length", b"").strip()
    return length.isdigit() and len(length) < 10 and len(body) >= int(length)


class _Held:
    """Bytes in place of a socket, for the standard library's reader."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_: Any) -> BytesIO:
        return BytesIO(self._content)


def _outcome(content: bytes) -> CallOutcome:
    response = HTTPResponse(cast(socket.socket, _Held(content)))
    response.begin()
    try:
        answer = response.read(MOST_KEPT)
    except HTTPException:  # cut off in the middle of its body
        answer = b""
    text = "".join(letter for letter in answer.decode("utf-8", "replace") if letter.isprintable() or letter == "\n")
    status = response.status
    if 200 <= status < 300:
        return CallOutcome(status, "", text)
    sentence = "Redirects are not followed." if 300 <= status < 400 else "Only 200 to 299 count as taken."
    return CallOutcome(status, f"The answer was {status}. {sentence}", text)


def _seconds_until(ends: float) -> float:
    rest = ends - time.monotonic()
    if rest <= 0:
        raise TimeoutError
    return rest
