"""The processes of a program of the catalogue: start each with its role and rank, read its reports, and end it."""

from __future__ import annotations

import errno
import os
import pwd
import select
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.engines.launcher import files, processes
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.launch import DESCRIPTORS, written_environment
from scheduling.engines.launcher.logbook import Logbook
from scheduling.engines.launcher.members import MemberProcess, Members
from scheduling.engines.launcher.processes import Ended
from scheduling.engines.launcher.unpack import PROGRESS
from scheduling.programs import progress
from scheduling.programs.starting import ProcessStart

SIGTERM = 15
UNPACK = "unpack"
LOOK_SECONDS = 1.0  # between two readings of what a process reports
MOST_READ = 256 * 1024  # bytes that are read at once; of more, only the newest
MOST_ROWS = 5  # rows that are kept of one reading
MOST_NAMES = 100  # different names of numbers
MOST_KEPT, SHARES = MEGABYTE, 8  # bytes of rows for curves; after each eighth of them rows are four times as far apart
LAST_LINES = 3
START_SECONDS = 30.0  # until the processes of a member are started together


@dataclass
class Spoken:
    """What one process reports, and how far its file was read."""

    role: str
    rank: int
    file: str
    at: int = 0  # bytes that were read
    rest: bytes = b""  # the beginning of a line whose end was not written yet
    bad: int = 0  # lines that could not be read
    numbers: dict[str, float] = field(default_factory=dict)  # by name, the newest of each
    row_at: float = 0.0  # when the last row was kept


