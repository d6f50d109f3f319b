"""Read about processes from /proc, and kill those that do not end by themselves."""

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
QUICK_LOOKS, LOOKS_AT_ONE, NEWEST = 200, 5, 100  # of `_kill_newest`: rounds, rounds for each process, newest processes
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ended:
    """How a process ended. `code` is negative where a signal ended it. `seconds` is the processor time that it used,
    `peak` the most bytes that it had in memory."""

    code: int
    seconds: float
    peak: int


def began(pid: int) -> int | None:
    """Return when a process started, in clock ticks, or None if it is gone or a zombie."""
    fields = _fields(pid)
    return None if fields is None or fields[0] in ("Z", "X") else int(fields[19])


def alive(pid: int, start: int) -> bool:
    """Return whether this very process is running, and no later one with the same id."""
    return began(pid) == start


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process. None can leave the family of a subreaper, whatever sessions it opens."""
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
    """Return the bytes that a process has in memory, without pages of files: the machine has the code of libraries only
    once, however many processes run it, and can drop it at any time."""
    try:
        text = (PROC / str(pid) / "status").read_bytes()
    except OSError:
        return 0
    return sum(1024 * int(kilobytes) for kilobytes in OWN_PAGES.findall(text))


def shared_memory(pids: Iterable[int]) -> int:
    """Return the bytes in folders for shared memory that these processes have for themselves, without the machine's own
    folder, which others use."""
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
    """Yield the files without a name that these processes have open, each once. They take room until they are closed
    by all, and are in no folder."""
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
    """Return the device number of files that are only in memory and never had a name."""
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
    """Return the processor time of a process and of those of its descendants that were waited for."""
    fields = _fields(pid)
    return 0.0 if fields is None else sum(map(int, fields[11:15])) / TICKS


def out_of_memory_kills() -> int:
    """Return how often this machine's kernel killed a process because there was no memory left."""
    with contextlib.suppress(OSError):
        for line in (PROC / "vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def with_word(word: str) -> list[int]:
    """Return the processes, except ourselves, whose environment had this word when they began, as far as we may read
    it."""
    needle, pids = word.encode(), []
    for pid in _all():
        with contextlib.suppress(OSError):
            if pid != os.getpid() and needle in (PROC / str(pid) / "environ").read_bytes():
                pids.append(pid)
    return pids


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process. It is no error if the process is gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_account(uid: int) -> None:
    """Kill all processes of an account at once, so that none can escape by forking. Only root can do this, and it is
    never done to our own account or one of the system."""
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


def kill_with_family(pid: int, patience: float = 3.0) -> None:
    """Kill another process and all of its descendants, which it must keep as a subreaper does. It is stopped first, so
    that it starts nobody meanwhile."""
    kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + patience
    while (family := [each for each in descendants(pid) if began(each)]) and time.monotonic() < deadline:
        for each in family:
            kill(each)
        time.sleep(0.005)
    kill(pid)


def kill_family(uid: int | None, patience: float = 3.0) -> bool:
    """Kill our descendants until none is left. Return False if some are left after `patience` seconds."""
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
    """Kill our children among the newest processes of the machine, as quickly as we can. A process that forks and ends
    is gone before all of /proc is read; its child is then ours, as we are a subreaper."""
    us, newest, looks = str(os.getpid()), 0, dict[int, int]()
    for _ in range(QUICK_LOOKS):
        before, newest = newest, _newest()
        since = before if newest - NEWEST <= before <= newest else newest - NEWEST
        looks |= dict.fromkeys(range(since + 1, newest + 1), LOOKS_AT_ONE)
        for pid in list(looks):
            fields = _fields(pid)
            if fields and fields[1] == us:  # otherwise its parent may still run, and be our child
                kill(pid)
            looks[pid] -= 1
            if not fields or not looks[pid]:
                del looks[pid]
        reap()


def _newest() -> int:
    """Return the id that was given to the newest process."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((PROC / "loadavg").read_text().split()[4])
    return 0


def reap() -> dict[int, Ended]:
    """Wait for all children that have ended, those that we started and orphans that became ours, and return how they
    ended."""
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
    """Return the fields of /proc/PID/stat from the third on, as the second, the name, may have any characters."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
