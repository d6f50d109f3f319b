"""Watch over our own trainer, whose coordinator saves, and whose members come and go while it trains."""

from __future__ import annotations

import signal
import time

from scheduling.engines.base import FAILED, FINISHED, LOST, STOPPED
from scheduling.engines.launcher import processes
from scheduling.engines.launcher.confine import can_never_kill
from scheduling.engines.launcher.crew import COORDINATOR, WORKER, Crew
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.members import MemberProcess, Wanted
from scheduling.engines.launcher.parts import GangPart
from scheduling.engines.launcher.processes import Ended
from scheduling.engines.launcher.supervisor import LEAD, Supervisor, how

MOST_RESTARTS = 10
LOST_SECONDS = 2.0  # how long a coordinator may save after a part of its job was lost
# Signals that people send, or a machine that shuts down. By any other signal a program ended itself.
FOREIGN_SIGNALS = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


class TrainerSupervisor(Supervisor):
    """Watches over a gang of our own trainer, or one part of it."""

    crew: Crew
    coordinated = True

    def __init__(self, folder: Folder, part: GangPart | None = None) -> None:
        super().__init__(folder, part)
        self.lost: tuple[str, float] | None = None  # what was lost, and until when the coordinator may save

    def gather(self) -> Crew:
        """Return the members, with the coordinator."""
        return Crew(self.folder, self.plan, self.log, self._address_of)

    def ask_to_stop(self) -> None:
        """Ask the coordinator to save and end; it makes sure that everything is saved."""
        self.crew.ask_to_stop()

    def notice(self, ended: dict[int, Ended]) -> None:
        """Note that processes ended, and decide whose fault it was where they were not asked to."""
        for pid, each in ended.items():
            self.consumption.add(each)
            member = self.crew.forget(pid, each)
            if member is None or self.stopping or self.end or _has_left_on_request(member, each.code):
                continue
            what = f"{member.role} {member.rank} {how(each.code)}"
            if -each.code in FOREIGN_SIGNALS:
                self._killed(member.role, what, pid, each)
            elif member.role != COORDINATOR:
                self.crew.done.add((member.role, member.rank))
                if each.code and not self.crew.begun:
                    self.end = FAILED, f"{what} before the job began"

    def _killed(self, role: str, what: str, pid: int, ended: Ended) -> None:
        """Decide about a member that was killed: by its own fault, or else the platform lost it. A worker is started
        again."""
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
        """Return whether a program is taken to have killed itself by SIGKILL. It cannot where `never_kill` works;
        elsewhere it did, unless the kernel counted a kill for lack of memory."""
        memory_kills = processes.out_of_memory_kills()
        return -code == signal.SIGKILL and not can_never_kill() and memory_kills == self.memory_kills

    def advance(self, now: float) -> None:
        """Take the next step: start, resize, save or end the gang."""
        if self.crew.exit_code is not None:
            self._coordinator_ended(self.crew.exit_code, now)
        elif self.stopping:
            how, why, by = self.stopping
            if not self.crew.running or now >= by:
                self.end = how, why
        elif self.lost and now > self.lost[1]:
            self.end = LOST, self.lost[0]
        elif self.lost is None:
            self._phase(self._wanted(now), self._wanted(now + LEAD))

    def _phase(self, everybody: Wanted, soon: Wanted) -> None:
        wanted, soon = self._of_us(everybody), self._of_us(soon)
        if not self.crew.running and (self.started_at is None or self._leads()):
            if wanted and wanted == soon and self._all_came():
                self._start(everybody, wanted)
        elif self.crew.pausing or self.crew.consists_of(soon):
            return
        elif soon and self.crew.can_become(soon, elsewhere=self.part is not None):
            self.crew.resize(wanted, soon)
        elif self.part:
            self.end = LOST, "a member was killed before the job began"
        else:
            self.log.note(
                "Its work is saved, and it starts again with its new size."
                if soon
                else "Its work is saved, and it goes on later."
            )
            self.crew.ask_to_stop()

    def _start(self, everybody: Wanted, own: Wanted) -> None:
        try:
            self.crew.start_all(everybody, own, leads=self._leads())
        except OSError as error:
            self.end = LOST, f"not all of it could be started ({error.strerror})"
            return
        self.started_at = self.started_at or time.time()

    def _coordinator_ended(self, code: int, now: float) -> None:
        """Decide what the coordinator's end means for the gang."""
        last = self.crew.last_word
        if code == -signal.SIGTERM and (self.stopping or self.crew.pausing):
            code = 0  # our signal came before it could handle it
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
            self.end = FAILED, self.crew.sentence or f"the coordinator {how(code)}"


def _has_left_on_request(member: MemberProcess, code: int) -> bool:
    """Return whether a member left because it was asked to. We never kill a coordinator that has to save: a SIGKILL
    came from elsewhere, as when a whole server is lost and we noticed its workers first."""
    return member.leaving and (member.role != COORDINATOR or code != -signal.SIGKILL)
