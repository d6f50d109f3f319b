"""`python -m marketplace.web HOST PORT`: one web process. Several may be started at one address.

Each has a socket of its own, and the kernel shares new connections out among them: nobody has to stand in front, and
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

PATIENCE_SECONDS = int(os.environ.get("WEB_PATIENCE_SECONDS", "3"))  # for answers under way, when it is to end

# Of Python's search for garbage: how many more things than before there must be for a look at the youngest of them, how
# many such looks come to one at those that outlived one, and how many of those to one at all that is alive. Thousands
# of open pages are some million things: with the usual (700, 10, 10) two thirds of telling them of a slot was searching
# among them for nothing. Whatever is not in a cycle is freed at once as ever.
GARBAGE_THRESHOLDS = (20_000, 50, 100)
LARGEST_FRAME = 4_096  # bytes from a page over its socket, on which it has nothing to say


def main(host: str, port: str) -> None:
    config = uvicorn.Config(
        loaded(),
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=PATIENCE_SECONDS,
        ws_max_size=LARGEST_FRAME,
        ws_per_message_deflate=False,  # messages of sixty bytes; each open page would keep its own tables for it
    )
    uvicorn.Server(config).run(sockets=[shared_socket(host, int(port))])


def loaded() -> Any:
    """The application with all that its first answers would load, and out of sight of Python's search for garbage.

    That walks whatever is alive, again and again: 50 ms in the middle of somebody's answer, for half a million things
    that stay until the process ends. It also comes less often, for the sake of what is loaded later.
    """
    from django.urls import get_resolver

    from marketplace.asgi import application
    from marketplace.rights import rights_tell

    _ = get_resolver().url_patterns
    threading.Thread(target=rights_tell, daemon=True).start()  # a database that is slow to answer delays nobody
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    return application


def shared_socket(host: str, port: int) -> socket.socket:
    """Bound, also where another process of this user has done the same.

    It must be named a socket of TCP: only of those the event loop sends small answers at once, and does not wait 40 ms
    for the other side's receipt.
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


if __name__ == "__main__":
    main(*sys.argv[1:])
