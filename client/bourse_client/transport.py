"""HTTP over one kept connection. A call whose answer is lost is sent again with the same Idempotency-Key. The server
acts once for one key, so a repetition is always safe.

The clock, the waiting and the dice are arguments, so that a test of long trouble takes no time.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any
from urllib.parse import SplitResult, urlencode, urlsplit

from bourse_client import __version__
from bourse_client.errors import BourseError, Refused, Unreachable, refused_of

ROOT = "/api/v1/"
ANY = "*/*"
JSON, PROBLEM = "application/json", "application/problem+json"
AGENT = f"bourse-client/{__version__}"
BYTES = "application/octet-stream"
PIECE = 1 << 20  # bytes of a file that are read at once
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0  # seconds between attempts; doubled each time
FAILURES_NOTICED = 3  # one after the other, before somebody who waits is told
# The server, or something before it, asks us to call again. A 500 is not here: the same call would break it again.
COME_AGAIN = frozenset({429, 502, 503, 504})
NOT_BEGUN = 429  # says nothing of earlier attempts
STILL_RUNNING = "idempotency_in_progress"  # the server works on an earlier attempt of the same call
LOST = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Pace:
    """How patient the caller is. `timeout` is the seconds for one attempt, more than the server's own limit of 30, so
    that the server itself says that it took too long. `patience` is the seconds for one call with all its attempts, and
    `outage` those for which somebody who follows something waits for a server that is away, as in an upgrade. `notice`
    takes a sentence that says so."""

    timeout: float = 35.0
    patience: float = 90.0
    attempts: int = 6
    outage: int = 600
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    dice: Callable[[], float] = random.random
    notice: Callable[[str], None] = lambda sentence: None


@dataclass(frozen=True)
class Call:
    """One whole call: the same bytes are sent in each attempt."""

    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str]
    key: str | None
    accept: str


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]  # names in small letters
    body: bytes

    def json(self) -> Any:
        return self._document

    @cached_property
    def _document(self) -> Any:
        return json.loads(self.body)


class Transfer:
    """How much of a file has come so far, and of which version of it."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target, self._tag = target, ""
        self.have = 0

    def headers(self) -> dict[str, str]:
        """Return headers that ask for the rest of the same version; or for all of it, where nothing came or the version
        is not known."""
        return {"Range": f"bytes={self.have}-", "If-Range": self._tag} if self.have and self._tag else {}

    def begins(self, status: int, headers: Mapping[str, str]) -> int | None:
        """Prepare for an answer, and return where it will end, as far as it says so. An answer that is not the rest is
        the whole file."""
        if status != 206 or not headers.get("content-range", "").startswith(f"bytes {self.have}-"):
            if status == 206:
                raise http.client.HTTPException("another part came than was asked for")
            self.have = 0
            self._target.seek(0)
            self._target.truncate()
        self._tag = headers.get("etag", "")
        length = headers.get("content-length", "")
        return self.have + int(length) if length.isascii() and length.isdigit() else None

    def takes(self, piece: bytes) -> None:
        """Write a piece. Raises `BourseError` where it cannot be written, for which the network is not to blame."""
        try:
            self._target.write(piece)
        except OSError as error:
            raise BourseError(f"What comes cannot be written: {error.strerror}.") from error
        self.have += len(piece)


def new_key() -> str:
    """Return an Idempotency-Key that nobody else has."""
    return os.urandom(16).hex()


def parts_of(address: str) -> SplitResult:
    """Return the parts of a server's address. Raises `BourseError` if it is none: also where its port is no number, or
    its name is one that no server can have."""
    try:
        parts = urlsplit(address)
        (parts.hostname or "").encode("idna")
        parts.path.encode("ascii")
        _ = parts.port
        usual = parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.query
    except ValueError:
        usual = False
    if not usual:
        raise BourseError(f"{address!r} is no address of a server; write it as https://bourse.example.")
    return parts


