"""The engine of one machine: for each gang a folder and a supervisor, found again by key, process id and start."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from scheduling.engines.base import ENDED, LOST, WAITING, EngineFault, Gang, Handle, Phase, Status
from scheduling.engines.local import files, processes
from scheduling.engines.local.files import Folder
from scheduling.engines.local.limits import Limits
from scheduling.engines.programs import Program

FIRST_PORT, LAST_PORT = 20_000, 32_000  # below those that the kernel gives to callers
FIRST_ACCOUNT, ACCOUNTS = 62_000, 2_000
LEASE_SECONDS = 60.0
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
    ) -> None:
        self.root, self.base, self.programs = root, base, programs
        self.limits, self.lease_seconds = limits or Limits(), lease_seconds
        self._ports: dict[str, set[int]] = {}  # by key
        self._accounts: dict[str, int] = {}
        self._children: set[int] = set()
        self._may_change_account: bool | None = None

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
            uid = self._account(gang.key)
            if uid is not None:
                _give(folder.work, uid)
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
            wanted = plan["phases"] if phases is None else _phases(phases)
            files.write(folder.plan, plan | {"phases": wanted, "end_at": end_at})

    def stop(self, handle: Handle, *, pause: bool = False) -> None:
        """Within two seconds it has saved and is gone."""
        folder = Folder(self.root, handle.home, handle.key)
        if plan := files.read(folder.plan):
            files.write(folder.plan, plan | {"stop": "paused" if pause else "stopped"})

    def find(self, home: str, key: str) -> Handle | None:
        """By the command line of its supervisor."""
        for found, pid in _supervisors(self.root):
            if found == key and (began := processes.began(pid)) is not None:
                return Handle(key, home, pid, began)
        return None

    def reconcile(self, handles: Sequence[Handle]) -> None:
        """Ports and accounts of those that live are taken; supervisors nobody knows are ended with their gangs."""
        known = {handle.key for handle in handles}
        for handle in handles:
            plan = files.read(Folder(self.root, handle.home, handle.key).plan)
            if plan and self._alive(handle):
                self._ports[handle.key] = {port for ports in plan["ports"].values() for port in ports}
                if plan["uid"] is not None:
                    self._accounts[handle.key] = plan["uid"]
        for key, pid in _supervisors(self.root):
            if key not in known:
                processes.kill(pid)

    def touch(self) -> None:
        """The lease of all gangs begins anew."""
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "alive").touch()

    def clean(self, home: str) -> None:
        """Nothing of this home is wanted any more."""
        shutil.rmtree(self.root / home, ignore_errors=True)

    # How.

    def _plan(self, gang: Gang, program: Program, uid: int | None) -> dict[str, object]:
        counts = {"coordinator": 1, "ps": 0, "worker": 0}
        for phase in gang.phases:
            for member in phase.members:
                counts[member.role] = max(counts[member.role], member.rank + 1)
        return {
            "key": gang.key,
            "base": str(self.base),
            "arguments": list(program.arguments(gang.parameters)),
            "secret": secrets.token_hex(24),
            "uid": uid,
            "ports": self._take_ports(gang.key, counts),
            "phases": _phases(gang.phases),
            "end_at": gang.end_at,
            "stop": "",
            "limits": asdict(self.limits),
            "cpu_seconds": int(max(60.0, 2 * (gang.end_at - gang.phases[0].at))),
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
        if handle.pid in self._children and os.waitpid(handle.pid, os.WNOHANG)[0]:
            self._children.discard(handle.pid)
        return processes.alive(handle.pid, handle.began)

    def _sweep(self, handle: Handle) -> None:
        """Its supervisor is gone without a word: so is whoever it started, and we make sure of those they started."""
        plan = files.read(Folder(self.root, handle.home, handle.key).plan)
        if plan and plan["uid"] is not None:
            processes.kill_account(plan["uid"])
        for pid in processes.with_word(f"BOURSE_RUN={handle.key}"):
            processes.kill(pid)
        self._forget(handle.key)

    def _forget(self, key: str) -> None:
        self._ports.pop(key, None)
        self._accounts.pop(key, None)

    def _take_ports(self, key: str, counts: Mapping[str, int]) -> dict[str, list[int]]:
        taken = {port for ports in self._ports.values() for port in ports}
        free = _free_ports(taken, FIRST_PORT + int(key[:6], 16) % (LAST_PORT - FIRST_PORT))
        try:
            found = {role: [next(free) for _ in range(count)] for role, count in counts.items()}
        except StopIteration:
            raise OSError("no port is free") from None
        self._ports[key] = {port for ports in found.values() for port in ports}
        return found

    def _account(self, key: str) -> int | None:
        """An account of its own for each gang that lives; None: we are not root, or it could not read the programs."""
        if self._may_change_account is None:
            self._may_change_account = os.geteuid() == 0 and self._account_works(FIRST_ACCOUNT - 1)
        if not self._may_change_account:
            return None
        first = int(key[6:12], 16)
        for number in range(ACCOUNTS):
            uid = FIRST_ACCOUNT + (first + number) % ACCOUNTS
            if uid not in self._accounts.values():
                self._accounts[key] = uid
                return uid
        raise OSError("all accounts are taken")

    def _account_works(self, uid: int) -> bool:
        trial = self.root / "trial"
        trial.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711)
        _give(trial, uid)
        place = {"folder": str(trial), "uid": uid, "cpu_seconds": 60, "limits": asdict(self.limits)}
        command = [sys.executable, "-m", "scheduling.engines.local.launch", json.dumps(place), sys.executable]
        command += ["-c", "import scheduling.engines.trainer, numpy; open('works', 'w').close()"]
        surroundings = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(self.base)}
        try:
            done = subprocess.run(
                command, env=surroundings, cwd=self.base, check=False, capture_output=True, timeout=30
            )
            return done.returncode == 0
        finally:
            shutil.rmtree(trial, ignore_errors=True)


def _phases(phases: Sequence[Phase]) -> list[dict[str, object]]:
    return [
        {"at": phase.at, "members": [[member.role, member.rank, member.server] for member in phase.members]}
        for phase in phases
    ]


def _give(folder: Path, uid: int) -> None:
    """The folder and the files in it: a checkpoint of an earlier gang. Links are not followed."""
    os.chown(folder, uid, uid, follow_symlinks=False)
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            os.chown(os.path.join(where, name), uid, uid, follow_symlinks=False)


def _free_ports(taken: set[int], first: int) -> Iterator[int]:
    for number in range(LAST_PORT - FIRST_PORT):
        port = FIRST_PORT + (first - FIRST_PORT + number) % (LAST_PORT - FIRST_PORT)
        if port in taken:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            yield port


def _supervisors(root: Path) -> Iterator[tuple[str, int]]:
    """Key and process id of every supervisor that works below our root, whoever started it."""
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            words = Path("/proc", entry, "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "scheduling.engines.local.supervisor" in words and str(root) in words:
            yield words[words.index(str(root)) + 2], int(entry)
