"""`python -m scheduling.engines.local.supervisor ROOT HOME KEY`: watches over one gang from its start to its end.

It keeps the slots by itself: the plan says who runs when. It goes on while the engine is gone, and ends the gang when
the engine is gone for too long. Nobody of the gang outlives it.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

from scheduling.engines.base import ENDED, FAILED, FINISHED, LOST, PAUSED, RUNNING, STOPPED, WAITING
from scheduling.engines.local import files, processes
from scheduling.engines.local.confine import MEGABYTE, PR_SET_CHILD_SUBREAPER, can_never_kill, prctl
from scheduling.engines.local.consumption import Consumption
from scheduling.engines.local.crew import COORDINATOR, WORKER, Crew, Process, Wanted
from scheduling.engines.local.files import Folder
from scheduling.engines.local.logbook import Logbook
from scheduling.engines.local.processes import Ended

TICK = 0.05
LEAD = 1.5  # seconds before a change at which those who must go are asked to
KILL_LEAD = 0.6  # before its end, whoever is left is killed
STOP_SECONDS = 2.0  # to save, where no slot ends
LOST_SECONDS = 2.0  # for a coordinator to notice that its job is lost
WATCH_SECONDS = 0.5
MOST_RESTARTS = 10
# Signals that people and a machine which is shut down send. By any other a program ends itself.
FOREIGN_SIGNALS = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


class Supervisor:
    """One gang."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.plan: dict[str, Any] = files.read(folder.plan) or {}
        self.read_at = folder.plan.stat().st_mtime_ns
        self.log = Logbook(folder.log, self.plan["limits"]["log_mb"] * MEGABYTE)
        self.crew = Crew(folder, self.plan, self.log)
        self.consumption = Consumption(folder.work)
        self.memory_kills = processes.out_of_memory_kills()
        self.asked = False  # by a signal
        self.stopping: tuple[str, str, float] | None = None  # how it ends, why, by when
        self.end: tuple[str, str] | None = None
        self.lost: tuple[str, float] | None = None
        self.started_at: float | None = None
        self.watched_at = self.told_at = 0.0
        self.told: dict[str, Any] = {}

    def run(self) -> None:
        """Until the gang has ended."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        while self.end is None:
            self.tell()
            self.crew.listen(TICK)
            self.notice(processes.reap())
            self.look(time.time())
            if self.end is None:
                self.advance(time.time())
        self.finish(*self.end)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True

    def finish(self, how: str, why: str) -> None:
        """Nobody is left, and the last word is written."""
        gone = processes.kill_family(self.plan["uid"])
        self.crew.listen(0)
        self.log.note(f"{how.capitalize()}: {why}." if gone else f"{how.capitalize()}: {why}. Somebody does not die.")
        self.log.close()
        self.tell(how, why)

    # What happened.

    def notice(self, ended: dict[int, Ended]) -> None:
        """Processes ended."""
        for pid, each in ended.items():
            self.consumption.add(each)
            member = self.crew.forget(pid, each)
            if member is None or self.stopping or self.end or _left(member, each.code):
                continue
            what = f"{member.role} {member.rank} {_how(each.code)}"
            if -each.code in FOREIGN_SIGNALS:
                self._killed(member.role, what, pid, each)
            elif member.role != COORDINATOR:
                self.crew.done.add((member.role, member.rank))
                if each.code and not self.crew.begun:
                    self.end = FAILED, f"{what} before the job began"

    def _killed(self, role: str, what: str, pid: int, ended: Ended) -> None:
        """By its own fault, or it is the platform that lost it."""
        excess = self.consumption.excess_of(pid, ended, self.plan)
        if excess or self._by_own_hand(ended.code):
            self.end = FAILED, f"{what}: {excess or 'by its own hand, as nobody else did'}"
            return
        if processes.out_of_memory_kills() > self.memory_kills:
            what += "; this machine has run out of memory"
        self.crew.restarts += role == WORKER
        if role == WORKER and self.crew.restarts <= MOST_RESTARTS:
            self.log.note(f"{what} and is started again.")
        else:
            self.lost = self.lost or (what, time.time() + LOST_SECONDS)

    def _by_own_hand(self, code: int) -> bool:
        """Where programs cannot send SIGKILL, one that ends by it was killed. Elsewhere only the kernel says so."""
        memory_kills = processes.out_of_memory_kills()
        return -code == signal.SIGKILL and not can_never_kill() and memory_kills == self.memory_kills

    def look(self, now: float) -> None:
        """Orders, signs of life, limits."""
        if (changed := self.folder.plan.stat().st_mtime_ns) != self.read_at:
            self.read_at, self.plan = changed, files.read(self.folder.plan) or self.plan
            self.crew.plan = self.plan
        if self.stopping is None:
            if self.plan["stop"]:
                self.begin_stop(self.plan["stop"], "the engine asked for it", now + STOP_SECONDS)
            elif self.asked or now - self._engine_seen() > self.plan["lease_seconds"]:
                why = "it was asked to" if self.asked else "the engine was silent for too long"
                self.begin_stop(PAUSED, why, now + STOP_SECONDS)
            elif now >= self.plan["end_at"] - LEAD:
                self.begin_stop(STOPPED, "its time is over", self.plan["end_at"] - KILL_LEAD)
        if now - self.watched_at > WATCH_SECONDS:
            self.watched_at = now
            if (excess := self.consumption.excess(self.plan)) and self.end is None:
                self.end = FAILED, excess

    def _engine_seen(self) -> float:
        try:
            return self.folder.alive.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    # What is to be done.

    def begin_stop(self, how: str, why: str, by: float) -> None:
        """Ask the coordinator to save and end."""
        self.stopping = how, why, by
        self.crew.ask_to_stop()

    def advance(self, now: float) -> None:
        """The next thing."""
        if self.crew.coordinator_code is not None:
            self._coordinator_ended(self.crew.coordinator_code, now)
        elif self.stopping:
            how, why, by = self.stopping
            if not self.crew.running or now >= by:
                self.end = how, why
        elif self.lost and now > self.lost[1]:
            self.end = LOST, self.lost[0]
        elif self.lost is None:
            self._phase(self._wanted(now), self._wanted(now + LEAD))

    def _phase(self, wanted: Wanted, soon: Wanted) -> None:
        if not self.crew.running:
            if wanted and wanted == soon:
                self._start(wanted)
        elif self.crew.pausing or self.crew.consists_of(soon):
            return
        elif soon and self.crew.can_become(soon):
            self.crew.resize(wanted, soon)
        else:
            self.log.note("It is saved, to go on with others." if soon else "It is saved, to go on later.")
            self.crew.ask_to_stop()

    def _start(self, wanted: Wanted) -> None:
        try:
            self.crew.start_all(wanted)
        except OSError as error:
            self.end = LOST, f"not all of it could be started ({error.strerror})"
            return
        self.started_at = self.started_at or time.time()

    def _wanted(self, moment: float) -> Wanted:
        members: Wanted = ()
        for phase in self.plan["phases"]:
            if phase["at"] <= moment:
                members = tuple((role, rank, server) for role, rank, server in phase["members"])
        return members

    def _coordinator_ended(self, code: int, now: float) -> None:
        """What its end means."""
        last = self.crew.last_word
        if code == -signal.SIGTERM and (self.stopping or self.crew.pausing):
            code = 0  # we asked before it could listen
        if code == 0 and (last == "finished" or not (last or self.stopping or self.crew.pausing)):
            self.end = FINISHED, "the program did all of its work"
        elif self.stopping:
            self.end = self.stopping[0], self.stopping[1]
        elif self.lost:
            self.end = LOST, self.lost[0]
        elif code == 0 and self.crew.pausing:
            self.crew.paused()
        elif code == 0:
            self.end = STOPPED, "the program ended before its work was done"
        else:
            self.end = FAILED, self.crew.sentence or f"the coordinator {_how(code)}"

    # What is said.

    def tell(self, how: str = "", why: str = "") -> None:
        """The state, where it changed; twice a second at most."""
        now = time.time()
        state = ENDED if how else RUNNING if self.started_at else WAITING
        document = {
            "state": state,
            "started_at": self.started_at,
            "end": how,
            "detail": why,
            "exit_code": self.crew.coordinator_code,
            "restarts": self.crew.restarts,
            "progress": dict(self.crew.facts),
            "members": self.crew.listed(),
        }
        if document != self.told and (how or state != self.told.get("state") or now - self.told_at > 0.5):
            self.told, self.told_at = document, now
            files.write(self.folder.state, document | ({"ended_at": now} if how else {}))


def _left(member: Process, code: int) -> bool:
    """Whether it went because it was asked to. A coordinator that is to save is never killed from here: SIGKILL came
    from elsewhere, as when a whole server is lost whose workers were noticed first."""
    return member.leaving and (member.role != COORDINATOR or code != -signal.SIGKILL)


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    known = {each.value: each.name for each in signal.Signals}
    return f"was ended by {known.get(-code, f'signal {-code}')}"


def main(root: str, home: str, key: str) -> None:
    Supervisor(Folder(Path(root), home, key)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
