"""`python launch.py SIGNAL ACCOUNT COMMAND...` becomes COMMAND, which gets SIGNAL when its parent dies.

A parent killed with -9 cannot stop its children; the kernel can (on Linux only; elsewhere this is skipped). ACCOUNT is
`-` or `uid:gid`. The account must change before the signal is requested, because the change cancels the request; so
neither can be left to `subprocess`. Only the standard library is imported: this runs before every child.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(signal: str, account: str, *command: str) -> None:
    parent = os.getppid()
    if account != "-":
        uid, gid = map(int, account.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal))
        if os.getppid() != parent:
            sys.exit("The parent ended before its child began.")
    os.execv(command[0], command)  # noqa: S606  the command is a list, and no shell reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
