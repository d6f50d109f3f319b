"""A small server on loopback that answers as a test tells it to, well or badly, and notes the calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE


@dataclass(frozen=True)
class StubCall:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int  # the caller's port: the same for calls over one connection

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


Answer = Callable[["_Handler"], None]


@dataclass
class Stub:
    """`answers` are given one after the other, and the last one ever after."""

    answers: list[Answer]
    calls: list[StubCall] = field(default_factory=list)
    address: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        named = {name.lower(): value for name, value in self.headers.items()}
        self.stub.calls.append(StubCall(self.command, self.path, named, body, self.client_address[1]))
        self.stub.next()(self)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def whole(self, status: int, kind: str, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def stub_server(*answers: Answer) -> Iterator[Stub]:
    stub = Stub(list(answers))
    handler = type("Handler", (_Handler,), {"stub": stub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    stub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        stub.ended.set()  # lets go of answers that hang
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def good(document: Any, *, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.whole(status, "application/json", json.dumps(document).encode(), named)


def text(content: str, kind: str, *, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.whole(status, kind, content.encode(), named)


def bad(
    status: int, code: str, detail: str = "It is so.", *, numbers: Any = None, errors: Any = (), **headers: str
) -> Answer:
    document = {"type": f"urn:bourse:problem:{code}", "title": "No", "status": status, "code": code, "detail": detail}
    body = json.dumps(document | {"numbers": numbers or {}, "errors": list(errors)}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.whole(status, "application/problem+json", body, named)


def dropped(handler: _Handler) -> None:
    """Heard, and the connection closed without a word."""
    handler.close_connection = True


def hanging(handler: _Handler) -> None:
    """Heard, and nothing comes."""
    handler.stub.ended.wait(PATIENCE)
    handler.close_connection = True


def cut(document: Any, *, length: bool = True) -> Answer:
    """Half an answer; without a length nothing but the JSON itself says that it is half."""

    def answer(handler: _Handler) -> None:
        body = json.dumps(document).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header(*(("Content-Length", str(len(body))) if length else ("Connection", "close")))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2])
        handler.close_connection = True

    return answer


def closing(document: Any) -> Answer:
    """A good answer; then the kept connection is closed without telling."""

    def answer(handler: _Handler) -> None:
        good(document)(handler)
        handler.close_connection = True

    return answer


def streaming(*pieces: str) -> Answer:
    """These bytes of a stream of events, and its end."""

    def answer(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(piece.encode())
            handler.wfile.flush()
        handler.close_connection = True

    return answer
