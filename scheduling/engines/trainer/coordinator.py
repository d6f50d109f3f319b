"""The coordinator's process: one thread decides about the job, and all others only pass events to it."""

from __future__ import annotations

import contextlib
import os
import queue
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduling.engines.trainer import checkpoint
from scheduling.engines.trainer.channel import Channel, listen, serve
from scheduling.engines.trainer.framing import BadMessage, ConnectionLost, WireMessage
from scheduling.engines.trainer.job import TrainerJob
from scheduling.engines.trainer.members import ParameterServerLost, TrainerMember
from scheduling.engines.trainer.peers import SERVER, WORKER, PeerPlace
from scheduling.engines.trainer.progress import ProgressFile
from scheduling.engines.trainer.server import LOST, REFUSED
from scheduling.engines.trainer.settings import TrainerSettings

TICK = 0.05  # seconds between two readings of the clock
GOODBYE_SECONDS = 0.4


@dataclass(frozen=True)
class CoordinatorEvent:
    """An event that a thread saw. Its kind is joined, gone (with `why`), said, asked, or stop."""

    kind: str
    member: TrainerMember | None = None
    message: WireMessage | None = None
    channel: Channel | None = None
    why: str = ""


class Coordinator:
    """The coordinator of one job."""

    def __init__(
        self,
        settings: TrainerSettings,
        place: PeerPlace,
        secret: bytes,
        folder: Path,
        progress: ProgressFile,
        *,
        digests: bool = False,
    ) -> None:
        self.settings, self.place, self.secret, self.folder = settings, place, secret, folder
        self.progress, self.digests = progress, digests
        self.events: queue.SimpleQueue[CoordinatorEvent] = queue.SimpleQueue()
        self.looked_at = time.monotonic()

    def run(self) -> int:
        """Run until the job is finished, stopped or failed, and return the exit code."""
        with closing(listen(self.place.own)) as listener:
            host, port = listener.getsockname()[:2]
            serve(listener, self.secret, self._attend)
            self.progress.tell("listening", host=host, port=port, pid=os.getpid())
            expected = {role: len(self.place.peers.get(role, ())) or 1 for role in (SERVER, WORKER)}
            try:
                job = TrainerJob(self.settings, expected, self.folder, self.progress, digests=self.digests)
            except checkpoint.BadCheckpoint as error:
                self.progress.tell("failed", sentence=str(error), checkpoint=True)
                return REFUSED
            while job.code is None:
                self._step(job)
            self._see_off(job)
            return job.code

    def _see_off(self, job: TrainerJob) -> None:
        """Wait a moment, so that members read our last message before the connections close."""
        deadline = time.monotonic() + GOODBYE_SECONDS
        members = job.dismissals
        while members and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                event = self.events.get(timeout=TICK)
                members = {member for member in members if event.kind != "gone" or member is not event.member}

    def ask_to_stop(self) -> None:
        """Ask the job to save and end. This may be called in a signal's handler."""
        self.events.put(CoordinatorEvent("stop"))

    def _step(self, job: TrainerJob) -> None:
        try:
            with contextlib.suppress(queue.Empty):
                self._handle(job, self.events.get(timeout=TICK))
            if job.code is None and time.monotonic() - self.looked_at > TICK:
                self.looked_at = time.monotonic()
                job.look_at_clock()
            if job.code is None:
                job.advance()
        except ParameterServerLost as error:
            self.progress.tell("peer_lost", role=SERVER, rank=error.rank, sentence=str(error))
            job.end(LOST, "failed", sentence=str(error), checkpoint=(self.folder / checkpoint.NAME).exists())

    def _handle(self, job: TrainerJob, event: CoordinatorEvent) -> None:
        if event.kind == "stop":
            job.stop("asked to stop")
        elif event.kind == "asked" and event.channel and event.message:
            with contextlib.suppress(ConnectionLost):  # the caller may have gone
                event.channel.tell(WireMessage("answer", self._answer(job, event.message)))
        elif event.kind == "joined" and event.member:
            job.register(event.member)
        elif event.kind == "gone" and event.member:
            job.disconnect(event.member, event.why)
        elif event.member and event.message:
            job.hear(event.member, event.message)

    def _answer(self, job: TrainerJob, request: WireMessage) -> dict[str, Any]:
        """Answer a request of `control`: `status`, `remove` a member, `checkpoint` or `stop`. A refusal has a
        sentence."""
        if request.kind == "remove":
            refusal = job.let_go(str(request.fields.get("role")), request.fields.get("rank", -1))
            return {"sentence": refusal, **job.status()}
        if request.kind == "checkpoint":
            job.checkpoint_wanted = True
        elif request.kind == "stop":
            job.stop("asked to stop")
        elif request.kind != "status":
            return {"sentence": f"There is no request {request.kind!r}.", **job.status()}
        return {"sentence": "", **job.status()}

    def _attend(self, channel: Channel) -> None:
        """Read a connection, in a thread of its own: a member's messages, or requests of `control`."""
        member: TrainerMember | None = None
        try:
            while True:
                message = channel.hear()
                if message.kind == "register" and member is None:
                    about = dict(message.fields)
                    member = TrainerMember(str(about["role"]), int(about["rank"]), channel, about, time.monotonic())
                    self.events.put(CoordinatorEvent("joined", member))
                elif member is None:
                    self.events.put(CoordinatorEvent("asked", None, message, channel))
                elif message.kind == "answer":
                    member.answers.put(message)
                else:
                    self.events.put(CoordinatorEvent("said", member, message))
        except (ConnectionLost, BadMessage, KeyError, ValueError, TypeError) as error:
            if member:
                member.answers.put(None)
                self.events.put(CoordinatorEvent("gone", member, why=str(error)))
