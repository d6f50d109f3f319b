"""The processes of a gang on this machine: start them with their folder and limits, and read what they write."""

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
from scheduling.engines.launcher.cluster_calls import hidden_places
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.files import LONGEST_LINE, Folder
from scheduling.engines.launcher.gpus import machine_devices
from scheduling.engines.launcher.launch import words
from scheduling.engines.launcher.limits import GangLimits
from scheduling.engines.launcher.logbook import Logbook
from scheduling.engines.launcher.unpack import TEMPORARY

MOST_PROGRESS = 4 * MEGABYTE
BAR_SECONDS = 10.0  # between two logged states of a line that is overwritten again and again, as progress bars are
MOST_ROUNDS = 64  # how often we read the pipes of processes that have ended
Wanted = tuple[tuple[str, int, str], ...]  # role, rank, server


@dataclass
class MemberProcess:
    """One process of a member. `leaving` is true once it was asked to end. `speaker` is its rank in the log, where a
    member has several processes."""

    role: str
    rank: int
    server: str
    pid: int
    leaving: bool = False
    speaker: int = 0


class Members:
    """All processes of a gang here, and what they write. Subclasses know what a program's lines mean."""

    def __init__(self, folder: Folder, plan: dict[str, Any], log: Logbook) -> None:
        self.folder, self.plan, self.log = folder, plan, log
        self.running: dict[int, MemberProcess] = {}  # by process id
        self.done: set[tuple[str, int]] = set()  # role and rank of members that ended by themselves
        self.restarts = 0  # how often a worker was lost
        self.begun = False
        self.exit_code: int | None = None
        self.facts: dict[str, Any] = {}
        self._pipes = selectors.DefaultSelector()
        self._rest: dict[int, bytes] = {}  # by pipe, the beginning of a line whose end has not come yet
        self._bar_at: dict[int, float] = {}  # by pipe, when an overwritten line was last logged
        self.output = 0  # bytes that were read of all pipes
        self._progress_left = MOST_PROGRESS

    def consists_of(self, members: Wanted) -> bool:
        """Return whether exactly these members run, or have ended by themselves."""
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
        """Start a process and return its id; raises `OSError`.

        It gets `environment` while it still has our rights, so nothing that a submitter or a program's author chose may
        be in it. `handed` are descriptors that it inherits."""
        plan = self.plan
        # On a cluster nothing of ours listens, and programs choose ports of their own. 0 stands for any free port.
        ports = None if "hosts" in plan else [0, *(port for numbers in plan["ports"].values() for port in numbers)]
        own = {"bare": plan["bare"], "readable": plan["readable"], "ports": ports, "launch": plan["launch"]}
        # The servers of a cluster have arrangements of their own for /tmp.
        own |= {"temporary": "" if "hosts" in plan else str(TEMPORARY)}
        has_gpus = any(plan.get("gpus", {}).values())
        own |= {"beside": plan["beside"], "devices": plan.get("gpu_files", machine_devices()) if has_gpus else ()}
        own |= {"alone": plan.get("alone", False)}  # plans of older versions do not have it
        own |= {"hidden": hidden_places([str(self.folder.work), *plan["beside"]]) if "hosts" in plan else ()}
        limits = plan["limits"] | {"memory_mb": GangLimits.of(plan).memory_mb}
        place = words(str(self.folder.work), plan["uid"], plan["cpu_seconds"], limits, **own)
        group = self._group(server)
        self.open_to_account(output)
        process = subprocess.Popen(
            [plan["python"], *place, *command],
            env=environment,
            cwd="/",  # `launch` begins with our rights, so not in a folder into which programs write
            stdin=stdin,
            stdout=output,
            stderr=output,
            pass_fds=handed,
            preexec_fn=partial(os.setpgid, 0, group),  # we have one thread; `process_group` needs Python 3.11
        )
        process.returncode = 0  # so that `Popen` does not wait for it: `reap` waits for all processes together
        return process.pid

    def open_to_account(self, output: int) -> None:
        """Let the account of the gang open this output, too. Otherwise it could write, but not open /dev/stderr, as
        scripts do."""
        if self.plan["uid"] is not None:
            os.fchown(output, self.plan["uid"], -1)

    def _group(self, server: str) -> int:
        """Return the process group of the members on a server, or 0 for a new one. They are all in one group."""
        for process in self.running.values():
            if process.server == server and processes.began(process.pid) is not None:
                group = os.getpgid(process.pid)
                return group
        return 0

    # Reading what they write.

    def listen_to(self, pipe: int, role: str, rank: int, *, news: bool = False) -> None:
        """Read a pipe's lines from now on. With `news` they are reports to the supervisor, not lines of the log."""
        os.set_blocking(pipe, False)
        self._pipes.register(pipe, selectors.EVENT_READ, (role, rank, news))
        self._rest[pipe] = b""

    def listen(self, seconds: float) -> None:
        """Read what the pipes have, or get within `seconds`."""
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
        """Read all that is left in the pipes of processes that have ended, also last lines without an end."""
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
        """Take a line of a process: here, write it into the log."""
        self.log.line(role, rank, line.decode("utf-8", "replace"))

    def keep_progress(self, row: Mapping[str, Any]) -> bool:
        """Write a row of progress for readers. Return False where there is no room left for it."""
        line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        if len(line) > self._progress_left:
            return False
        self._progress_left -= len(line)
        try:
            with self.folder.progress.open("ab") as file:
                file.write(line)
        except OSError as error:  # the program continues, and so do we
            self.log.note(f"A line of progress could not be kept: {error.strerror}.")
        return True

    def rows(self) -> list[list[Any]]:
        """Return role, rank, server and process id of each process."""
        processes: Iterable[MemberProcess] = self.running.values()
        return [[process.role, process.rank, process.server, process.pid] for process in processes]


def newest(line: bytes) -> bytes:
    """Return what a terminal shows of an overwritten line: what is behind the last carriage return that has text after
    it. A carriage return at the end stays, as the next text begins the line anew."""
    text = line.rstrip(b"\r")
    return text.rpartition(b"\r")[2] + line[len(text) :][:1]
