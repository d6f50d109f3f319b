"""A supervisor watches over one gang from its start to its end, whatever it runs. `watch` starts it, and `parts` does
for one part of a gang on a cluster.

It keeps to the slots by itself, as the plan says which members run when. It continues while the engine is gone, and
ends the gang if the engine is gone for too long. No process of the gang outlives it.
"""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from scheduling.engines.base import (
    BY_OPERATOR,
    ENDED,
    FAILED,
    GUARD_KILLED,
    LOST,
    NOT_ALL_CAME,
    PAUSED,
    RUNNING,
    STOPPED,
    STOPPING,
    WAITING,
)
from scheduling.engines.launcher import files, processes
from scheduling.engines.launcher.confine import MEGABYTE, PR_SET_CHILD_SUBREAPER, prctl
from scheduling.engines.launcher.consumption import Consumption
from scheduling.engines.launcher.crew import COORDINATOR
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.logbook import Logbook
from scheduling.engines.launcher.members import Members, Wanted
from scheduling.engines.launcher.others import Others
from scheduling.engines.launcher.parts import LOOPBACK, GangPart, dealt, free_ports, part_name
from scheduling.engines.launcher.processes import Ended

TICK = 0.05
LEAD = 1.5  # seconds before a change at which members that must leave are asked to
KILL_LEAD = 0.6  # seconds before its end at which the processes that are left are killed
STOP_SECONDS = 2.0  # the time to save where the end is not that of a slot
WATCH_SECONDS = 0.5
BEAT_SECONDS = 1.0
CLOCKS_DIFFER = 5.0
LINGER_SECONDS = 60.0  # how long we keep on killing after the last record, while a process does not die
LAST_WORD_SECONDS = 10.0  # how long we try to write the last record


