"""The engine of one machine: for each gang a folder and a supervisor, found again by key, process id and start."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from scheduling.engines.base import ENDED, LOST, WAITING, EngineFault, Gang, Handle, Phase, Status
from scheduling.engines.local import files, processes
from scheduling.engines.local.accounts import Accounts, Rights, give
from scheduling.engines.local.accounts import rights as tried
from scheduling.engines.local.files import Folder
from scheduling.engines.local.limits import Limits
from scheduling.engines.local.ports import Ports
from scheduling.engines.programs import Program

LEASE_SECONDS = 15.0  # shorter than the market's patience with a silent engine: nobody runs unpaid
OPEN_ENDED_SECONDS = 7 * 86_400.0  # for which an open-ended gang may use processor time
LOST_WORD = "whoever watched over it was lost"


class LocalEngine:
    """`Engine`, with processes. `root`: where everything is kept; `base`: where Python finds the programs."""

    name = "local"

    def __init__(
        self,
        root: Path,
        base: Path,
        programs: Mapping[str, Program],
        *,
        limits: Limits | None = None,
        lease_seconds: float = LEASE_SECONDS,
        python: str = sys.executable,
        rights: Rights | None = None,
    ) -> None:
        self.root, self.base, self.programs = root, base, programs
        self.limits, self.lease_seconds = limits or Limits(), lease_seconds
        self.python = python  # of the programs
        self._ports = Ports()
        self._accounts = Accounts(lambda: rights or tried(root, base, python, self.limits))
        self._children: set[int] = set()

    # The contract.

    def start(self, gang: Gang) -> Handle:
        """A supervisor that has the whole plan. It starts the gang at its first phase."""
        program = self.programs.get(gang.program)
        if program is None:
            raise EngineFault(f"There is no program {gang.program!r} here.")
        folder = Folder(self.root, gang.home, gang.key)
        try:
            self.touch()
            folder.make()
            uid = self._accounts.take(gang.key)
            give(folder.work, uid)
            files.write(folder.plan, self._plan(gang, program, uid))
            return self._supervise(folder)
        except OSError as error:
            self._forget(gang.key)
            raise EngineFault(f"The gang could not be started: {error.strerror or error}.") from error

    def status(self, handle: Handle) -> Status:
        """What its supervisor said last; where that is not the end and nobody is there, it is lost."""
        folder = Folder(self.root, handle.home, handle.key)
        there = self._alive(handle)
        said = files.read(folder.state) or {"state": WAITING}
        status = Status(
            state=said["state"],
            started_at=said.get("started_at"),
            ended_at=said.get("ended_at"),
            end=said.get("end", ""),
            detail=said.get("detail", ""),
            exit_code=said.get("exit_code"),
            progress=said.get("progress", {}),
            restarts=said.get("restarts", 0),
        )
        if status.state == ENDED:
            self._forget(handle.key)
            return status
        if there:
            return status
        self._sweep(handle)
        return Status(ENDED, status.started_at, time.time(), LOST, LOST_WORD, None, status.progress, status.restarts)

    def change(self, handle: Handle, end_at: float, phases: Sequence[Phase] | None = None) -> None:
        """Its supervisor reads the plan again."""
        folder = Folder(self.root, handle.home, handle.key)
        if plan := files.read(folder.plan):
            if phases is not None:
                ports = self._ports.more(handle.key, plan["ports"], _counts(phases))
                plan = plan | {"phases": _phases(phases), "ports": ports}
            files.write(folder.plan, plan | {"end_at": end_at})

    def stop(self, handle: Handle, *, pause: bool = False) -> None:
        """Within two seconds it has saved and is gone."""
        folder = Folder(self.root, handle.home, handle.key)
        plan, word = files.read(folder.plan), "paused" if pause else "stopped"
        if plan and plan["stop"] != word:
            files.write(folder.plan, plan | {"stop": word})

    def find(self, home: str, key: str) -> Handle | None:
        """By the command line of its supervisor."""
        for _, found, pid in _supervisors(self.root):
            if found == key and (began := processes.began(pid)) is not None:
                return Handle(key, home, pid, began)
        return None

    def reconcile(self, handles: Sequence[Handle]) -> None:
        """Ports and accounts of those that live are taken; supervisors nobody knows are ended with their gangs."""
        _ = self._accounts.rights  # found out now, not in the moments before a slot
        known = {handle.key for handle in handles}
        for handle in handles:
            plan = files.read(Folder(self.root, handle.home, handle.key).plan)
            if plan and self._alive(handle):
                self._ports.keep(handle.key, plan["ports"])
                if plan["uid"] is not None:
                    self._accounts.keep(handle.key, plan["uid"])
        for _, key, pid in _supervisors(self.root):
            if key not in known:
                processes.kill(pid)

    def pause_all(self) -> int:
        """Ask everybody of ours who is there, known or not."""
        found = list(_supervisors(self.root))
        for home, key, pid in found:
            self.stop(Handle(key, home, pid, 0), pause=True)
        return len(found)

    def end_all(self, patience: float) -> None:
        """Nobody of ours is left: the whole market stops, and whoever should have asked them may be dead."""
        deadline = time.monotonic() + patience
        while self.pause_all() and time.monotonic() < deadline:
            time.sleep(0.05)
        for home, key, pid in list(_supervisors(self.root)):
            processes.kill(pid)
            self._sweep(Handle(key, home, pid, 0))

    def touch(self) -> None:
        """The lease of all gangs begins anew. Supervisors that have ended are let go."""
        for pid in list(self._children):
            self._let_go(pid)
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "alive").touch()

    def clean(self, home: str) -> None:
        """Nothing of this home is wanted any more."""
        shutil.rmtree(self.root / home, ignore_errors=True)

    # How.

    def _plan(self, gang: Gang, program: Program, uid: int | None) -> dict[str, object]:
        seconds = OPEN_ENDED_SECONDS if gang.open_ended else gang.end_at - gang.phases[0].at
        cpu_seconds = self.limits.cpu_seconds(seconds)
        return {
            "key": gang.key,
            "base": str(self.base),
            "python": self.python,
            "arguments": list(program.arguments(gang.parameters)),
            "secret": secrets.token_hex(24),
            "uid": uid,
            "bare": uid is None and self._accounts.rights.bare,
            "ports": self._ports.take(gang.key, _counts(gang.phases)),
            "phases": _phases(gang.phases),
            "end_at": gang.end_at,
            "stop": "",
            "limits": asdict(self.limits),
            "cpu_seconds": cpu_seconds,
            "cpu_seconds_together": cpu_seconds * (1 + max(len(phase.members) for phase in gang.phases)),
            "lease_seconds": self.lease_seconds,
        }

    def _supervise(self, folder: Folder) -> Handle:
        command = [sys.executable, "-m", "scheduling.engines.local.supervisor"]
        command += [str(folder.root), folder.home, folder.key]
        with (folder.ours / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(self.base), "BOURSE_RUN": folder.key},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        process.returncode = 0  # we wait for it ourselves, as for those that we adopt
        self._children.add(process.pid)
        return Handle(folder.key, folder.home, process.pid, processes.began(process.pid) or 0)

    def _alive(self, handle: Handle) -> bool:
        self._let_go(handle.pid)
        return processes.alive(handle.pid, handle.began)

    def _let_go(self, pid: int) -> None:
        """What is left of a supervisor of ours that has ended."""
        if pid in self._children and os.waitpid(pid, os.WNOHANG)[0]:
            self._children.discard(pid)

    def _sweep(self, handle: Handle) -> None:
        """Its supervisor is gone without a word: so is whoever it started, and we make sure of those they started."""
        plan = files.read(Folder(self.root, handle.home, handle.key).plan)
        if plan and plan["uid"] is not None:
            processes.kill_account(plan["uid"])
        for pid in processes.with_word(f"BOURSE_RUN={handle.key}"):
            processes.kill(pid)
        self._forget(handle.key)

    def _forget(self, key: str) -> None:
        self._ports.forget(key)
        self._accounts.forget(key)


def _counts(phases: Sequence[Phase]) -> dict[str, int]:
    """For each role one more than its largest rank."""
    counts = {"coordinator": 1, "ps": 0, "worker": 0}
    for phase in phases:
        for member in phase.members:
            counts[member.role] = max(counts[member.role], member.rank + 1)
    return counts


def _phases(phases: Sequence[Phase]) -> list[dict[str, object]]:
    return [
        {"at": phase.at, "members": [[member.role, member.rank, member.server] for member in phase.members]}
        for phase in phases
    ]


def _supervisors(root: Path) -> Iterator[tuple[str, str, int]]:
    """Home, key and process id of every supervisor that works below our root, whoever started it."""
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            said = Path("/proc", entry, "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "scheduling.engines.local.supervisor" in said and str(root) in said:
            place = said.index(str(root))
            yield said[place + 1], said[place + 2], int(entry)
