"""Watch over a program of the catalogue. Its processes are started together, and save and end together.

To change its size or servers, it is saved, ended and started again. Its work is done when all workers exit with 0; any
other end of a process is the program's fault, unless it can be shown that it was not.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from itertools import groupby
from typing import Any

from scheduling.engines.base import FAILED, FINISHED, LOST
from scheduling.engines.launcher import files, processes
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.gpus import FOLDER, Gpu, TakenGpus
from scheduling.engines.launcher.logbook import several
from scheduling.engines.launcher.members import MemberProcess, Wanted
from scheduling.engines.launcher.parts import DEVICES, GangPart, dealt
from scheduling.engines.launcher.processes import Ended
from scheduling.engines.launcher.program_crew import UNPACK, ProgramCrew, with_devices
from scheduling.engines.launcher.supervisor import KILL_LEAD, LEAD, STOP_SECONDS, Supervisor, how
from scheduling.engines.launcher.unpack import CHECKPOINT, NO_ROOM, PROGRESS
from scheduling.programs import starting
from scheduling.programs.starting import WORKER, Command, GangMember, Start

ALL_DONE = "the program did all of its work"
GPU_SECONDS = 5.0  # for the gang before, which ends at its own pace, to give its GPUs back


class ProgramSupervisor(Supervisor):
    """Watches over a gang of a program of the catalogue, or one part of it."""

    crew: ProgramCrew
    coordinated = False

    def __init__(self, folder: Folder, part: GangPart | None = None) -> None:
        super().__init__(folder, part)
        self.members: Wanted = ()  # the members that were started, here and on other servers
        self.sized_at = 0.0  # when they were started
        self.resumes_at = 0.0  # when the job continues after a change
        self.leaving: float | None = None  # until when the members may save, before they are started anew
        self.restart: int | None = None  # how often the job was started before; None until its files are unpacked
        machine = [Gpu(*each) for each in self.plan.get("machine_gpus", ())]
        self.short_since: float | None = None  # since when too few GPUs are free
        self.gpus = TakenGpus(folder.root / FOLDER, machine)

    @property
    def program(self) -> dict[str, Any]:
        """The plan's part about the program."""
        return dict(self.plan["own"])

    def gather(self) -> ProgramCrew:
        """Return the members; there is no coordinator."""
        return ProgramCrew(self.folder, self.plan, self.log)

    def ask_to_stop(self) -> None:
        """Ask all processes by SIGTERM to save and end."""
        self.crew.ask_to_stop()

    def leaves_at(self) -> float:
        """Return when it is asked to save: the grace before its end, but not before half of its time is over."""
        end_at = float(self.plan["end_at"])
        begun = max([self.sized_at, *(phase["at"] for phase in self.plan["phases"][-1:])])
        return self._asked_at(begun, end_at)

    def _asked_at(self, begun: float, end: float) -> float:
        return max(end - max(self.program["grace_seconds"], LEAD), min((begun + end) / 2, end - LEAD))

    def facts(self) -> dict[str, Any]:
        """Return what the parts wait for: the leading part unpacks the files, and needs to know when the others are
        done."""
        return {"restart": self.restart, "done": self._own_are_done()}

    def look(self, now: float) -> None:
        """Check orders and limits, and read what the processes report."""
        super().look(now)
        self.crew.look()
        most = self.program["output_mb"]
        if most is not None and self.end is None and self.crew.output > most * MEGABYTE:
            self.end = FAILED, f"it wrote {self.crew.output // MEGABYTE} MB of output, more than {most}"

    def finish(self, how: str, why: str) -> None:
        """Read the last reports, then end the gang."""
        self.crew.look_now()
        super().finish(how, why)

    # Events.

    def notice(self, ended: dict[int, Ended]) -> None:
        """Note that processes ended. Where they were asked to, any exit code is right."""
        for pid, each in ended.items():
            self.consumption.add(each)
            process = self.crew.forget(pid, each)
            if process is None:
                continue
            fault = self.crew.fault(pid)
            if self.stopping or self.leaving or self.end:
                continue
            if process.role == UNPACK:
                self._unpacked(each.code)
            elif fault:
                self.end = self._not_started(process.server, fault)
            elif each.code:
                self.end = self._failed(process, pid, each)
            elif not any((one.role, one.rank) == (process.role, process.rank) for one in self.crew.running.values()):
                self.crew.done.add((process.role, process.rank))

    def _unpacked(self, code: int) -> None:
        if code:
            why = self.crew.last_lines("engine", 0) or f"unpacking {how(code)}"
            self.end = (LOST if code == NO_ROOM else FAILED), why.rstrip(".")
            return
        self.restart = int((files.read(self.folder.starts) or {}).get("starts", 0))
        files.write(self.folder.starts, {"starts": self.restart + 1})

    def _not_started(self, server: str, fault: int) -> tuple[str, str]:
        """Decide whose fault it is that the command could not be started. If it belongs in the program's own folder,
        the program lacks it; if it belongs on the machine, the operator of the machine is at fault."""
        word = self.program["command"]["words"][0]
        if "/" in word and not word.startswith("/"):
            return FAILED, f"{word} cannot be started from the program's folder ({os.strerror(fault)})"
        if fault == errno.ENOENT or ("/" not in word and fault == errno.EACCES):  # it may not read a folder of PATH
            return LOST, f"{word} was not found on node {server}"
        return LOST, f"{word} cannot be started on node {server} ({os.strerror(fault)})"

    def _failed(self, process: MemberProcess, pid: int, ended: Ended) -> tuple[str, str]:
        """Return how and why a process failed. SIGKILL is no excuse, since a program finds ways to have it sent to
        itself; the kernel's count of kills for lack of memory is one."""
        what = f"{process.role} {process.speaker} {how(ended.code)}"
        if excess := self.consumption.excess_of(pid, ended, self.plan):
            return FAILED, f"{what}: {excess}"
        if -ended.code == signal.SIGKILL and processes.out_of_memory_kills() > self.memory_kills:
            return LOST, f"{what}; this machine has run out of memory"
        lines = self.crew.last_lines(process.role, process.speaker)
        return FAILED, f"{what}: {lines}" if lines else what

    # Next steps.

    def advance(self, now: float) -> None:
        """Take the next step: start, change, or end the gang."""
        if self.stopping or self.leaving:
            by = self.stopping[2] if self.stopping else self.leaving or now
            if now < by and processes.descendants(os.getpid()):
                return
            if self.stopping:
                self.end = self.stopping[0], self.stopping[1]
            else:
                self._clear()
        elif self.members:
            change = self._change(now)
            if change and now >= self._asked_at(self.sized_at, change["at"]):
                self._leave(change, now)
            elif self._all_are_done():
                self.end = FINISHED, ALL_DONE
        elif self._may_start(now):
            self._start(self._wanted(now), now)

    def _change(self, now: float) -> dict[str, Any] | None:
        """Return the first generation, from the current one on, whose members differ from those that run."""
        begun = [phase for phase in self.plan["phases"] if phase["at"] <= now]
        later = [*begun[-1:], *self.plan["phases"][len(begun) :]]
        return next((phase for phase in later if _members_of(phase) != self.members), None)

    def _leave(self, change: dict[str, Any], now: float) -> None:
        """Ask the program to save and end because of a change: it continues with other members, or later."""
        by = max(change["at"] - KILL_LEAD, now + min(STOP_SECONDS, self.program["grace_seconds"]))
        if self.program["keeps_size"] and change["members"] and _size(_members_of(change)) != _size(self.members):
            return self.begin_stop(LOST, "its size was to change, and the program keeps one", by)
        self.log.note("It is asked to save and end, to go on otherwise." if change["members"] else "It has to pause.")
        self.leaving, self.resumes_at = by, float(change["at"])
        return self.crew.ask_to_stop()

    def _clear(self) -> None:
        processes.kill_family(self.plan["uid"])
        self.crew.listen_to_the_end()
        self.crew.look_now()
        self.crew.clear()
        self.leaving, self.members, self.restart = None, (), None
        self.gpus.give_back()

    def _may_start(self, now: float) -> bool:
        """Return whether the members can be started: all parts have come, and the files are in their folder. The part
        that leads unpacks them."""
        wanted = self._wanted(now)
        if self.crew.running or now < self.resumes_at or not wanted or wanted != self._wanted(now + LEAD):
            return False
        if not self._all_came():
            return False
        if self.restart is None and self._leads():
            try:
                self.crew.unpack(wanted[0][2])
            except OSError as error:
                self.end = LOST, f"its files could not be unpacked ({error.strerror})"
        elif self.restart is None and self.others:
            self.restart = self.others.records[self.others.first].get("restart")
        return self.restart is not None and self._has_gpus(wanted, now)

    def _has_gpus(self, wanted: Wanted, now: float) -> bool:
        """Return whether the members have their GPUs, and take them where this machine has no cluster that does so."""
        if not self.plan.get("machine_gpus"):
            return True
        each = self.plan["gpus"]
        count = sum(each.get(role, 0) for role, _, _ in wanted)
        try:
            has_them = self.gpus.take(count)
        except OSError as error:
            self.end = LOST, f"its GPUs could not be taken ({error.strerror})"
            return False
        if has_them:
            names = ",".join(self.gpus.names)
            devices = dealt([(role, rank) for role, rank, _ in wanted], each, dict.fromkeys(DEVICES, names))
            self.choose(devices=devices, gpu_files=self.gpus.files)
            self.short_since = None
            return True
        self.short_since = self.short_since or now
        if now > self.short_since + GPU_SECONDS:
            here = len(self.plan["machine_gpus"])
            self.end = LOST, f"it needs {several(count, 'GPU')}, and of the {here} of this machine too few are free"
        return False

    def _start(self, everybody: Wanted, now: float) -> None:
        own = set(self._of_us(everybody))
        server_of = {(role, rank): server for role, rank, server in everybody}
        start = Start(
            job=self.program["job"],
            tenant=self.program["tenant"],
            slot_seconds=self.program["slot_seconds"],
            ends_at=int(self._until(now)),
            checkpoint=str(self.folder.work / CHECKPOINT),
            progress=str(self.folder.work / PROGRESS),
            restart=self.restart or 0,
            members=tuple(self._member(role, rank, server, everybody) for role, rank, server in everybody),
        )
        command = Command(**{**self.program["command"], "words": tuple(self.program["command"]["words"])})
        count = 0
        try:
            of_member = groupby(starting.processes(command, start), key=lambda process: process.member)
            for member, processes_of_it in of_member:
                place, starts = (member.role, member.rank, server_of[member.role, member.rank]), list(processes_of_it)
                if place in own:
                    self.crew.start(starts, place[2])
                    count += len(starts)
        except OSError as error:
            self.end = LOST, f"not all of it could be started ({error.strerror})"
            return
        again = f", after {several(self.restart, 'start')} before" if self.restart else ""
        servers = ", ".join(sorted({place[2] for place in own}))
        self.log.note(f"Started: {several(count, 'process', 'processes')} on {servers}{again}.")
        self.members, self.sized_at = everybody, now
        self.started_at = self.started_at or time.time()

    def _member(self, role: str, rank: int, server: str, everybody: Wanted) -> GangMember:
        """Return a member with its address and its GPUs. Of a member on another server only their number matters."""
        host, _, port = self._address_of(role, rank).rpartition(":")
        count = int(self.plan.get("gpus", {}).get(role, 0))
        dealt = self.plan.get("devices", {}).get(f"{role} {rank}", {})
        names = next((dealt[variable] for variable in DEVICES if dealt.get(variable)), "")
        before = sum(self.plan.get("gpus", {}).get(each[0], 0) for each in _before(role, rank, server, everybody))
        return GangMember(role, rank, host, int(port), with_devices(names, count, before))

    def _until(self, now: float) -> float:
        """Return when the members that are started now will be gone."""
        later = [phase for phase in self.plan["phases"] if phase["at"] > now]
        wanted = self._wanted(now)
        return min([self.plan["end_at"], *(phase["at"] for phase in later if _members_of(phase) != wanted)])

    def _own_are_done(self) -> bool:
        """Return whether our workers are done. Parameter servers run for as long as there are workers, and need not
        end by themselves."""
        workers = {(role, rank) for role, rank, _ in self._of_us(self.members) if role == WORKER}
        return bool(self.members) and workers <= self.crew.done

    def _all_are_done(self) -> bool:
        """Return whether all parts are done. Only the part that leads says so."""
        if not self._own_are_done() or not self._leads():
            return False
        records = self.others.records if self.others else {}
        return all(server in records and records[server].get("done") for server in self._elsewhere())

    def _elsewhere(self) -> set[str]:
        return set() if self.part is None else {server for _, _, server in self.members} - {self.part.server}


def _members_of(phase: dict[str, Any]) -> Wanted:
    return tuple((role, rank, server) for role, rank, server in phase["members"])


def _size(members: Wanted) -> dict[str, int]:
    roles = [role for role, _, _ in members]
    return {role: roles.count(role) for role in set(roles)}


def _before(role: str, rank: int, server: str, everybody: Wanted) -> Wanted:
    """Return the members on the same server that come before this one."""
    there = tuple(each for each in everybody if each[2] == server)
    return there[: there.index((role, rank, server))]