class Transport:
    def __init__(self, address: str, token: str, pace: Pace | None = None) -> None:
        self.address = address.rstrip("/")
        self.pace = pace or Pace()
        if not (token.isascii() and token.isprintable()):
            raise BourseError("The token has signs that no token has. Was it copied whole, and nothing beside it?")
        self._token = token
        parts = parts_of(self.address)
        self._secure = parts.scheme == "https"
        self._host, self._port, self._base = parts.hostname or "", parts.port, parts.path
        self._outage_noticed = False
        self._connection: http.client.HTTPConnection | None = None
        # The Idempotency-Key of the latest change, as long as nobody knows what became of it.
        self.unanswered: str | None = None
        self._follows, self._until, self.was_answered = False, math.inf, False

    @contextmanager
    def following(self, follows: bool = True, *, until: float = math.inf) -> Iterator[None]:
        """Be patient as somebody who follows something: once the server has answered, an outage is waited out, but not
        beyond a moment `until` of the pace's clock."""
        before, self._follows, self._until = (self._follows, self._until), follows, until
        try:
            yield
        finally:
            self._follows, self._until = before

    def gives_up(self, failure: BourseError, failures: int, since: float, pause: float) -> bool:
        """Return whether so many failures since a moment, of which this is the last one, are enough, where the next
        attempt is made after a pause."""
        pace, then = self.pace, self.pace.clock() + pause
        if self._follows and self.was_answered:
            if failures == FAILURES_NOTICED:
                answers = isinstance(failure, Refused) and failure.status == NOT_BEGUN
                what = f"says: {failure}" if answers else "does not answer."
                pace.notice(f"{self.address} {what} It is asked again for {pace.outage // 60} minutes.")
                self._outage_noticed = True
            return then > min(since + pace.outage, self._until)
        return failures >= pace.attempts or then > since + pace.patience

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
        accept: str = JSON,
    ) -> Reply:
        """Send a call and return the answer, or raise an error. `path` is relative to /api/v1/. A change without a key
        gets one of its own."""
        content = None
        if method != "GET":
            content = json.dumps(body if body is not None else {}, allow_nan=False).encode()
            key = key or new_key()
        headers = self.headers(accept)
        if content is not None and key:
            headers |= {"Content-Type": JSON, "Idempotency-Key": key}
        return self._until_answered(Call(method, self.target(path, query), content, headers, key, accept))

    def send_parts(
        self, path: str, parts: Mapping[str, bytes], *, query: Mapping[str, Any] | None = None, key: str | None = None
    ) -> Reply:
        """Send a POST of a form whose parts may be long; the part `archive` goes as a file."""
        edge, key = os.urandom(16).hex(), key or new_key()
        content = b"".join(_part(edge, name, part) for name, part in parts.items()) + f"--{edge}--\r\n".encode()
        headers = self.headers(JSON)
        headers |= {"Content-Type": f"multipart/form-data; boundary={edge}", "Idempotency-Key": key}
        return self._until_answered(Call("POST", self.target(path, query), content, headers, key, JSON))

    def fetch(self, path: str, target: IO[bytes], *, query: Mapping[str, Any] | None = None) -> int:
        """Write a file of any length as it comes, and return how long it is. A transfer that breaks off goes on where
        it broke, as long as the server has the same file; each piece that came allows as many attempts again, and as
        much patience."""
        pace, attempt, transfer = self.pace, 1, Transfer(target)
        where, since = self.target(path, query), self.pace.clock()
        while True:
            before, pause = transfer.have, 0.0
            failure: BourseError
            try:
                self._fetched(where, transfer)
                return transfer.have
            except LOST as error:
                failure = unreachable_of(self.address, error)
            except Refused as refused:
                refused.path = where
                if not _comes_again(refused):
                    raise
                pause, failure = refused.retry_after or 0.0, refused
            attempt, since = (1, pace.clock()) if transfer.have > before else (attempt + 1, since)
            pause = max(pause, self.pause_after(attempt))
            if attempt > pace.attempts or pace.clock() + pause > since + pace.patience:
                raise failure
            pace.sleep(pause)

    def _fetched(self, where: str, transfer: Transfer) -> None:
        """Make one attempt on a connection of its own: what is left on a broken one is nobody's answer."""
        connection = self.connection(self.pace.timeout)
        try:
            connection.request("GET", where, headers=self.headers(BYTES) | transfer.headers())
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            if answer.status not in (200, 206):
                checked(Reply(answer.status, headers, answer.read()))
            self.require_kind(headers, BYTES)
            end = transfer.begins(answer.status, headers)
            while piece := answer.read(PIECE):
                transfer.takes(piece)
            if end is not None and transfer.have != end:
                raise http.client.IncompleteRead(b"", end - transfer.have)
        finally:
            connection.close()

    def headers(self, accept: str) -> dict[str, str]:
        headers_sent = {"Accept": f"{accept}, {PROBLEM};q=0.5", "User-Agent": AGENT}
        return headers_sent | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def target(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        fields = {name: value for name, value in (query or {}).items() if value not in (None, "", [], ())}
        return self._base + ROOT + path + (f"?{urlencode(fields, doseq=True)}" if fields else "")

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        # Always with a port: without one, that of an address such as ::1 would be read from its end.
        return kind(self._host, self._port or kind.default_port, timeout=timeout)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _until_answered(self, call: Call) -> Reply:
        self.unanswered = None
        try:
            reply = self._asked_again(call)
        except Refused as refused:
            refused.path, refused.key = call.path, self.unanswered
            raise
        self.unanswered = None
        return reply

    def _asked_again(self, call: Call) -> Reply:
        pace, attempt = self.pace, 1
        failure: BourseError
        since = pace.clock()
        while True:
            before, self.unanswered = self.unanswered, call.key
            try:
                return self._attempt(call)
            except ssl.SSLCertVerificationError as error:  # nothing was sent, and asking again would not help
                self.unanswered = before
                raise unreachable_of(self.address, error, key=before) from error
            except LOST as error:
                pause, failure = self.pause_after(attempt), unreachable_of(self.address, error, key=call.key)
            except Refused as refused:
                if refused.status == NOT_BEGUN:
                    self.unanswered = before
                elif not _leaves_open(refused):
                    self.unanswered = None
                if not _comes_again(refused):
                    raise
                pause, failure = max(refused.retry_after or 0.0, self.pause_after(attempt)), refused
            if self.gives_up(failure, attempt, since, pause):
                raise failure
            pace.sleep(pause)
            attempt += 1

    def _attempt(self, call: Call) -> Reply:
        """Make one attempt. A kept connection that turns out to be closed costs none."""
        fresh = self._connection is None
        try:
            return self._send(call)
        except (http.client.RemoteDisconnected, ConnectionError):
            if fresh:
                raise
            return self._send(call)

    def _send(self, call: Call) -> Reply:
        connection = self._connection = self._connection or self.connection(self.pace.timeout)
        try:
            connection.request(call.method, call.path, call.body, dict(call.headers))
            answer = connection.getresponse()
            reply = Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        except BaseException:
            self.close()  # half an answer must never be read as the beginning of the next
            raise
        checked(reply)
        self.require_kind(reply.headers, call.accept, call.key)
        if call.accept == JSON and not isinstance(reply.json(), dict):
            raise self.other_shape(call.key)
        self.note_answer()
        self.note_return()
        return reply

    def note_answer(self) -> None:
        """Remember that the server is there and lets us in."""
        self.was_answered = True

    def note_return(self) -> None:
        """Tell somebody who was told of an outage that it is over."""
        if self._outage_noticed:
            self._outage_noticed = False
            self.pace.notice(f"{self.address} answers again.")

    def require_kind(self, headers: Mapping[str, str], accept: str, key: str | None = None) -> None:
        """Raise `Unreachable` for an answer of another kind than was asked for. It is of somebody else, such as a page
        of a proxy, and asking again would bring it again."""
        kind = _kind(headers)
        if accept not in (ANY, kind):
            other = f"{self.address} answered with {kind or 'nothing'}, and not {accept}."
            raise Unreachable(f"{other} Is this the address of Bourse?", key=key)

    def other_shape(self, key: str | None = None) -> Unreachable:
        """Return the error for JSON that is no answer of the interface. It is of somebody else, too."""
        return Unreachable(
            f"{self.address} answered with JSON of another shape. Is this the address of Bourse?", key=key
        )

    def pause_after(self, attempt: int) -> float:
        """Return a pause that is twice as long each time, and never the same for two callers."""
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt - 1, 10))
        return float(longest * (0.5 + 0.5 * self.pace.dice()))


