"""`python -m scheduling.engines.local.launch FOLDER UID CPU_SECONDS BARE LIMITS COMMAND...`

Gives up all but what these allow and becomes COMMAND. UID is `-` where the account stays; BARE is 1 where root keeps
no rights; LIMITS is `name=number,...`.
"""

from __future__ import annotations

import os
import sys

from scheduling.engines.local.confine import PR_SET_PDEATHSIG, give_up, prctl

SIGKILL = 9  # `signal` would load more than all the rest
NEEDED = ("address_space_mb", "file_mb", "open_files", "nice", "processes")


def words(folder: str, uid: int | None, cpu_seconds: int, limits: dict[str, float], *, bare: bool) -> list[str]:
    """What follows the Python interpreter on the command line, before the command itself."""
    listed = ",".join(f"{name}={limits[name]}" for name in NEEDED)
    account = "-" if uid is None else str(uid)
    place = [folder, account, str(cpu_seconds), str(int(bare)), listed]
    return ["-S", "-m", "scheduling.engines.local.launch", *place]


def main(folder: str, uid: str, cpu_seconds: str, bare: str, limits: str, *command: str) -> None:
    parent = os.getppid()
    numbers = {name: int(number) for name, number in (pair.split("=") for pair in limits.split(","))}
    os.chdir(folder)
    give_up(numbers, folder, None if uid == "-" else int(uid), int(cpu_seconds), bare=bare == "1")
    # Last: a change of account would forget it. Whoever watches over us is gone: so are we.
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        sys.exit("The parent ended before its child began.")
    os.execv(command[0], command)  # noqa: S606  the command is a list, and no shell reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
