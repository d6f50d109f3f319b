"""How a running job reacts to events and to time. `changes` has the steps of each change."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from scheduling.engines.trainer.changes import Changes, tell
from scheduling.engines.trainer.framing import WireMessage
from scheduling.engines.trainer.members import ParameterServerLost, TrainerMember
from scheduling.engines.trainer.peers import SERVER, WORKER
from scheduling.engines.trainer.server import DONE, LOST
from scheduling.engines.trainer.settings import DROP, REPLACE

STOP_ORDER_SECONDS = 0.3  # a server that does not answer must not make a stop late
TOO_HIGH = "The loss is no longer a number: the learning rate is too high."


class TrainerJob(Changes):
    """A running job. It takes events one at a time."""

    # Events.

    def register(self, member: TrainerMember) -> None:
        """Take in a process that registered, or refuse it. It waits until all workers are parked."""
        key = (member.role, member.rank)
        peers = self.workers if member.role == WORKER else self.fleet.members
        refusal = ""
        if member.role not in (WORKER, SERVER) or member.rank in peers or key in self.joining:
            refusal = f"There is a {member.name} already."
        elif member.role == WORKER and self._workers_to_be() >= self.settings.chunks:
            refusal = f"No more workers than chunks can work at once, and there are {self.settings.chunks} chunks."
        facts = {"role": member.role, "rank": member.rank}
        if refusal:
            self.progress.tell("refused", **facts, sentence=refusal)
            return tell(member, WireMessage("refused", {"sentence": refusal}))
        self.joining[key] = member
        return self.progress.tell("registered", **facts, pid=member.about.get("pid"))

    def _workers_to_be(self) -> int:
        joining = sum(role == WORKER for role, _ in self.joining)
        leaving = {rank for role, rank in self.leaving if role == WORKER} | set(self.marked)
        return len(self.workers) + joining - len(leaving)

    def disconnect(self, member: TrainerMember, why: str) -> None:
        """Handle the end of a connection. A server takes its parameters with it: raises `ParameterServerLost`."""
        self.joining = {key: other for key, other in self.joining.items() if other is not member}
        if self.fleet.members.get(member.rank) is member:
            raise ParameterServerLost(member.rank, why)
        if self.workers.get(member.rank) is member:
            self._lose(member.rank, why)

    def _lose(self, rank: int, why: str) -> None:
        self.progress.tell("peer_lost", role=WORKER, rank=rank, sentence=f"Worker {rank} is lost: {why}.")
        self._forget(rank)
        self._hold()

    def hear(self, member: TrainerMember, message: WireMessage) -> None:
        """Handle a message: a worker reports, parks or asks to leave, or a server asks to leave."""
        member.heard_at = time.monotonic()
        if message.kind == "leave" and self.stopping is None:
            self.let_go(member.role, member.rank)
        elif self.workers.get(member.rank) is not member:
            return
        elif message.kind == "unable":  # a worker in its place would not have more memory either
            self.end(LOST, "failed", sentence=str(message.fields["sentence"]))
        elif message.kind == "park":
            member.parked = True
            if message.fields["lost"]:  # it cannot reach a server that we can reach: all begin the step again
                self.unreached = message.fields["lost"]
                self._hold()
        elif message.kind == "report":
            self._note(member.rank, message.fields)

    def _note(self, rank: int, fields: Mapping[str, Any]) -> None:
        self.reports.note(rank, fields, self.fleet.generation)
        if self.reports.diverged:
            return self.end(LOST, "failed", sentence=TOO_HIGH)
        for facts in self.reports.closed_epochs():
            counts = {"workers": len(self.workers), "servers": len(self.fleet.members)}
            self.progress.tell("epoch", **facts, **counts, gradient_mb=self.gradient_mb)
        straggler = self.reports.new_straggler(rank)
        if straggler:
            self._answer_straggler(rank, straggler)
        elif rank in self.marked and rank not in self.reports.reported_stragglers:
            self.marked.remove(rank)  # it keeps up again, and no worker has come in its place yet
        scaled = self.reports.scaled()
        if scaled:
            self.progress.tell("scaled", **scaled)
        return None

    def _answer_straggler(self, rank: int, facts: Mapping[str, Any]) -> None:
        self.progress.tell("straggler", **facts, reply=self.settings.stragglers)
        if self.settings.stragglers == REPLACE:
            self.marked.append(rank)
        elif self.settings.stragglers == DROP and len(self.workers) > 1:
            tell(self.workers[rank], WireMessage("stop"))
            self._forget(rank)
            self._hold()

    def let_go(self, role: str, rank: int) -> str:
        """Let a member leave at the next change, and return a sentence if that cannot be done. If it is the last one of
        its kind, the job stops."""
        members = self.workers if role == WORKER else self.fleet.members if role == SERVER else {}
        if rank not in members:
            return f"There is no {role} {rank} at work."
        going = {(role, rank), *self.leaving}
        if sum(kind == role for kind, _ in going) >= len(members):
            self.stop(f"the last {role} was removed")
        else:
            self.leaving = going
        return ""

    def stop(self, reason: str) -> None:
        """Save the job and end it, without waiting for workers."""
        if not self.started:
            return self.end(DONE, "stopped", reason=reason, version=self.version, checkpoint=self.resumed)
        if self.stopping is None:
            self.fleet.order_seconds = STOP_ORDER_SECONDS
            self.suspended_at = self.suspended_at or time.time()
            self.fleet.order_all("hold")
        since = self.stopping[1] if self.stopping else time.monotonic()
        self.stopping = reason, since
        return None

    # Time.

    def look_at_clock(self) -> None:
        """End or save the job, or give up members, where something has waited for too long."""
        now = time.monotonic()
        late = now - self.alone_since > self.settings.gather_seconds
        if not self.started:
            if late:
                waited = f"{self.settings.gather_seconds:g} seconds"
                self.end(LOST, "failed", sentence=f"Not everybody came within {waited}: {self._missing()}.")
        elif not self.workers and not self.joining and late and self.stopping is None:
            self._rest_at_one_version()
            self._write(self.fleet.fetch(), "no worker is left")
            self.end(LOST, "failed", sentence="No worker is left, and none came to take its place.", checkpoint=True)
        else:
            self._look_for_silent(now)
        every = self.settings.checkpoint_seconds
        self.checkpoint_wanted = self.checkpoint_wanted or (every > 0 and now - self.saved_at > every)

    def _look_for_silent(self, now: float) -> None:
        """Find workers that are silent for too long, as they hold up all others. The servers are held first; a worker
        that does not park then is lost."""
        patience = self.settings.patience_seconds
        if self.held_at is None:
            if any(not worker.parked and now - worker.heard_at > patience for worker in self.workers.values()):
                self._hold()
        elif now - self.held_at > max(2.0, patience / 2):
            for rank in [rank for rank, worker in self.workers.items() if not worker.parked]:
                self.workers[rank].channel.close()
                self._lose(rank, "it has been silent for too long")

    def _missing(self) -> str:
        came = {role: sum(kind == role for kind, _ in self.joining) for role in self.expected}
        return ", ".join(f"{came[role]} of {count} {role}" for role, count in self.expected.items())

    # The next step.

    def advance(self) -> None:
        """Take the next step that is possible now: start, stop, change, or suspend for a change."""
        if not self.started:
            if all(sum(kind == role for kind, _ in self.joining) >= count for role, count in self.expected.items()):
                self._start()
        elif self.stopping:
            self._try_to_stop(*self.stopping)
        elif all(worker.parked for worker in self.workers.values()):
            if self.workers or any(role == WORKER for role, _ in self.joining):
                self._change()
        elif self.suspended_at is None and (self.joining or self.leaving or self.checkpoint_wanted):
            self._suspend()
