"""`python -m scheduling.engines.local.launch PLACE COMMAND...` gives up all but what PLACE allows and becomes COMMAND.

PLACE is JSON: folder, uid, cpu_seconds, limits. Standard library only: this runs before every process of a gang.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from scheduling.engines.local.limits import PR_SET_PDEATHSIG, Limits, give_up, prctl


def main(place: str, *command: str) -> None:
    parent = os.getppid()
    about = json.loads(place)
    os.chdir(about["folder"])
    give_up(Limits(**about["limits"]), about["folder"], about["uid"], about["cpu_seconds"])
    # Last: a change of account would forget it. Whoever watches over us is gone: so are we.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("The parent ended before its child began.")
    os.execv(command[0], command)  # noqa: S606  the command is a list, and no shell reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