class _Pipes:
    """What a process that is started has to do with us: its variables, which it reads; its output, and why it could not
    be started, which we read."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = os.memfd_create("environment")
        self.output, self.output_theirs = os.pipe()
        self.fault, self._fault_theirs = os.pipe()
        os.write(self._variables, written_environment(variables))
        os.lseek(self._variables, 0, os.SEEK_SET)

    @property
    def handed(self) -> tuple[int, int, int]:
        return self._variables, self._fault_theirs, self.output_theirs

    def close_ours(self) -> None:
        os.close(self.output)
        os.close(self.fault)

    def close_theirs(self) -> None:
        for descriptor in self.handed:
            os.close(descriptor)


class ProgramCrew(Members):
    """All processes of the program here, and what they report in their files and write as output."""

    def __init__(self, folder: Folder, plan: dict[str, Any], log: Logbook) -> None:
        super().__init__(folder, plan, log)
        self._progress_left = MOST_KEPT
        self.address = ""  # the last web address in the program's output
        self.spoken: dict[tuple[str, int], Spoken] = {}
        self._last_lines: dict[tuple[str, int], list[str]] = {}
        self._faults: dict[int, int] = {}  # by process id, the descriptor from which we read why it was not started
        self._looked_at = 0.0

    # Starting and ending.

    def unpack(self, server: str) -> None:
        """Start a process that puts the program's files into its folder, with no more rights than the program has."""
        output, theirs = os.pipe()
        packed = os.open(self.folder.program, os.O_RDONLY)
        try:
            command = [self.plan["python"], *self.plan["own"]["unpack"]]
            pid = self.spawn(server, command, self._surroundings(), output=theirs, stdin=packed)
        finally:
            os.close(theirs)
            os.close(packed)
        self.running[pid] = MemberProcess(UNPACK, 0, server, pid)
        self.listen_to(output, "engine", 0)

    def start(self, processes: Sequence[ProcessStart], server: str) -> None:
        """Start the processes of one member; raises `OSError`. What several of them have besides their variables is one
        for all: namespaces, and walls. So they reach each other's memory, and with it each other's GPUs."""
        pipes = [_Pipes(self._variables(process)) for process in processes]
        try:
            if len(processes) == 1:
                pids = [self._spawn(processes[0], server, pipes[0].output_theirs, [pipes[0].handed[:2]])]
            else:
                pids = self._started_together(processes, server, pipes)
        except OSError:
            for pipe in pipes:
                pipe.close_ours()
            raise
        finally:
            for pipe in pipes:
                pipe.close_theirs()
        for process, pipe, pid in zip(processes, pipes, pids):  # noqa: B905  `strict` came with Python 3.10
            role, rank = process.member.role, process.rank
            self.running[pid] = MemberProcess(role, process.member.rank, server, pid, speaker=rank)
            self._faults[pid] = pipe.fault
            self.listen_to(pipe.output, role, rank)
            self.spoken[role, rank] = Spoken(role, rank, os.path.basename(process.environment["BOURSE_PROGRESS"]))

    def _started_together(self, processes: Sequence[ProcessStart], server: str, pipes: Sequence[_Pipes]) -> list[int]:
        """Have one launcher start these processes, and return their ids."""
        report, theirs = os.pipe()
        try:
            for pipe in pipes[1:]:
                self.open_to_account(pipe.output_theirs)
            descriptors = [(theirs,), *(pipe.handed for pipe in pipes)]
            self._spawn(processes[0], server, pipes[0].output_theirs, descriptors)
        finally:
            os.close(theirs)
        try:
            return _pids_in(report, len(pipes))
        finally:
            os.close(report)

    def _spawn(self, process: ProcessStart, server: str, output: int, descriptors: Sequence[Sequence[int]]) -> int:
        words = ";".join(",".join(map(str, part)) for part in descriptors)
        handed = [each for part in descriptors for each in part]
        surroundings = self._surroundings() | {DESCRIPTORS: words}
        return self.spawn(server, process.words, surroundings, output=output, handed=handed)

    def _variables(self, process: ProcessStart) -> dict[str, str]:
        user = user_name(self.plan["uid"])
        return {
            "PATH": self._path(),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "USER": user,
            "LOGNAME": user,
            **{name: text for name, text in self.plan["environment"].items() if name != "PYTHONSAFEPATH"},
            **(files.read(self.folder.secrets) or {}),
            **process.environment,
            "HOME": str(self.folder.work),
            "TMPDIR": str(self.folder.work),
            "BOURSE_RUN": self.folder.key,
        }

    def forget(self, pid: int, ended: Ended) -> MemberProcess | None:
        """Read what a process that ended wrote last, forget it and return it; None if it was none that we started."""
        process = self.running.pop(pid, None)
        if process is None:
            return None
        for _ in range(2):  # read what is left in its pipe, and then the pipe's end
            self.listen(0)
        if process.role != UNPACK:
            self.exit_code = self.exit_code or ended.code
        return process

    def fault(self, pid: int) -> int:
        """Return the kernel's number for why a process could not become the program, or 0 if it did."""
        descriptor = self._faults.pop(pid, -1)
        if descriptor < 0:
            return 0
        words = os.read(descriptor, 16)
        os.close(descriptor)
        return int(words or 0)

    def last_lines(self, role: str, rank: int) -> str:
        """Return the last lines of a process's output as one line."""
        return " / ".join(self._last_lines.get((role, rank), ()))

    def ask_to_stop(self) -> None:
        """Ask all our descendants to save and end, as the processes that we started need not pass the signal on."""
        for process in self.running.values():
            process.leaving = True
        for pid in processes.descendants(os.getpid()):
            processes.kill(pid, SIGTERM)

    def clear(self) -> None:
        """Forget all processes, which have ended, so that others can be started."""
        self.running.clear()
        self.done.clear()
        self.spoken = {}
        self.exit_code = None
        for descriptor in self._faults.values():
            os.close(descriptor)
        self._faults = {}

    def _path(self) -> str:
        """Return the PATH. The engine's Python for programs comes first, as the account may not read any other."""
        folders, python = os.environ.get("PATH", os.defpath), self.plan["python"]
        return f"{os.path.dirname(python)}{os.pathsep}{folders}" if os.path.isabs(python) else folders

    def _surroundings(self) -> dict[str, str]:
        """Return the environment of a process that has not given up our rights yet."""
        own = {"PYTHONDONTWRITEBYTECODE": "1", "BOURSE_RUN": self.folder.key}
        return {"PATH": os.environ.get("PATH", ""), **self.plan["environment"], **own}

    # Reading what they report.

    def hear(self, role: str, rank: int, line: bytes, *, news: bool) -> None:
        """Write a line into the log. The last lines of each process are remembered in case it fails."""
        text = line.decode("utf-8", "replace")
        self.log.line(role, rank, text)
        words = "".join(sign if sign.isprintable() else " " for sign in text[:200]).strip()
        if any(sign.isalnum() for sign in words):  # lines of dashes or marks below an error say nothing
            self._last_lines[role, rank] = [*self._last_lines.get((role, rank), ())[-(LAST_LINES - 1) :], words]
        if address := progress.address_in(text):
            self.address = address

    def look(self) -> None:
        """Read what each process reported since the last time: at most once a second, and never much of it."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        self.look_now()

    def look_now(self) -> None:
        """Read the reports now. A number that several processes report is taken from the one with the lowest rank."""
        for spoken in self.spoken.values():
            self._read(spoken)
        numbers: dict[str, float] = {}
        for _, spoken in sorted(self.spoken.items(), reverse=True):
            numbers.update(spoken.numbers)
        numbers = dict(sorted(numbers.items())[:MOST_NAMES])
        facts = {"numbers": numbers, "bad_lines": sum(spoken.bad for spoken in self.spoken.values())}
        if numbers or facts["bad_lines"] or self.address:
            self.facts = facts | ({"url": self.address} if self.address else {})

    def _read(self, spoken: Spoken) -> None:
        try:
            piece, skipped = self._piece(spoken)
        except OSError:
            return  # it does not exist, or is no file that we may read: a program may put anything in its place
        if skipped:
            spoken.rest = b""
            piece = piece.partition(b"\n")[2]
        if not piece:
            return
        rows = progress.read(piece, spoken.rest, most=MOST_ROWS)
        spoken.rest, spoken.bad = rows.rest, spoken.bad + rows.bad
        for row in rows.rows:
            for name, number in row.items():
                if name in spoken.numbers or len(spoken.numbers) < MOST_NAMES:
                    spoken.numbers[name] = number
        self._keep_rows(spoken, rows.rows)

    def _piece(self, spoken: Spoken) -> tuple[bytes, bool]:
        """Return what is new in a process's file, and whether something before it was left out. A program may replace
        folders by links and files by pipes there: we follow no link and wait for no pipe."""
        at = os.open(self.folder.work, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name in PROGRESS.parts:
                inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = inner
            file = os.open(spoken.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        finally:
            os.close(at)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
                return b"", False
            if about.st_size < spoken.at:  # the file was written anew
                spoken.at, spoken.rest = 0, b""
            begin = max(spoken.at, about.st_size - MOST_READ)
            piece, skipped = os.pread(file, MOST_READ, begin), begin > spoken.at
            spoken.at = begin + len(piece)
            return piece, skipped
        finally:
            os.close(file)

    def _keep_rows(self, spoken: Spoken, rows: tuple[Mapping[str, float], ...]) -> None:
        """Keep rows for the curves. The fuller their file is, the longer is the time between two rows of a process."""
        now = time.time()
        gap = LOOK_SECONDS * 4 ** (SHARES * (MOST_KEPT - self._progress_left) // MOST_KEPT)
        if not rows or (spoken.row_at and now - spoken.row_at < 0.9 * gap):
            return
        spoken.row_at = now
        for row in rows if gap <= LOOK_SECONDS else rows[-1:]:
            about = {"event": "numbers", "at": round(now, 3), "role": spoken.role, "rank": spoken.rank}
            self.keep_progress(about | {"numbers": dict(row)})


def user_name(uid: int | None) -> str:
    """Return a user name for scripts and libraries, some of which fail without one. A gang's own account has no name
    on the machine; then it is "bourse"."""
    try:
        return pwd.getpwuid(os.geteuid() if uid is None else uid).pw_name
    except KeyError:
        return "bourse"


def _pids_in(report: int, count: int) -> list[int]:
    """Read which processes were started; raises `OSError` where not all were. Those that were are killed with the gang.
    What follows their numbers is not read: by then the program itself may run, and could have found our pipe."""
    text, deadline = b"", time.monotonic() + START_SECONDS
    while text.count(b"\n") < count and select.select([report], [], [], max(deadline - time.monotonic(), 0.0))[0]:
        if not (piece := os.read(report, 4096)):
            break
        text += piece
    numbers = [int(line) for line in text.split(b"\n")[:count] if line]
    if fault := next((-number for number in numbers if number < 0), 0):
        raise OSError(fault, os.strerror(fault))
    if len(numbers) < count:
        raise OSError(errno.ECHILD, "its launcher ended too soon")
    return numbers


def with_devices(names: str, count: int, first: int) -> tuple[str, ...]:
    """Return the names of a member's GPUs as it got them. Where the cluster named none, they are the numbers from
    `first` on, behind those of the members before it."""
    devices = tuple(name for name in names.split(",") if name)
    return devices if len(devices) == count else tuple(map(str, range(first, first + count)))
