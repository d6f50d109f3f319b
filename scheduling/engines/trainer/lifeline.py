"""End a process of a job when it is asked to, and when the process that started it is gone."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Let the kernel ask us to stop when our parent dies (on Linux; elsewhere use `hold`).

    The kernel takes the end of the thread that started us for the end of the parent.
    """
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)


def hold(descriptor: int) -> None:
    """Ask ourselves to stop when the other end of this pipe is closed by its last holder."""

    def wait() -> None:
        try:
            while os.read(descriptor, 1):
                pass
        except OSError:
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def on_stop(ask: Callable[[], None], seconds: float | None, code: int) -> None:
    """Call `ask` at SIGTERM or SIGINT. If the process still runs `seconds` later, it exits with `code` anyway.

    `ask` runs in the handler and must not block or take locks that the interrupted code may hold.
    """

    def handle(number: int, frame: object) -> None:
        ask()
        if seconds is not None:
            last = threading.Timer(seconds, os._exit, [code])
            last.daemon = True
            last.start()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
