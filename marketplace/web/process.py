"""One web process, which `python -m marketplace.web HOST PORT` starts. Several may be started at one address.

Each has a socket of its own, and the kernel distributes new connections among them: no proxy has to stand in front, and
one that ends takes only its own connections with it (decision 0166).
"""

from __future__ import annotations

import errno
import gc
import os
import socket
import sys
import threading
from typing import Any

import uvicorn

PATIENCE_SECONDS = int(os.environ.get("WEB_PATIENCE_SECONDS", "3"))  # for running answers, when it has to end

# Thresholds of Python's garbage collector: how many more objects than before start a collection of the youngest, how
# many such collections start one of those that outlived one, and how many of those one of all live objects. Thousands
# of open pages are some million objects: with the usual (700, 10, 10) two thirds of the time for telling them of a slot
# was collection that found nothing. Objects that are not in a cycle are freed at once as ever.
GARBAGE_THRESHOLDS = (20_000, 50, 100)
LARGEST_FRAME = 4_096  # bytes from a page over its socket, by which it has nothing to send


def main(host: str, port: str) -> None:
    config = uvicorn.Config(
        loaded(),
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=PATIENCE_SECONDS,
        ws_max_size=LARGEST_FRAME,
        ws_per_message_deflate=False,  # messages have sixty bytes, and each open page would need its own tables
    )
    uvicorn.Server(config).run(sockets=[shared_socket(host, int(port))])


def loaded() -> Any:
    """Return the application with all that its first answers would load, excluded from Python's garbage collection.

    A collection walks all live objects again and again: 50 ms in the middle of somebody's answer, for half a million
    objects that stay until the process ends. Collections are also made rarer, because of what is loaded later.
    """
    from django.urls import get_resolver

    from marketplace.asgi import application
    from marketplace.upkeep.rights import rights_tell

    _ = get_resolver().url_patterns
    threading.Thread(target=rights_tell, daemon=True).start()  # a slow database delays nobody
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    return application


def shared_socket(host: str, port: int) -> socket.socket:
    """Return a bound socket; another process of this user may have bound the same address.

    It must be declared as a TCP socket: only for those does the event loop send small answers at once, instead of
    waiting 40 ms for the other side's acknowledgement.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ours = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        ours.bind((host, port))
    except OSError as error:
        ours.close()
        why = "is taken by another program" if error.errno == errno.EADDRINUSE else f"cannot be had: {error.strerror}"
        sys.exit(f"{host}:{port} {why}.")
    return ours
