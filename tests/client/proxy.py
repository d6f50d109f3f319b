"""A proxy that loses what passes through it: the request before it arrives, or the reply after it was given."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.patience import PATIENCE

PASS, LOSE_REQUEST, LOSE_REPLY, CUT_REPLY = "pass", "lose request", "lose reply", "cut reply"
OF_ONE_WAY = ("connection", "keep-alive", "transfer-encoding", "content-length", "host")


class Proxy:
    """`plan`: what becomes of the next calls; after it all pass. `seen`: statuses that came from behind, in order."""

    def __init__(self, target: str) -> None:
        self.target, self.plan, self.seen = urlsplit(target).netloc, list[str](), list[int]()
        self.address = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fate = self.proxy.plan.pop(0) if self.proxy.plan else PASS
        if fate == LOSE_REQUEST:
            self.close_connection = True
            return
        behind = http.client.HTTPConnection(self.proxy.target, timeout=PATIENCE)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_ONE_WAY}
            behind.request(self.command, self.path, body or None, headers)
            answer = behind.getresponse()
            content = answer.read()
        finally:
            behind.close()
        self.proxy.seen.append(answer.status)
        if fate == LOSE_REPLY:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OF_ONE_WAY:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fate == CUT_REPLY else content)
        self.close_connection = fate == CUT_REPLY

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def proxy_before(target: str) -> Iterator[Proxy]:
    proxy = Proxy(target)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy}))
    server.daemon_threads = True
    proxy.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
