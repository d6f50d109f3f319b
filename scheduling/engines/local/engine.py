"""The engine of one machine. Each gang has a folder and a supervisor, found again by key, process id and start."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scheduling.engines.base import (
    ENDED,
    LOST,
    WAITING,
    ClusterFinding,
    Counts,
    Fault,
    Gang,
    Generation,
    Handle,
    Report,
    ServerHealth,
    Status,
    Timings,
)
from scheduling.engines.launcher import files, processes
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.gpus import Gpu
from scheduling.engines.launcher.launch import IN_PACKAGE, UNPACK_IN_PACKAGE
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.launcher.strangers import removed
from scheduling.engines.local import accounts
from scheduling.engines.local.accounts import Accounts, Rights, give
from scheduling.engines.local.gpus import gpus_each, gpus_sold
from scheduling.engines.local.ports import Ports
from scheduling.engines.plans import (
    continued,
    limits_of,
    own_part,
    processor_seconds,
    room_alerts,
    status_of,
    write_program,
)
from scheduling.engines.programs import RegisteredProgram

TIMINGS = Timings(lead=2.5, least_slot=1.0, patience=20.0, lease=15.0, stop=2.0)
OPEN_ENDED_SECONDS = 7 * 86_400.0  # an open-ended gang's limit of processor time is that of a gang this long
WATCH = "scheduling.engines.launcher.watch"
WATCHERS = {WATCH, "scheduling.engines.launcher.supervisor"}  # an older version started gangs with the second
LOST_WORD = "whoever watched over it was lost"


class LocalEngine:
    """An `Engine` that runs gangs as processes. Everything is kept below `root`; `base` has the code of the programs;
    a copy of Python may be put into `shared`, for accounts that cannot read ours. `gpus` are those that jobs may
    use."""

    name = "local"

    def __init__(
        self,
        root: Path,
        base: Path,
        programs: Mapping[str, RegisteredProgram],
        *,
        limits: ProcessLimits | None = None,
        timings: Timings = TIMINGS,
        rights: Rights | None = None,
        shared: Path | None = None,
        gpus: Sequence[Gpu] = (),
    ) -> None:
        self.root, self.base, self.programs = root, base, programs
        self.limits, self.timings = limits or ProcessLimits(), timings
        self.gpus = tuple(gpus)
        self._ports = Ports()
        self._accounts = Accounts(
            lambda: rights or accounts.rights(root, base, programs.values(), self.limits, shared=shared)
        )
        self._children: set[int] = set()

    # The methods of `Engine`.

    def submit(self, gangs: Sequence[Gang]) -> dict[str, Handle | Fault]:
        """Start a supervisor with the whole plan for each gang. It starts the gang at its first generation."""
        return {gang.key: self._submit(gang) for gang in gangs}

    def _submit(self, gang: Gang) -> Handle | Fault:
        if fault := self._cannot(gang):
            return fault
        folder, uid = Folder(self.root, gang.home, gang.key), None
        try:
            if folder.plan.exists() and (handle := self._started(folder)):
                return handle
            self.touch()
            folder.make()
            uid = self._accounts.take(gang.key)
            give(folder.work, uid)
            if gang.own:
                write_program(folder, gang.own)
            files.write(folder.plan, self._plan(gang, uid))
            return self._supervise(folder)
        except OSError as error:
            self._take_back(folder, uid)
            self._forget(gang.key)
            return Fault(f"The gang could not be started: {error.strerror or error}.")

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        """Return the state that each supervisor recorded last."""
        return {handle.key: self._observe(handle) for handle in handles}

    def _observe(self, handle: Handle) -> Status:
        """Return the state of a gang. It is lost where its supervisor is gone and has recorded no end."""
        folder = Folder(self.root, handle.home, handle.key)
        there = self._alive(handle)
        record = files.read(folder.state) or {"state": WAITING}
        status = status_of(record)
        if status.state == ENDED:
            self._close(folder)
            self._forget(handle.key)
            return status
        if there:
            return status
        self._sweep(handle)
        return replace(status, state=ENDED, ended_at=time.time(), end=LOST, detail=LOST_WORD, exit_code=None)

    def change(self, handle: Handle, end_at: float, generations: Sequence[Generation] = (), *, why: str = "") -> None:
        """Write the new end and generations into the plan. The gang's supervisor then reads the plan again."""
        folder = Folder(self.root, handle.home, handle.key)
        if plan := files.read(folder.plan):
            if generations:
                phases = continued(plan["phases"], generations, time.time(), anew=bool(plan.get("own")))
                ports = self._ports.more(handle.key, plan["ports"], _counts(phases))
                plan = plan | {"phases": phases, "ports": ports}
            files.write(folder.plan, plan | {"end_at": end_at, "why": why})

    def stop(self, handle: Handle, *, pause: bool = False, why: str = "") -> None:
        """Order a gang to save and end. It is gone within two seconds."""
        folder = Folder(self.root, handle.home, handle.key)
        plan, word = files.read(folder.plan), "paused" if pause else "stopped"
        if plan and plan["stop"] != word:
            files.write(folder.plan, plan | {"stop": word, "why": why})

    def find(self, home: str, key: str) -> Handle | None:
        """Find a gang by the command line of its supervisor."""
        for _, reference, pid in _supervisors(self.root):
            if reference == key and (began := processes.began(pid)) is not None:
                return Handle(key, home, {"pid": pid, "began": began})
        return None

    def reconcile(self, handles: Sequence[Handle]) -> None:
        """Note the ports and accounts of the gangs that run as taken, and end unknown supervisors with their gangs."""
        _ = self._accounts.rights  # try the rights now, not in the moments before a slot
        keys = {handle.key for handle in handles}
        for handle in handles:
            plan = files.read(Folder(self.root, handle.home, handle.key).plan)
            if plan and self._alive(handle):
                self._ports.keep(handle.key, plan["ports"])
                if plan["uid"] is not None:
                    self._accounts.keep(handle.key, plan["uid"])
        for home, key, pid in _supervisors(self.root):
            if key not in keys:
                self._end(Handle(key, home, {}), pid)

    def pause_all(self) -> int:
        """Order every gang below our root to pause, known or not, and return how many there are."""
        supervisors = list(_supervisors(self.root))
        for home, key, _ in supervisors:
            self.stop(Handle(key, home, {}), pause=True)
        return len(supervisors)

    def end_all(self, patience: float) -> None:
        """End all gangs because the whole market stops; the process that should have paused them may be dead. Those
        that have not ended after `patience` seconds are killed."""
        deadline = time.monotonic() + patience
        while self.pause_all() and time.monotonic() < deadline:
            time.sleep(0.05)
        for home, key, pid in list(_supervisors(self.root)):
            self._end(Handle(key, home, {}), pid)

    def touch(self) -> None:
        """Renew the lease of all gangs, and reap supervisors that have ended."""
        for pid in list(self._children):
            self._let_go(pid)
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "alive").touch()

    def clean(self, home: str) -> None:
        """Remove the folder of a home that is not needed any more."""
        with suppress(OSError):
            removed(self.root / home)

    def servers(self) -> dict[str, ServerHealth]:
        """Return no server: whatever their names are, all of them are this machine."""
        return {}

    def report(self) -> Report:
        """Report on the disk; there is no cluster to report on."""
        return Report(room_alerts(self.root))

    def check(self, sold: Counts) -> list[ClusterFinding]:
        """Return what gangs are not kept from on this machine, and whether its pools sell more GPUs than it has for
        jobs; empty where nothing of ours is open to them."""
        warning = self._accounts.rights.warning
        findings = [ClusterFinding(warning, breaks=False)] if warning else []
        if self.gpus and (units := gpus_sold(sold)) > len(self.gpus):
            findings.append(ClusterFinding(f"LOCAL_GPUS has {len(self.gpus)} GPUs, and pools here sell {units}."))
        return findings

    # Helpers of these methods.

    def _cannot(self, gang: Gang) -> Fault | None:
        """Return why this engine cannot run the gang: it asks for something that the engine does not have."""
        if gang.own is None:
            return None if gang.program in self.programs else Fault(f"There is no program {gang.program!r} here.")
        if gang.own.image:
            return Fault("The engine of this machine starts no container images.")
        if gang.own.modules:
            return Fault("The engine of this machine has no modules to load.")
        return None

    def _plan(self, gang: Gang, uid: int | None) -> dict[str, object]:
        seconds = OPEN_ENDED_SECONDS if gang.open_ended else gang.end_at - gang.generations[0].at
        limits, rights = limits_of(self.limits, gang), self._accounts.rights
        gpus = gpus_each(gang.amounts) if self.gpus and gang.own else {}
        if any(gpus.values()):
            limits = replace(limits, address_space_mb=0)
        cpu_seconds = processor_seconds(limits, gang, seconds)
        phases = continued([], gang.generations, time.time(), anew=gang.own is not None)
        return {
            "own": own_part(gang, UNPACK_IN_PACKAGE),
            "key": gang.key,
            "python": rights.python,
            "launch": IN_PACKAGE,
            "environment": dict(rights.environment),
            "readable": list(rights.readable),
            "alone": rights.alone,
            "beside": [],
            "arguments": [] if gang.own else list(self.programs[gang.program].arguments(gang.parameters)),
            "secret": secrets.token_hex(24),
            "uid": uid,
            "bare": uid is None and rights.bare,
            "ports": self._ports.take(gang.key, _counts(phases)),
            "gpus": gpus,
            "machine_gpus": list(self.gpus) if any(gpus.values()) else [],
            "gpu_files": [],  # the supervisor takes GPUs for the gang, and then knows them
            "phases": phases,
            "end_at": gang.end_at,
            "stop": "",
            "why": "",
            "limits": asdict(limits),
            "cpu_seconds": cpu_seconds,
            "lease_seconds": self.timings.lease,
        }

    def _started(self, folder: Folder) -> Handle | None:
        """Return the gang that has this plan already, if it runs or has recorded its end; None if it never began."""
        if reference := self.find(folder.home, folder.key):
            return reference
        record = files.read(folder.state)
        return Handle(folder.key, folder.home, {"pid": 0, "began": 0}) if record and record["state"] == ENDED else None

    def _supervise(self, folder: Folder) -> Handle:
        command = [sys.executable, "-m", WATCH]
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
        process.returncode = 0  # so that `Popen` does not wait for it: we do so ourselves, in `_let_go`
        self._children.add(process.pid)
        began = processes.began(process.pid) or 0
        return Handle(folder.key, folder.home, {"pid": process.pid, "began": began})

    def _alive(self, handle: Handle) -> bool:
        pid = handle.reference.get("pid", 0)
        self._let_go(pid)
        return processes.alive(pid, handle.reference.get("began", 0))

    def _let_go(self, pid: int) -> None:
        """Reap a supervisor that is a child of this process, if it has ended."""
        if pid in self._children and os.waitpid(pid, os.WNOHANG)[0]:
            self._children.discard(pid)

    def _end(self, handle: Handle, supervisor: int) -> None:
        """Kill a gang with its supervisor."""
        processes.kill_with_family(supervisor)
        self._sweep(handle)

    def _sweep(self, handle: Handle) -> None:
        """Kill what may be left of a gang whose supervisor is gone without a record. The processes that the supervisor
        started end with it; those that they started may still run."""
        plan = files.read(Folder(self.root, handle.home, handle.key).plan)
        if plan and plan["uid"] is not None:
            processes.kill_account(plan["uid"])
        for pid in processes.with_word(f"BOURSE_RUN={handle.key}"):
            processes.kill(pid)
        self._close(Folder(self.root, handle.home, handle.key))
        self._forget(handle.key)

    def _close(self, folder: Folder) -> None:
        """Take the gang's folder back from its account."""
        if plan := files.read(folder.plan):
            self._take_back(folder, plan["uid"])

    def _take_back(self, folder: Folder, uid: int | None) -> None:
        """Take a gang's folder back from the account `uid`. A gang of another tenant may get the account soon, and must
        not get what was saved. The job's next gang, which is given the folder, may have begun meanwhile under another
        account; then the folder stays as it is."""
        if uid is not None:
            with suppress(OSError):
                if folder.work.stat().st_uid == uid:
                    os.chown(folder.work, os.geteuid(), os.getegid())

    def _forget(self, key: str) -> None:
        self._ports.forget(key)
        self._accounts.forget(key)


def _counts(phases: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return for each role how many ports it needs: one more than its largest rank."""
    counts = {"coordinator": 1, "ps": 0, "worker": 0}
    for phase in phases:
        for role, rank, _ in phase["members"]:
            counts[role] = max(counts[role], rank + 1)
    return counts


def _supervisors(root: Path) -> Iterator[tuple[str, str, int]]:
    """Yield home, key and process id of every supervisor that works below our root, whoever started it."""
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            words = Path("/proc", entry, "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if WATCHERS.intersection(words) and str(root) in words:
            place = words.index(str(root))
            yield words[place + 1], words[place + 2], int(entry)
