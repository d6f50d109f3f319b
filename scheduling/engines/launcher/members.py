"""The processes of a gang on this machine: started with their places and limits, heard and counted."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from scheduling.engines.launcher import processes
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.files import LONGEST_LINE, Folder
from scheduling.engines.launcher.launch import words
from scheduling.engines.launcher.limits import GangLimits
from scheduling.engines.launcher.logbook import Logbook
from scheduling.engines.launcher.unpack import TEMPORARY

MOST_PROGRESS = 4 * MEGABYTE
BAR_SECONDS = 10.0  # between two states of a line that is written over and over, as progress bars are
MOST_ROUNDS = 64  # of listening to those who are gone
Wanted = tuple[tuple[str, int, str], ...]  # role, rank, server


@dataclass
class MemberProcess:
    """One of them. `leaving`: it was asked to. `speaker`: its rank in the log, where a member is several processes."""

    role: str
    rank: int
    server: str
    pid: int
    leaving: bool = False
    speaker: int = 0


class Members:
    """All of them, and what they say. What a line means is the program's own."""

    def __init__(self, folder: Folder, plan: dict[str, Any], log: Logbook) -> None:
        self.folder, self.plan, self.log = folder, plan, log
        self.running: dict[int, MemberProcess] = {}  # by process id
        self.done: set[tuple[str, int]] = set()  # role and rank of those that ended by themselves
        self.restarts = 0  # of workers that were lost
        self.begun = False
        self.exit_code: int | None = None
        self.facts: dict[str, Any] = {}
        self._pipes = selectors.DefaultSelector()
        self._rest: dict[int, bytes] = {}  # what has come of a line
        self._bar_at: dict[int, float] = {}  # by pipe, when a line that is written over was last heard
        self.output = 0  # bytes
        self._progress_left = MOST_PROGRESS

    def consists_of(self, members: Wanted) -> bool:
        """Whether exactly these are there, or have ended by themselves."""
        here = {(process.role, process.rank, process.server) for process in self.running.values()}
        missing = {(role, rank) for role, rank, _ in set(members) - here}
        return here <= set(members) and missing <= self.done

    def spawn(
        self,
        server: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        output: int,
        handed: Sequence[int] = (),
        stdin: int = subprocess.DEVNULL,
    ) -> int:
        """Its process id; raises `OSError`. `environment` is that of a process which still has our rights: nothing that
        a stranger chose is in it. `handed`: descriptors that go down to it."""
        plan = self.plan
        # On a cluster nothing of ours listens, and programs name ports of their own. 0: whichever is free.
        ports = None if "hosts" in plan else [0, *(port for numbers in plan["ports"].values() for port in numbers)]
        own = {"bare": plan["bare"], "readable": plan["readable"], "ports": ports, "launch": plan["launch"]}
        # Servers of a cluster have their ways with /tmp.
        own |= {"temporary": "" if "hosts" in plan else str(TEMPORARY)}
        own |= {"beside": plan["beside"], "devices": any(plan.get("gpus", {}).values())}
        own |= {"alone": plan.get("alone", False)}  # plans of before say nothing of it
        limits = plan["limits"] | {"memory_mb": GangLimits.of(plan).memory_mb}
        place = words(str(self.folder.work), plan["uid"], plan["cpu_seconds"], limits, **own)
        group = self._group(server)
        if plan["uid"] is not None:  # else it could write, and not open /dev/stderr, as scripts do
            os.fchown(output, plan["uid"], -1)
        process = subprocess.Popen(
            [plan["python"], *place, *command],
            env=environment,
            cwd="/",  # `launch` begins with our rights, and not in a folder into which programs write
            stdin=stdin,
            stdout=output,
            stderr=output,
            pass_fds=handed,
            preexec_fn=partial(os.setpgid, 0, group),  # we have one thread; `process_group` is of Python 3.11
        )
        process.returncode = 0  # we wait for everybody together, strangers too
        return process.pid

    def _group(self, server: str) -> int:
        """Processes on one server are one process group, led by its first that is still there."""
        for process in self.running.values():
            if process.server == server and processes.began(process.pid) is not None:
                group = os.getpgid(process.pid)
                return group
        return 0

    # Listening.

    def listen_to(self, pipe: int, role: str, rank: int, *, news: bool = False) -> None:
        """From now on, its lines are heard. `news`: they go not to the log but to whom the program speaks."""
        os.set_blocking(pipe, False)
        self._pipes.register(pipe, selectors.EVENT_READ, (role, rank, news))
        self._rest[pipe] = b""

    def listen(self, seconds: float) -> None:
        """What has come, or comes within so many seconds."""
        for key, _ in self._pipes.select(seconds):
            role, rank, news = key.data
            try:
                data = os.read(key.fd, 256 * 1024)
            except BlockingIOError:
                continue
            self.output += len(data)
            *lines, rest = (self._rest[key.fd] + data).split(b"\n")
            self._rest[key.fd] = newest(rest)[: 4 * LONGEST_LINE]
            for line in lines:
                self.hear(role, rank, newest(line).rstrip(b"\r"), news=news)
            if b"\r" in rest and not news:
                self._hear_bar(key.fd, role, rank)
            if not data:
                self._pipes.unregister(key.fd)
                self._hear_rest(key)
                os.close(key.fd)

    def listen_to_the_end(self) -> None:
        """All that has come of those who are gone, with last lines that nothing ends."""
        for _ in range(MOST_ROUNDS):
            if not self._pipes.get_map() or not self._pipes.select(0):
                break
            self.listen(0)
        for key in self._pipes.get_map().values():
            self._hear_rest(key)
            self._rest[key.fd] = b""

    def _hear_rest(self, key: selectors.SelectorKey) -> None:
        role, rank, news = key.data
        if (rest := self._rest.pop(key.fd).rstrip(b"\r")) and not news:
            self.hear(role, rank, rest, news=False)

    def _hear_bar(self, pipe: int, role: str, rank: int) -> None:
        now = time.monotonic()
        if (state := self._rest[pipe].rstrip(b"\r")) and now - self._bar_at.get(pipe, -BAR_SECONDS) >= BAR_SECONDS:
            self._bar_at[pipe] = now
            self.hear(role, rank, state, news=False)

    def hear(self, role: str, rank: int, line: bytes, *, news: bool) -> None:
        """A line of one of them."""
        self.log.line(role, rank, line.decode("utf-8", "replace"))

    def keep_progress(self, row: Mapping[str, Any]) -> bool:
        """Write it down for readers; False: there is no room left."""
        line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        if len(line) > self._progress_left:
            return False
        self._progress_left -= len(line)
        try:
            with self.folder.progress.open("ab") as file:
                file.write(line)
        except OSError as error:  # the program goes on, and so do we
            self.log.note(f"A line of progress could not be kept: {error.strerror}.")
        return True

    def rows(self) -> list[list[Any]]:
        """Role, rank, server and process id of each."""
        processes: Iterable[MemberProcess] = self.running.values()
        return [[process.role, process.rank, process.server, process.pid] for process in processes]


def newest(line: bytes) -> bytes:
    """What a terminal shows of a line that is written over: what stands behind the last return that something follows.
    A return at its end stays, as what comes next begins the line anew."""
    text = line.rstrip(b"\r")
    return text.rpartition(b"\r")[2] + line[len(text) :][:1]
