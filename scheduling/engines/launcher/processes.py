"""Processes as /proc tells of them, and the end of those that do not want to end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scheduling.engines.launcher.confine import SHARED_MEMORY

PROC = Path("/proc")
OWN_PAGES = re.compile(rb"^Rss(?:Anon|Shmem):\s*(\d+) kB", re.MULTILINE)
QUICK_LOOKS, LOOKS_AT_ONE, NEWEST = 200, 5, 100  # at the newest processes, at each of them, and how many they are
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ended:
    """How one ended. `code` is negative where a signal did it; `seconds` of processor time, `peak` bytes in memory."""

    code: int
    seconds: float
    peak: int


def began(pid: int) -> int | None:
    """When it started, in clock ticks; None: it is gone, or only waits for its parent to notice."""
    fields = _fields(pid)
    return None if fields is None or fields[0] in ("Z", "X") else int(fields[19])


def alive(pid: int, start: int) -> bool:
    """Whether this very process is there."""
    return began(pid) == start


def descendants(pid: int) -> list[int]:
    """Everybody below it. Nobody leaves a subreaper's family, whatever sessions they open."""
    below: dict[int, list[int]] = {}
    for each in _all():
        if fields := _fields(each):
            below.setdefault(int(fields[1]), []).append(each)
    pids, rest = [], [pid]
    while rest:
        children = below.get(rest.pop(), [])
        pids += children
        rest += children
    return pids


def memory(pid: int) -> int:
    """Bytes it has in memory, without pages of files: the machine has the code of libraries once, however many run it,
    and can leave it out at any time."""
    try:
        text = (PROC / str(pid) / "status").read_bytes()
    except OSError:
        return 0
    return sum(1024 * int(kilobytes) for kilobytes in OWN_PAGES.findall(text))


def shared_memory(pids: Iterable[int]) -> int:
    """Bytes in the folders for shared memory that these have of their own; in the machine's lies what others share."""
    machines = device(SHARED_MEMORY)
    folders = {}
    for pid in pids:
        path = f"{PROC}/{pid}/root{SHARED_MEMORY}"
        if (here := device(path)) not in (None, machines):
            folders[here] = path
    total = 0
    for path in folders.values():
        with contextlib.suppress(OSError):
            room = os.statvfs(path)
            total += (room.f_blocks - room.f_bfree) * room.f_frsize
    return total


def nameless(pids: Iterable[int]) -> Iterator[os.stat_result]:
    """Files without a name that these have open, each once: they take room until the last of them is closed, and nobody
    finds them in a folder."""
    files = set[tuple[int, int]]()
    for pid in pids:
        folder = f"{PROC}/{pid}/fd"
        with contextlib.suppress(OSError):
            for number in os.listdir(folder):
                with contextlib.suppress(OSError):
                    about = os.stat(f"{folder}/{number}")
                    if stat.S_ISREG(about.st_mode) and not about.st_nlink and (about.st_dev, about.st_ino) not in files:
                        files.add((about.st_dev, about.st_ino))
                        yield about


def memory_device() -> int:
    """Of files that are in memory alone and never had a name."""
    file = os.memfd_create("none")
    try:
        return os.fstat(file).st_dev
    finally:
        os.close(file)


def device(path: str | Path) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def processor_seconds(pid: int) -> float:
    """Processor time of it, and of those below it whose end it has noticed."""
    fields = _fields(pid)
    return 0.0 if fields is None else sum(map(int, fields[11:15])) / TICKS


def out_of_memory_kills() -> int:
    """How often this machine's kernel killed somebody because there was no memory left."""
    with contextlib.suppress(OSError):
        for line in (PROC / "vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def with_word(word: str) -> list[int]:
    """Everybody, but ourselves, whose environment had this word when they began; only those we may look at."""
    needle, pids = word.encode(), []
    for pid in _all():
        with contextlib.suppress(OSError):
            if pid != os.getpid() and needle in (PROC / str(pid) / "environ").read_bytes():
                pids.append(pid)
    return pids


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """One that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_account(uid: int) -> None:
    """Everybody of an account at once, so that nobody can fork away; only root can. Never our own account."""
    if uid < 1000 or os.geteuid() != 0:
        return
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.kill(-1, signal.SIGKILL)  # the kernel leaves the caller out
        os._exit(0)
    os.waitpid(child, 0)


def kill_family(uid: int | None, patience: float = 3.0) -> bool:
    """Everybody below us, until nobody is left. False: somebody is."""
    deadline, were_there = time.monotonic() + patience, False
    while True:
        if uid is not None:
            kill_account(uid)
        survivors = descendants(os.getpid())
        for pid in survivors:
            kill(pid)
        reap()
        if were_there:
            _kill_newest()
        if not survivors:
            return True
        if time.monotonic() > deadline:
            return False
        were_there = True
        time.sleep(0.005)


def _kill_newest() -> None:
    """Our children among the newest processes of the machine, in as short a time as we can. Who makes a child and ends
    is gone before all processes have been looked at, and the child is ours then."""
    us, newest, looks = str(os.getpid()), 0, dict[int, int]()
    for _ in range(QUICK_LOOKS):
        before, newest = newest, _newest()
        since = before if newest - NEWEST <= before <= newest else newest - NEWEST
        looks |= dict.fromkeys(range(since + 1, newest + 1), LOOKS_AT_ONE)
        for pid in list(looks):
            fields = _fields(pid)
            if fields and fields[1] == us:  # else its parent may be there still, and is ours
                kill(pid)
            looks[pid] -= 1
            if not fields or not looks[pid]:
                del looks[pid]
        reap()


def _newest() -> int:
    """The last number that a process was given."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((PROC / "loadavg").read_text().split()[4])
    return 0


def reap() -> dict[int, Ended]:
    """All that have ended, ours and those that were left to us."""
    ended = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                break
            seconds = used.ru_utime + used.ru_stime
            ended[pid] = Ended(os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss * 1024)
    return ended


def _all() -> Iterator[int]:
    return (int(name) for name in os.listdir(PROC) if name.isdecimal())


def _fields(pid: int) -> list[str] | None:
    """From the third on: the name may hold anything."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
