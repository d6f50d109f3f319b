"""`python -m tests.marketplace.as_unit [UNIT]`: what a process may do here, as JSON; with UNIT as a service of
that file, as far as it is a matter of system calls, of an account without rights, and of nothing that only systemd has.

The filters are made by libseccomp from what the unit says and from the groups that this machine's systemd knows.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from scheduling.engines.launcher.confine import landlock_version, never_kill, own_names, prctl
from scheduling.learner.idle import lowest_priority

NOBODY = 65_534
ALLOW, REFUSE = 0x7FFF_0000, 0x0005_0000  # and the number of the error
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38
EQUAL, MASKED = 4, 7  # comparisons of libseccomp
FAMILIES = 46  # of addresses, all that Linux knows
NAMESPACES = {
    "cgroup": 0x0200_0000, "ipc": 0x0800_0000, "mnt": 0x0002_0000, "net": 0x4000_0000, "pid": 0x2000_0000,
    "user": 0x1000_0000, "uts": 0x0400_0000,
}  # fmt: skip
BY_NAME = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}


class Comparison(ctypes.Structure):
    _fields_ = [("word", ctypes.c_uint), ("way", ctypes.c_int), ("one", ctypes.c_uint64), ("other", ctypes.c_uint64)]


class Filter:
    """What is not named has `otherwise`."""

    def __init__(self, otherwise: int) -> None:
        self.library = ctypes.CDLL("libseccomp.so.2")
        self.library.seccomp_init.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(self.library.seccomp_init(ctypes.c_uint32(otherwise)))

    def add(self, action: int, call: str, *comparisons: Comparison) -> None:
        number = self.library.seccomp_syscall_resolve_name(call.encode())
        if number == -1:
            return  # this machine has no such call
        array = (Comparison * len(comparisons))(*comparisons)
        self.library.seccomp_rule_add_array(self.handle, ctypes.c_uint32(action), number, len(comparisons), array)

    def load(self) -> None:
        if self.library.seccomp_load(self.handle):
            raise OSError("the filter does not hold")


def of_unit(text: str, name: str) -> list[str]:
    """What a unit says under this name, line by line."""
    return re.findall(rf"^{name}=(.*)$", text, re.M)


def group(name: str) -> set[str]:
    """The calls of a group, as systemd on this machine has it."""
    result = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
    words = [line.strip() for line in result.stdout.splitlines()[1:]]
    return calls(word for word in words if word and not word.startswith("#"))


def calls(words: Iterable[str]) -> set[str]:
    names: set[str] = set()
    for word in words:
        names |= group(word) if word.startswith("@") else {word}
    return names


def filters(text: str) -> list[Filter]:
    """In the order in which they may be loaded: the first ones still let the next one be."""
    families, spaces = Filter(ALLOW), Filter(ALLOW)
    allowed = {BY_NAME[word] for line in of_unit(text, "RestrictAddressFamilies") for word in line.split()}
    for family in set(range(FAMILIES)) - allowed:
        families.add(REFUSE | errno.EAFNOSUPPORT, "socket", Comparison(0, EQUAL, family))
    for line in of_unit(text, "RestrictNamespaces"):
        for name, flag in NAMESPACES.items():
            if name not in line.split():
                for call in ("unshare", "clone"):
                    spaces.add(REFUSE | errno.EPERM, call, Comparison(0, MASKED, flag, flag))
    named = group("@default")
    for line in of_unit(text, "SystemCallFilter"):
        words = calls(line.removeprefix("~").split())
        named = named - words if line.startswith("~") else named | words
    whole = Filter(REFUSE | errno.EPERM)
    for call in sorted(named):
        whole.add(ALLOW, call)
    return [families, spaces, whole]


def tried(ability: Callable[[], object]) -> object:
    try:
        return ability()
    except OSError as error:
        return error.strerror


def networks_listed() -> bool:
    """As the libraries of trainings do it."""
    first = ctypes.c_void_p()
    return not ctypes.CDLL(None).getifaddrs(ctypes.byref(first))


def main(*unit: str) -> None:
    seccomp_filters = filters(Path(unit[0]).read_text()) if unit else []
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        prctl(PR_SET_DUMPABLE, 1)  # its own files of /proc are its own again
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    for each in seccomp_filters:
        each.load()
    abilities = {
        "walls": tried(landlock_version),
        "shared_memory": tried(lambda: bool(own_names(16))),
        "signals": tried(never_kill),
        "networks": tried(networks_listed),
        "priority": tried(lowest_priority),
        "alone": tried(
            lambda: bool(own_names(16, ([tempfile.gettempdir()], ["/usr"], [])))
        ),  # last: there is little left
    }
    sys.stdout.write(json.dumps(abilities))


if __name__ == "__main__":
    main(*sys.argv[1:])
