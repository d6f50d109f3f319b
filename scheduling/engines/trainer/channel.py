"""Connections between processes of one job. Both sides prove that they know the job's secret before anything is read.

The listener sends 32 random bytes; the caller answers with 32 of its own and a keyed digest over both; the listener
proves itself with another digest. Until then only fixed numbers of bytes are read, and not for long.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

from scheduling.engines.trainer.framing import ConnectionLost, WireMessage, exactly, receive, send

NONCE = 32
GREETING_SECONDS = 5.0
REACH_AGAIN_SECONDS = 0.05
SEND_SECONDS = 20
MOST_CALLERS = 600  # connections that a listener serves at once

Address = tuple[str, int]


class NotOneOfUs(Exception):
    """Raised where the other side does not know the job's secret."""


class Channel:
    """A connection whose two sides trust each other. Any thread may send; only one at a time may receive."""

    def __init__(self, connection: socket.socket, patience: float | None) -> None:
        self.connection = connection
        self.sending = threading.Lock()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A side that does not read must not block the one that sends, even where reading may take any time.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
        connection.settimeout(patience)

    def tell(self, message: WireMessage) -> None:
        """Send a message and expect no answer."""
        with self.sending:
            send(self.connection, message)

    def hear(self) -> WireMessage:
        """Return the next message."""
        return receive(self.connection)

    def ask(self, message: WireMessage) -> WireMessage:
        """Send a message, wait for the answer, and return it."""
        self.tell(message)
        return self.hear()

    def close(self) -> None:
        """Close the connection, also while another thread reads from it."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def _proof(secret: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.new(secret, role + nonces, hashlib.sha256).digest()


def call(address: Address, secret: bytes, patience: float | None) -> Channel:
    """Connect to a listener; raises `ConnectionLost` or `NotOneOfUs`."""
    try:
        connection = socket.create_connection(address, timeout=GREETING_SECONDS)
    except OSError as error:
        raise ConnectionLost(f"nobody answers at {address[0]}:{address[1]} ({error.strerror or error})") from None
    try:
        theirs, ours = exactly(connection, NONCE), secrets.token_bytes(NONCE)
        connection.sendall(ours + _proof(secret, b"caller", theirs + ours))
        answer = exactly(connection, NONCE)
        if not hmac.compare_digest(answer, _proof(secret, b"listener", theirs + ours)):
            raise NotOneOfUs(f"{address[0]}:{address[1]} does not know the job's secret")
    except OSError:
        connection.close()
        raise ConnectionLost("the connection broke during the greeting") from None
    except (ConnectionLost, NotOneOfUs):
        connection.close()
        raise
    return Channel(connection, patience)


def reach(address: Address, secret: bytes, patience: float | None, seconds: float) -> Channel:
    """Try `call` again and again for `seconds`: all processes of a job start at once, and one may come before the
    listener."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call(address, secret, patience)
        except ConnectionLost:
            if time.monotonic() > deadline:
                raise
        time.sleep(REACH_AGAIN_SECONDS)


def _welcome(connection: socket.socket, secret: bytes, patience: float | None) -> Channel:
    connection.settimeout(GREETING_SECONDS)
    ours = secrets.token_bytes(NONCE)
    connection.sendall(ours)
    answer = exactly(connection, 2 * NONCE)
    theirs, proof = answer[:NONCE], answer[NONCE:]
    if not hmac.compare_digest(proof, _proof(secret, b"caller", ours + theirs)):
        raise NotOneOfUs("a caller does not know the job's secret")
    connection.sendall(_proof(secret, b"listener", ours + theirs))
    return Channel(connection, patience)


def listen(address: Address) -> socket.socket:
    """Return a listening socket. Port 0 takes any free one."""
    listener = socket.create_server(address, backlog=128)
    listener.settimeout(None)
    return listener


def serve(listener: socket.socket, secret: bytes, handle: Callable[[Channel], None]) -> threading.Thread:
    """Give every trusted caller to `handle`, in a thread of its own, until the listener is closed."""
    places = threading.BoundedSemaphore(MOST_CALLERS)

    def attend(connection: socket.socket) -> None:
        try:
            with connection:
                channel = _welcome(connection, secret, None)
                handle(channel)
        except (OSError, ConnectionLost, NotOneOfUs):
            pass  # the caller does not know the secret, or left during the greeting
        finally:
            places.release()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if not places.acquire(blocking=False):
                connection.close()
                continue
            try:
                threading.Thread(target=attend, args=(connection,), daemon=True).start()
            except RuntimeError as error:  # we may start no more threads; the next caller is served all the same
                print(f"A caller was turned away: {error}.", file=sys.stderr)
                connection.close()
                places.release()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    return thread
