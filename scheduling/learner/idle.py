"""Run a command of the product at the lowest priority: `python -m scheduling.learner.idle PARENT MARK learner --work
ID`.

The priority is lowered before anything else is imported: importing all of the product takes seconds of a processor, and
slots would wait for them.

Where Linux shares processors out among sessions first (autogroups), a priority counts only among the processes of one
session, and what an idle process uses is still taken from the share of its session. That session would be the worker's,
which decides slots. So this process gets a session of its own, of the least weight.

A priority decides who gets a processor, but not what the others get of what processors share (caches, memory, or the
two threads of one core). So the process rests altogether while a boundary is decided. MARK is the file that says so
(`scheduling.common.boundaries`); a timer of the processor time that the step itself has used checks it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
LEAST = 19  # nice
AUTOGROUP = Path("/proc/self/autogroup")
LOOK_SECONDS = 0.005  # between two checks: of its own processor time while it works, of the clock while it rests


def lowest_priority() -> None:
    """Let this process run only when no other of its session wants to."""
    os.nice(LEAST)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def session_of_its_own() -> None:
    """Let it also run only when no other of the machine wants to. Without autogroups, or where a container hides them,
    the priority alone counts."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    with contextlib.suppress(OSError):
        AUTOGROUP.write_text(str(LEAST))


def ends_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            sys.exit("The process that began this step is gone.")


def boundary_is_decided(mark: Path) -> bool:
    """Return whether a process on this machine decides a boundary now."""
    with contextlib.suppress(OSError), mark.open("rb") as file:  # there is no such file before the first boundary
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def rest_beside_boundaries(mark: Path) -> None:
    """Let this process stand still, between two steps of its program, while a boundary is decided.

    Looking takes processor time, too. So the timer is set anew when a rest is over: one that went on would begin a look
    within another, again and again while a boundary takes long."""

    def look(*_: object) -> None:
        while boundary_is_decided(mark):
            time.sleep(LOOK_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, LOOK_SECONDS)

    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, LOOK_SECONDS)
    # Python's end removes the handler before the timer, and a signal without one would kill the process.
    atexit.register(signal.signal, signal.SIGPROF, signal.SIG_IGN)


def begin(parent: int, mark: Path) -> None:
    lowest_priority()
    session_of_its_own()
    ends_with(parent)
    rest_beside_boundaries(mark)


def main(parent: str, mark: str, *words: str) -> None:
    begin(int(parent), Path(mark))
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
