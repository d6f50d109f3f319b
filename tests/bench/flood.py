"""`python -m tests.bench.flood PORT LINES` sends the requests that it reads again and again, until it is ended.

Each line of standard input is one request in hexadecimal, as it is sent. LINES is the number of connections. Each takes
the next request as soon as it has its answer. When it is ended by SIGTERM, it prints how many answers had which status.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
from collections import Counter
from itertools import cycle
from pathlib import Path

PIECE = 1 << 18
HEAD_END = b"\r\n\r\n"


class Line:
    """One connection, with what is left to be sent and what of the answer has arrived."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setblocking(False)
        self.begin(request)

    def begin(self, request: bytes) -> None:
        self.left, self.heard = memoryview(request), bytearray()

    def goes_on(self, events: int) -> bool:
        """Send and receive what is possible. Return whether the answer is still to come; raise ConnectionError if the
        connection was closed before."""
        if events & selectors.EVENT_WRITE and self.left:
            self.left = self.left[self.socket.send(self.left[:PIECE]) :]
        if events & selectors.EVENT_READ:
            piece = self.socket.recv(PIECE)
            if not piece:
                raise ConnectionError
            self.heard += piece
        return not self._is_whole()

    def _is_whole(self) -> bool:
        head, mark, _ = bytes(self.heard[:4096]).partition(HEAD_END)
        if not mark:
            return False
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        if b"content-length" in fields:
            return len(self.heard) >= len(head) + len(mark) + int(fields[b"content-length"])
        return self.heard.endswith(b"0\r\n\r\n")


def main(port: str, lines: str) -> None:
    _go_behind()
    requests = cycle([bytes.fromhex(line) for line in sys.stdin.read().split()])
    statuses: Counter[str] = Counter()

    def tell(*_: object) -> None:
        print(json.dumps(statuses), flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, tell)
    chooser = selectors.DefaultSelector()
    for _ in range(int(lines)):
        _watch(chooser, Line(int(port), next(requests)))
    while True:
        for key, events in chooser.select():
            line: Line = key.data
            try:
                if line.goes_on(events):
                    if not line.left and key.events != selectors.EVENT_READ:
                        chooser.modify(line.socket, selectors.EVENT_READ, line)
                    continue
                statuses[line.heard[9:12].decode()] += 1
                chooser.unregister(line.socket)
                line.begin(next(requests))
            except ConnectionError:  # also where the server closes after a refusal that has not read everything
                statuses[line.heard[9:12].decode() or "closed"] += 1
                chooser.unregister(line.socket)
                line.socket.close()
                line = Line(int(port), next(requests))
            _watch(chooser, line)


def _go_behind() -> None:
    """Give way to all other processes, because in the real world another machine would send these requests. Linux may
    weigh whole sessions against each other; then a process that is nice within its own session gives way to nobody
    outside it."""
    os.nice(10)
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("10", encoding="ascii")


def _watch(chooser: selectors.BaseSelector, line: Line) -> None:
    chooser.register(line.socket, selectors.EVENT_WRITE | selectors.EVENT_READ, line)


if __name__ == "__main__":
    main(*sys.argv[1:])
