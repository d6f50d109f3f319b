"""`python -m scheduling.learner.idle PARENT learner --work ID`: a command of the product, at the lowest priority.

The priority is lowered before anything else is imported: reading all of the product takes seconds of a processor, and
slots would wait for them.

Where Linux shares processors out among sessions first (autogroups), a priority counts among the processes of one
session alone, and what an idle one uses is still taken from the share of its session, which is the worker's, who
decides slots. So it has a session of its own, of the least weight.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
LEAST = 19  # nice
AUTOGROUP = Path("/proc/self/autogroup")


def lowest_priority() -> None:
    """This process runs where nobody else of its session wants to."""
    os.nice(LEAST)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def session_of_its_own() -> None:
    """And where nobody else of the machine wants to. Without autogroups, or where a container hides them, the priority
    alone counts."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    with contextlib.suppress(OSError):
        AUTOGROUP.write_text(str(LEAST))


def ends_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            sys.exit("The process that began this step is gone.")


def begin(parent: int) -> None:
    lowest_priority()
    session_of_its_own()
    ends_with(parent)


def main(parent: str, *words: str) -> None:
    begin(int(parent))
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
