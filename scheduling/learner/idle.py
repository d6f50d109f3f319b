"""`python -m scheduling.learner.idle PARENT learner --work ID`: a command of the product, at the lowest priority.

The priority is lowered before anything else is imported: reading all of the product takes seconds of a processor, and
slots would wait for them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def lowest_priority(parent: int | None = None) -> None:
    """This process runs where nobody else wants to, and ends with its parent."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if sys.platform == "linux" and parent is not None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            sys.exit("The process that began this step is gone.")


def main(parent: str, *words: str) -> None:
    lowest_priority(int(parent))
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