def _part(edge: str, name: str, content: bytes) -> bytes:
    file = f'; filename="{name}.tar.gz"\r\nContent-Type: application/gzip' if name == "archive" else ""
    head = f'--{edge}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
    return head.encode() + content + b"\r\n"


def checked(reply: Reply) -> None:
    if 300 <= reply.status < 400:
        # We do not follow it: the token would go to wherever somebody points.
        to = reply.headers.get("location", "elsewhere")
        raise BourseError(f"The server points to {to}. If that is the right place, use its address.")
    if reply.status >= 400:
        raise refused_of(reply.status, reply.body, retry_after=_seconds(reply.headers.get("retry-after")))
    if _kind(reply.headers) == JSON:
        try:
            reply.json()
        except (ValueError, RecursionError):
            raise http.client.IncompleteRead(reply.body) from None


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _comes_again(refused: Refused) -> bool:
    return refused.status in COME_AGAIN or refused.code == STILL_RUNNING


def _leaves_open(refused: Refused) -> bool:
    """Return whether the change may have been made all the same: the answer alone may have failed."""
    return refused.status >= 500 or refused.code == STILL_RUNNING


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a Retry-After. A date there gives None, so that our own pace holds."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def unreachable_of(address: str, error: Exception, *, key: str | None = None) -> Unreachable:
    return Unreachable(f"No answer from {address}: {_why(error)}.", key=key)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer broke off"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here: {getattr(error, 'verify_message', '') or error.strerror}"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError):
        return "the connection was closed"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")
