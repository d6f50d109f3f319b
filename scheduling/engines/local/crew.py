"""The processes of a gang: started with their places and limits, heard, counted, asked to go."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scheduling.engines.local import processes
from scheduling.engines.local.confine import MEGABYTE
from scheduling.engines.local.files import LONGEST_LINE, Folder, told
from scheduling.engines.local.launch import words
from scheduling.engines.local.logbook import Logbook
from scheduling.engines.local.processes import Ended

COORDINATOR, SERVER, WORKER = "coordinator", "ps", "worker"
MOST_PROGRESS = 4 * MEGABYTE
Wanted = tuple[tuple[str, int, str], ...]  # role, rank, server
FACTS = ("epoch", "epochs", "loss", "seconds", "steps_per_second", "minibatch_seconds", "exchange_seconds", "workers",
         "servers", "gradient_mb")  # fmt: skip


@dataclass
class Process:
    """One of them. `leaving`: it was asked to."""

    role: str
    rank: int
    server: str
    pid: int
    leaving: bool = False


class Crew:
    """All of them, and what they say."""

    def __init__(self, folder: Folder, plan: dict[str, Any], log: Logbook) -> None:
        self.folder, self.plan, self.log = folder, plan, log
        self.running: dict[int, Process] = {}  # by process id
        self.done: set[tuple[str, int]] = set()  # ended by themselves
        self.coordinator_code: int | None = None
        self.restarts = 0
        self.pausing = self.begun = False
        self.facts: dict[str, Any] = {}
        self.last_word = self.sentence = ""
        self._pipes = selectors.DefaultSelector()
        self._rest: dict[int, bytes] = {}  # what has come of a line
        self._progress_left = MOST_PROGRESS

    # Starting and ending.

    def start_all(self, wanted: Wanted) -> None:
        """The coordinator on the first server, and all members; raises `OSError` where one cannot be started."""
        self.coordinator_code, self.pausing, self.begun, self.last_word = None, False, False, ""
        self.done.clear()
        first = self._addresses(wanted)
        self._start(COORDINATOR, 0, wanted[0][2], first)
        for role, rank, server in wanted:
            self._start(role, rank, server, first)
        servers = sorted({server for _, _, server in wanted})
        self.log.note(f"Started: {len(wanted)} processes and a coordinator on {', '.join(servers)}.")

    def can_become(self, soon: Wanted) -> bool:
        """Whether the job can go on while it changes: some of each kind stay, and nobody leaves before it began."""
        here = {(each.role, each.rank, each.server) for each in self.running.values() if each.role != COORDINATOR}
        kinds = {role for role, _, _ in here.intersection(soon)}
        return (self.begun or here <= set(soon)) and {SERVER, WORKER} <= kinds

    def consists_of(self, members: Wanted) -> bool:
        """Whether exactly these are there, or have ended by themselves."""
        here = {(process.role, process.rank, process.server) for process in self.running.values()}
        missing = {(role, rank) for role, rank, _ in set(members) - here}
        return {each for each in here if each[0] != COORDINATOR} <= set(members) and missing <= self.done

    def resize(self, wanted: Wanted, soon: Wanted) -> None:
        """Ask those to go who will not be wanted soon, start those who are missing."""
        for process in self.running.values():
            place = (process.role, process.rank, process.server)
            if process.role != COORDINATOR and place not in soon and not process.leaving:
                process.leaving = True
                processes.kill(process.pid, 15)
                self.log.note(f"{process.role} {process.rank} is asked to leave.")
        here = {(process.role, process.rank) for process in self.running.values()}
        for role, rank, server in wanted:
            if (role, rank, server) in soon and (role, rank) not in here | self.done:
                self._start(role, rank, server, None)
                self.log.note(f"{role} {rank} joins on {server}.")

    def ask_to_stop(self) -> None:
        """Save and end."""
        for process in self.running.values():
            if process.role == COORDINATOR and not process.leaving:
                process.leaving = self.pausing = True
                processes.kill(process.pid, 15)

    def paused(self) -> None:
        """The coordinator has saved; whoever is left goes at once, and all can be started anew."""
        for process in self.running.values():
            process.leaving = True
            processes.kill(process.pid)
        self.coordinator_code = None

    def forget(self, pid: int, ended: Ended) -> Process | None:
        """One ended; None: it was none of those we started."""
        process = self.running.pop(pid, None)
        if process is not None and process.role == COORDINATOR:
            self.coordinator_code = ended.code
            self.listen(0)  # its last words
        return process

    def _start(self, role: str, rank: int, server: str, first: dict[str, list[str]] | None) -> None:
        ours = {SERVER: "ps", WORKER: "worker", COORDINATOR: "chief"}
        peers = first or self._addresses(self._everybody())
        spec = {"cluster": {ours[name]: peers[name] for name in peers}, "task": {"type": ours[role], "index": rank}}
        surroundings = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": self.plan["base"],
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder.work),
            "TMPDIR": str(self.folder.work),
            "TF_CONFIG": json.dumps(spec),
            "ROLE": role,
            "RANK": str(rank),
            "PEERS": " ".join(f"{name}={','.join(listed)}" for name, listed in peers.items()),
            "JOB_SECRET": self.plan["secret"],
            "BOURSE_RUN": self.folder.key,
        }
        output, theirs = os.pipe()
        news, news_theirs = os.pipe() if role == COORDINATOR else (-1, -1)
        try:
            pid = self._spawn(role, server, surroundings, theirs, news_theirs)
        finally:
            os.close(theirs)
            if news_theirs >= 0:
                os.close(news_theirs)
        self.running[pid] = Process(role, rank, server, pid)
        self._listen_to(output, (role, rank, False))
        if news >= 0:
            self._listen_to(news, (role, rank, True))

    def _spawn(self, role: str, server: str, surroundings: dict[str, str], output: int, news: int) -> int:
        plan = self.plan
        folder, python = str(self.folder.work), plan["python"]
        command = [python, *words(folder, plan["uid"], plan["cpu_seconds"], plan["limits"], bare=plan["bare"])]
        command += [python, *plan["arguments"]]
        command += ["--folder", folder, "--outlive-parent"]  # we see to its end ourselves
        if role == COORDINATOR:
            command += ["--progress", f"fd:{news}"]
        process = subprocess.Popen(
            command,
            env=surroundings,
            cwd=plan["base"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[news] if news >= 0 else [],
            process_group=self._group(server),
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

    def _everybody(self) -> Wanted:
        members = {(role, rank): server for phase in self.plan["phases"] for role, rank, server in phase["members"]}
        return tuple((role, rank, server) for (role, rank), server in sorted(members.items()))

    def _addresses(self, members: Wanted) -> dict[str, list[str]]:
        ports = self.plan["ports"]
        listed = {COORDINATOR: [f"127.0.0.1:{ports[COORDINATOR][0]}"]}
        for name in (SERVER, WORKER):
            ranks = sorted(rank for role, rank, _ in members if role == name)
            listed[name] = [f"127.0.0.1:{ports[name][rank]}" for rank in ranks]
        return listed

    # Listening.

    def _listen_to(self, pipe: int, about: tuple[str, int, bool]) -> None:
        os.set_blocking(pipe, False)
        self._pipes.register(pipe, selectors.EVENT_READ, about)
        self._rest[pipe] = b""

    def listen(self, seconds: float) -> None:
        """What has come, or comes within so many seconds."""
        for key, _ in self._pipes.select(seconds):
            role, rank, news = key.data
            try:
                data = os.read(key.fd, 256 * 1024)
            except BlockingIOError:
                continue
            lines = (self._rest[key.fd] + data).split(b"\n")
            self._rest[key.fd] = lines.pop()[: 4 * LONGEST_LINE]
            for line in lines:
                if news:
                    self._told(line)
                else:
                    self.log.line(role, rank, line.decode("utf-8", "replace"))
            if not data:
                self._pipes.unregister(key.fd)
                if rest := self._rest.pop(key.fd):
                    self.log.line(role, rank, rest.decode("utf-8", "replace"))
                os.close(key.fd)

    def _told(self, line: bytes) -> None:
        row = told(line)
        if not row or len(line) + 1 > self._progress_left:
            return
        self._progress_left -= len(line) + 1
        with self.folder.progress.open("ab") as file:
            file.write(line + b"\n")
        event = row["event"]
        self.begun = self.begun or event == "started"
        if event == "epoch":
            self.facts = {name: row[name] for name in FACTS if isinstance(row.get(name), int | float)}
            self.log.line(COORDINATOR, 0, f"epoch {row.get('epoch')} of {row.get('epochs')}: loss {row.get('loss')}")
        elif event in ("started", "finished", "stopped", "failed", "peer_lost", "straggler", "refused", "scaled"):
            self.log.line(COORDINATOR, 0, f"{event} {row.get('sentence') or row.get('reason') or ''}".strip())
        if event in ("finished", "stopped", "failed"):
            self.last_word, self.sentence = event, str(row.get("sentence") or "")[:200]

    def listed(self) -> list[list[Any]]:
        """Role, rank, server and process id of each."""
        found: Iterable[Process] = self.running.values()
        return [[process.role, process.rank, process.server, process.pid] for process in found]
