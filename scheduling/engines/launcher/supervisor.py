"""Watches over one gang from its start to its end, whatever it runs; `watch` begins it, and `parts` for one part of a
gang on a cluster.

It keeps the slots by itself: the plan says who runs when. It goes on while the engine is gone, and ends the gang when
the engine is gone for too long. Nobody of the gang outlives it.
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
LEAD = 1.5  # seconds before a change at which those who must go are asked to
KILL_LEAD = 0.6  # before its end, whoever is left is killed
STOP_SECONDS = 2.0  # to save, where no slot ends
WATCH_SECONDS = 0.5
BEAT_SECONDS = 1.0
CLOCKS_DIFFER = 5.0
LINGER_SECONDS = 60.0  # after the last word, while somebody does not die
LAST_WORD_SECONDS = 10.0  # for a shared folder to take it


class Supervisor(ABC):
    """One gang, or one part of it: its own generation's members on its own server.

    A gang of one machine is one part: it has all generations, all servers, and ports that its engine dealt.
    """

    crew: Members
    coordinated: ClassVar[bool]  # there is a coordinator on the first server, who needs a port, too

    def __init__(self, folder: Folder, part: GangPart | None = None) -> None:
        self.folder, self.part = folder, part
        self.plan: dict[str, Any] = self._read_plan() or {}
        self.read_at = folder.plan.stat().st_mtime_ns
        self.log = Logbook(folder.log, self.plan["limits"]["log_mb"] * MEGABYTE)
        self.others: Others | None = None
        self.own: dict[str, dict[str, int]] = {}  # ports of our members, by role and rank; a gang of one has the plan's
        if part:
            self._take_part(part)
        self.crew = self.gather()
        self.consumption = Consumption(folder.work)
        self.memory_kills = processes.out_of_memory_kills()
        self.has_signal = False  # to stop
        self.stopping: tuple[str, str, float] | None = None  # how it ends, why, by when
        self.end: tuple[str, str] | None = None
        self.started_at: float | None = None
        self.watched_at = self.told_at = 0.0
        self.last_document: dict[str, Any] = {}
        self.alive_seen = (0, time.monotonic())  # the engine's sign of life, and when it last differed
        self.spoke_at = time.monotonic()  # our own
        self.delivered: dict[str, list[list[float]]] = {}  # by server, from and to
        self.guard, self.began = os.getppid(), time.time()

    def _read_plan(self) -> dict[str, Any] | None:
        """Of a part, only what is its own: its generation, and that one's end."""
        plan = files.read(self.folder.plan)
        if plan is None or self.part is None:
            return plan
        phases = [phase for phase in plan["phases"] if phase["number"] == self.part.generation]
        end_at = 0.0 if not phases else plan["end_at"]
        if phases and phases[0] is not plan["phases"][-1]:  # the last one goes on for as long as the gang may
            end_at = min(end_at, phases[0]["end"])
        before = [phase for phase in plan["phases"] if phase["number"] < self.part.generation][-1:]
        return {**plan, "phases": phases, "end_at": end_at, "ports": {}, "before": before}

    def _take_part(self, part: GangPart) -> None:
        """Ports for our members, and whom else we wait for."""
        placed = self._members()
        first = placed[0][2] if placed else part.server
        own = [(role, rank) for role, rank, server in placed if server == part.server]
        if self.coordinated and first == part.server:
            own.append((COORDINATOR, 0))
        free = free_ports(self.folder.key + part.server, len(own))
        for (role, rank), port in zip(own, free):  # noqa: B905  `strict` came with Python 3.10
            self.own.setdefault(role, {})[str(rank)] = port
        self.plan["devices"] = dealt(own, self.plan.get("gpus", {}), os.environ)
        self.plan["ports"] = {role: list(ports.values()) for role, ports in self.own.items()}
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

    def _members(self) -> Wanted:
        """Of our only generation."""
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
        """Whether the coordinator is ours."""
        return self.part is None or self.others is None or self.others.first == self.part.server

    def _of_us(self, members: Wanted) -> Wanted:
        return members if self.part is None else tuple(each for each in members if each[2] == self.part.server)

    def run(self) -> None:
        """Until the gang has ended."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        if self.part and not self.plan["phases"]:
            self.end = STOPPED, "this generation is not wanted any more"
        while self.end is None:
            try:
                self.look(time.time())
                self.tell()
            except OSError:
                if self.part is None:
                    raise
                self.endure(time.time())
            self.crew.listen(TICK)
            self.notice(processes.reap())
            if self.end is None:
                self.advance(time.time())
        self.finish(*self.end)

    def endure(self, now: float) -> None:
        """The shared folder is full or gone. What runs goes on to its end, or until nobody has heard of it for a lease,
        by the plan that was read last."""
        if self.stopping is None and now >= self.leaves_at():
            self.begin_stop(STOPPED, "its reservation ends", self.plan["end_at"] - KILL_LEAD)
        elif self.stopping is None and time.monotonic() - self.spoke_at > self.plan["lease_seconds"]:
            self.begin_stop(PAUSED, "the shared folder does not answer", now + STOP_SECONDS)

    def _ask(self, number: int, frame: object) -> None:
        self.has_signal = True

    def finish(self, how: str, why: str) -> None:
        """Nobody is left, and the last word is written."""
        is_clear = processes.kill_family(self.plan["uid"])
        self.crew.listen_to_the_end()
        last = f"{how.capitalize()}: {why.rstrip('.')}."
        self.log.close(last if is_clear else f"{last} Somebody does not die.")
        deadline = time.monotonic() + (LAST_WORD_SECONDS if self.part else 0.0)
        while True:
            try:
                self.tell(how, why)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(TICK)
        if not is_clear:  # it has been told of; whoever does not die yet is not left to himself
            processes.kill_family(self.plan["uid"], LINGER_SECONDS)

    # What depends on the program.

    @abstractmethod
    def gather(self) -> Members:
        """Those who will run, of whom nobody does yet."""

    @abstractmethod
    def notice(self, ended: dict[int, Ended]) -> None:
        """Processes ended."""

    @abstractmethod
    def advance(self, now: float) -> None:
        """The next thing."""

    @abstractmethod
    def ask_to_stop(self) -> None:
        """Save and end."""

    def leaves_at(self) -> float:
        """When it is asked to save because its time will be over."""
        return float(self.plan["end_at"]) - LEAD

    def facts(self) -> dict[str, Any]:
        """What else its record says, for other parts."""
        return {}

    # What happened.

    def look(self, now: float) -> None:
        """Orders, signs of life, limits."""
        if (changed := self.folder.plan.stat().st_mtime_ns) != self.read_at:
            settings = {name: self.plan[name] for name in ("ports", "devices") if self.part}
            self.read_at, self.plan = changed, {**(self._read_plan() or self.plan), **settings}
            self.crew.plan = self.plan
        if self.stopping is None:
            if self.plan["stop"]:
                self.begin_stop(self.plan["stop"], "the engine asked for it", now + STOP_SECONDS)
            elif self.has_signal and self.part:
                self.begin_stop(LOST, f"it was ended by the cluster {BY_OPERATOR}", now + STOP_SECONDS)
            elif self.has_signal or self._engine_is_silent(now):
                why = "it was asked to" if self.has_signal else "the engine was silent for too long"
                self.begin_stop(PAUSED, why, now + STOP_SECONDS)
            elif now >= self.leaves_at():
                self.begin_stop(STOPPED, "its reservation ends", self.plan["end_at"] - KILL_LEAD)
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

    def _engine_is_silent(self, now: float) -> bool:
        """By our own clock, as that of the engine's machine may differ; a sign that is far too old is none."""
        try:
            mark = self.folder.alive.stat().st_mtime_ns
        except FileNotFoundError:
            return True
        if mark != self.alive_seen[0]:
            self.alive_seen = mark, time.monotonic()
        lease = self.plan["lease_seconds"]
        return time.monotonic() - self.alive_seen[1] > lease or now - mark / 1e9 > lease + CLOCKS_DIFFER

    def _count(self, now: float) -> None:
        """Servers on which everybody who belongs there is there, or has done all of its work."""
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

    # What is to be done.

    def begin_stop(self, how: str, why: str, by: float) -> None:
        """Ask the coordinator to save and end, by then or by the end of its time, whichever is first."""
        self.stopping = how, why, min(by, self.plan["end_at"] - KILL_LEAD)
        self.ask_to_stop()

    def _all_came(self) -> bool:
        """The other parts are there, too. Where they do not come in time, nobody begins."""
        if self.others is None:
            return True
        missing = self.others.missing()
        if self.others.before_us():
            return False  # it saves what we go on with
        since = max(self.plan["phases"][0]["at"], self.began)  # the engine may have been late, and then is for all
        if missing and time.time() > since + self.plan["gather_seconds"]:
            self.end = LOST, f"{NOT_ALL_CAME}: {', '.join(missing)}"
        return not missing

    def _wanted(self, moment: float) -> Wanted:
        members: Wanted = ()
        for phase in self.plan["phases"]:
            if phase["at"] <= moment:
                members = tuple((role, rank, server) for role, rank, server in phase["members"])
        return members

    # What is said.

    def tell(self, how: str = "", why: str = "") -> None:
        """The state: where it changed, twice a second at most, and each second anyway. The last word is durable."""
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