class Supervisor(ABC):
    """Watches over one gang, or one part of it, which has the members of one generation on one server.

    A gang of the local engine has no parts: its supervisor has all generations, all servers, and the engine's ports.
    """

    crew: Members
    coordinated: ClassVar[bool]  # the gang has a coordinator on its first server, which needs a port, too

    def __init__(self, folder: Folder, part: GangPart | None = None) -> None:
        self.folder, self.part = folder, part
        self.plan: dict[str, Any] = self._read_plan() or {}
        self.read_at = folder.plan.stat().st_mtime_ns
        self.log = Logbook(folder.log, self.plan["limits"]["log_mb"] * MEGABYTE)
        self.others: Others | None = None
        self.own: dict[str, dict[str, int]] = {}  # a part's own ports by role and rank; else the plan has the ports
        self.chosen: dict[str, Any] = {}  # what we choose here, in place of what the plan has
        if part:
            self._take_part(part)
        self.crew = self.gather()
        self.consumption = Consumption(folder.work)
        self.memory_kills = processes.out_of_memory_kills()
        self.has_signal = False  # whether a signal to stop came
        self.stopping: tuple[str, str, float] | None = None  # how it ends, why, and by when
        self.end: tuple[str, str] | None = None
        self.started_at: float | None = None
        self.watched_at = self.told_at = 0.0
        self.last_document: dict[str, Any] = {}
        self.alive_seen = (0, time.monotonic())  # the engine's sign of life, and when it last changed
        self.spoke_at = time.monotonic()  # when we last wrote our own record
        self.delivered: dict[str, list[list[float]]] = {}  # by server, the begin and end of each span
        self.guard, self.began = os.getppid(), time.time()

    def _read_plan(self) -> dict[str, Any] | None:
        """Read the plan. For a part, keep only its own generation and that generation's end."""
        plan = files.read(self.folder.plan)
        if plan is None or self.part is None:
            return plan
        phases = [phase for phase in plan["phases"] if phase["number"] == self.part.generation]
        end_at = 0.0 if not phases else plan["end_at"]
        if phases and phases[0] is not plan["phases"][-1]:  # the last one continues for as long as the gang may
            end_at = min(end_at, phases[0]["end"])
        before = [phase for phase in plan["phases"] if phase["number"] < self.part.generation][-1:]
        return {**plan, "phases": phases, "end_at": end_at, "ports": {}, "before": before}

    def _take_part(self, part: GangPart) -> None:
        """Choose ports and GPUs for our members, and note the other parts that we wait for."""
        placed = self._members()
        first = placed[0][2] if placed else part.server
        own = [(role, rank) for role, rank, server in placed if server == part.server]
        if self.coordinated and first == part.server:
            own.append((COORDINATOR, 0))
        free = free_ports(self.folder.key + part.server, len(own))
        for (role, rank), port in zip(own, free):  # noqa: B905  `strict` came with Python 3.10
            self.own.setdefault(role, {})[str(rank)] = port
        ports = {role: list(ports.values()) for role, ports in self.own.items()}
        self.choose(ports=ports, devices=dealt(own, self.plan.get("gpus", {}), os.environ))
        here = self.folder
        folders = {
            each: replace(here, part=part_name(part.generation, each))
            for each in {server for _, _, server in placed} - {part.server}
        }
        before = [
            replace(here, part=part_name(phase["number"], each))
            for phase in self.plan["before"]
            for each in {server for _, _, server in phase["members"]}
        ]
        self.others = Others(folders, first, before)

    def choose(self, **settings: Any) -> None:
        """Put what we choose here into the plan, also when it is read again."""
        self.chosen.update(settings)
        self.plan.update(settings)

    def _members(self) -> Wanted:
        """Return the members of our only generation, on all servers."""
        return tuple((role, rank, server) for phase in self.plan["phases"] for role, rank, server in phase["members"])

    def _address_of(self, role: str, rank: int) -> str:
        if self.part is None:
            return f"{LOOPBACK}:{self.plan['ports'][role][rank]}"
        if (port := self.own.get(role, {}).get(str(rank))) is not None:
            return f"{self._host()}:{port}"
        return (self.others and self.others.address(role, rank)) or f"{LOOPBACK}:0"

    def _host(self) -> str:
        return str(self.plan.get("hosts", {}).get(self.part.server, LOOPBACK)) if self.part else LOOPBACK

    def _leads(self) -> bool:
        """Return whether we lead the gang: it has no parts, or ours is on the first server, where a coordinator is."""
        return self.part is None or self.others is None or self.others.first == self.part.server

    def _of_us(self, members: Wanted) -> Wanted:
        return members if self.part is None else tuple(each for each in members if each[2] == self.part.server)

    def run(self) -> None:
        """Watch over the gang until it has ended. Nobody of it is left, however this ends."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            self._watch()
        except BaseException:
            processes.kill_family(self.plan["uid"])
            raise

    def _watch(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        if self.part and not self.plan["phases"]:
            self.end = STOPPED, "this generation is not wanted any more"
        while self.end is None:
            try:
                self.look(time.time())
                self.tell()
            except OSError:
                self.endure(time.time())
            self.crew.listen(TICK)
            self.notice(processes.reap())
            if self.end is None:
                self.advance(time.time())
        self.finish(*self.end)

    def endure(self, now: float) -> None:
        """Continue while the disk is full, or the shared folder is gone. By the plan that was read last, the gang runs
        to its end, or until we could write no record for the length of a lease."""
        if self.stopping is None and now >= self.leaves_at():
            self.begin_stop(STOPPED, self._reason("its reservation ends"), self.plan["end_at"] - KILL_LEAD)
        elif self.stopping is None and time.monotonic() - self.spoke_at > self.plan["lease_seconds"]:
            where = "the shared folder does not answer" if self.part else "the disk takes no records of it"
            self.begin_stop(PAUSED, where, now + STOP_SECONDS)

    def _ask(self, number: int, frame: object) -> None:
        self.has_signal = True

    def finish(self, how: str, why: str) -> None:
        """Kill all processes that are left, and write the last record."""
        is_clear = processes.kill_family(self.plan["uid"])
        self.crew.listen_to_the_end()
        last = f"{how.capitalize()}: {why.rstrip('.')}."
        self.log.close(last if is_clear else f"{last} Somebody does not die.")
        deadline = time.monotonic() + LAST_WORD_SECONDS
        while True:
            try:
                self.tell(how, why)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(TICK)
        if not is_clear:  # the end is recorded, but we still try to end the processes that did not die
            processes.kill_family(self.plan["uid"], LINGER_SECONDS)

    # What depends on the program.

    @abstractmethod
    def gather(self) -> Members:
        """Return the members that will run; none of them is started yet."""

    @abstractmethod
    def notice(self, ended: dict[int, Ended]) -> None:
        """Note that processes ended."""

    @abstractmethod
    def advance(self, now: float) -> None:
        """Take the next step: start, resize, save or end the gang."""

    @abstractmethod
    def ask_to_stop(self) -> None:
        """Ask the program to save and end."""

    def leaves_at(self) -> float:
        """Return when it is asked to save because its time will be over."""
        return float(self.plan["end_at"]) - LEAD

    def facts(self) -> dict[str, Any]:
        """Return what else its record has, for the other parts."""
        return {}

    # Events.

    def look(self, now: float) -> None:
        """Check for new orders, the engine's sign of life, the other parts, and limits."""
        if (changed := self.folder.plan.stat().st_mtime_ns) != self.read_at:
            self.read_at, self.plan = changed, {**(self._read_plan() or self.plan), **self.chosen}
            self.crew.plan = self.plan
        if self.stopping is None:
            if self.plan["stop"]:
                self.begin_stop(self.plan["stop"], self._reason("the engine asked for it"), now + STOP_SECONDS)
            elif self.has_signal and self.part:
                self.begin_stop(LOST, f"it was ended by the cluster {BY_OPERATOR}", now + STOP_SECONDS)
            elif self.has_signal or self._engine_is_silent(now):
                why = "it was asked to" if self.has_signal else "the engine was silent for too long"
                self.begin_stop(PAUSED, why, now + STOP_SECONDS)
            elif now >= self.leaves_at():
                self.begin_stop(STOPPED, self._reason("its reservation ends"), self.plan["end_at"] - KILL_LEAD)
        if self.part and os.getppid() != self.guard and self.end is None:
            self.end = LOST, GUARD_KILLED
        if self.others and self.end is None:
            self.others.look()
            self.crew.begun = self.crew.begun or self.others.begun()
            self.end = self.others.verdict() if self.started_at else None
        if now - self.watched_at > WATCH_SECONDS:
            self.watched_at = now
            self._count(now)
            if (excess := self.consumption.excess(self.plan)) and self.end is None:
                self.end = FAILED, excess

    def _reason(self, usual: str) -> str:
        """Return why the gang ends: as its plan says, or as usual. A plan of an older version says nothing of it."""
        return str(self.plan.get("why") or usual)

    def _engine_is_silent(self, now: float) -> bool:
        """Return whether the engine was silent for longer than the lease, by our own clock, as that of the engine's
        machine may differ. A sign of life that is far too old does not count."""
        try:
            mark = self.folder.alive.stat().st_mtime_ns
        except FileNotFoundError:
            return True
        if mark != self.alive_seen[0]:
            self.alive_seen = mark, time.monotonic()
        lease = self.plan["lease_seconds"]
        return time.monotonic() - self.alive_seen[1] > lease or now - mark / 1e9 > lease + CLOCKS_DIFFER

    def _count(self, now: float) -> None:
        """Add to `delivered` the servers on which all members run, or have done all of their work."""
        wanted = self._of_us(self._wanted(now))
        if self.started_at is None or not wanted:
            return
        here = {(each.role, each.rank) for each in self.crew.running.values()} | self.crew.done
        for server in {server for _, _, server in wanted}:
            if all((role, rank) in here for role, rank, place in wanted if place == server):
                spans = self.delivered.setdefault(server, [])
                if spans and now - spans[-1][1] < 4 * WATCH_SECONDS:
                    spans[-1][1] = now
                else:
                    spans.append([max(self.started_at, now - WATCH_SECONDS), now])

    # Next steps.

    def begin_stop(self, how: str, why: str, by: float) -> None:
        """Ask the program to save and end, until `by` or shortly before its end, whichever is first."""
        self.stopping = how, why, min(by, self.plan["end_at"] - KILL_LEAD)
        if self.crew.running:
            self.log.note("It is asked to save and end.")  # its last line has the reason, and when it was over
        self.ask_to_stop()

    def _all_came(self) -> bool:
        """Return whether all other parts have come. Where one does not come in time, the gang is lost before it
        starts."""
        if self.others is None:
            return True
        missing = self.others.missing()
        if self.others.before_us():
            return False  # the generation before still saves what we continue from
        since = max(self.plan["phases"][0]["at"], self.began)  # if the engine was late, it was so for all parts
        if missing and time.time() > since + self.plan["gather_seconds"]:
            self.end = LOST, f"{NOT_ALL_CAME}: {', '.join(missing)}"
        return not missing

    def _wanted(self, moment: float) -> Wanted:
        members: Wanted = ()
        for phase in self.plan["phases"]:
            if phase["at"] <= moment:
                members = tuple((role, rank, server) for role, rank, server in phase["members"])
        return members

    # The record.

    def tell(self, how: str = "", why: str = "") -> None:
        """Write our record: where it changed, at most twice a second, and each second anyway. The last record is
        durable."""
        now = time.time()
        running = STOPPING if self.stopping else RUNNING
        state = ENDED if how else running if self.started_at else WAITING
        document = {
            "state": state,
            "started_at": self.started_at,
            "end": how,
            "detail": why,
            "exit_code": self.crew.exit_code,
            "restarts": self.crew.restarts,
            "progress": dict(self.crew.facts),
            "members": self.crew.rows(),
            "begun": self.crew.begun,
        }
        if self.part:
            document |= {"host": self._host(), "ports": self.own, **self.facts()}
        changed = document != self.last_document and (
            how or state != self.last_document.get("state") or now - self.told_at > 0.5
        )
        if changed or now - self.told_at > BEAT_SECONDS:
            spans = [[server, *span] for server, periods in sorted(self.delivered.items()) for span in periods]
            last = {"ended_at": now} if how else {}
            files.write(self.folder.state, {**document, "beat": now, "delivered": spans, **last}, durable=bool(how))
            self.last_document, self.told_at, self.spoke_at = document, now, time.monotonic()


def how(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    names = {each.value: each.name for each in signal.Signals}
    return f"was ended by {names.get(-code, f'signal {-code}')}"
