"""How a running job changes: its members, which server keeps which parameters, when it is saved, and how it ends.

Workers are *parked* while they wait for a plan: before the job starts, at a suspension, and when their work is done.
Every change (of servers or workers, or a checkpoint) is made when all of them are parked:

- A planned change sets a scaling clock a little beyond the servers' version counters. At it servers give out nothing
  more, and each worker parks when it gets there (DL2, section 5).
- An unplanned change, when a worker is lost or dropped, holds the servers at once and takes a half-done step back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduling.engines.trainer import checkpoint, models
from scheduling.engines.trainer.curve import Curve
from scheduling.engines.trainer.framing import ConnectionLost, WireMessage
from scheduling.engines.trainer.members import ORDER_SECONDS, Fleet, TrainerMember
from scheduling.engines.trainer.models import Floats
from scheduling.engines.trainer.peers import SERVER, WORKER
from scheduling.engines.trainer.progress import ProgressFile
from scheduling.engines.trainer.reports import Reports
from scheduling.engines.trainer.server import DONE, LOST
from scheduling.engines.trainer.settings import TrainerSettings

MOST_RECONNECTIONS = 5  # in a row, without a step between them
LAST_REPORTS_SECONDS = 0.3  # how long a stop waits for losses that are on their way


class Changes:
    """The state of a job, and the changes that can be made to it. It reports them in `progress`."""

    def __init__(
        self,
        settings: TrainerSettings,
        expected: Mapping[str, int],
        folder: Path,
        progress: ProgressFile,
        *,
        digests: bool,
    ) -> None:
        self.settings, self.expected, self.folder, self.progress = settings, expected, folder, progress
        self.digests = digests  # compare all parameters before and after a change; it takes time
        model = models.make(settings)
        self.fleet = Fleet([block.size for block in model.blocks])
        self.fleet.order_seconds = min(ORDER_SECONDS, settings.patience_seconds)
        self.gradient_mb = 8 * models.size(model) / 1e6
        loaded = checkpoint.load(folder, settings, models.size(model))
        fresh = (0, Curve(settings), models.initial(model, settings.seed))
        self.version, self.curve, self.parameters = loaded or fresh
        self.resumed = loaded is not None
        self.reports = Reports(settings, self.curve)
        self.workers: dict[int, TrainerMember] = {}
        self.joining: dict[tuple[str, int], TrainerMember] = {}
        self.leaving: set[tuple[str, int]] = set()
        self.marked: list[int] = []  # stragglers that wait until another worker takes their place
        self.checkpoint_wanted = False
        self.code: int | None = None
        self.started = False
        self.clock: int | None = None
        self.suspended_at: float | None = None
        self.held_at: float | None = None
        self.stopping: tuple[str, float] | None = None  # why it stops, and since when
        self.alone_since = self.saved_at = time.monotonic()
        self.unreached = ""  # why a worker could not reach its servers since the last change
        self.reconnections = 0  # changes for that reason in a row, without a step between them
        self.reconnected_version = -1
        self.dismissals: set[TrainerMember] = set()  # members that were told to stop at the end

    def _hold(self) -> None:
        if self.started:
            self.fleet.order_all("hold")
            self.suspended_at = self.suspended_at or time.time()
            self.held_at = time.monotonic()

    def _suspend(self) -> None:
        """Suspend the job at a scaling clock, or at once if steps are so fast that every clock was too late."""
        self.suspended_at = time.time()
        self.clock = self.fleet.choose_clock(self.reports.speed())
        if self.clock is None:
            self._hold()

    def _start(self) -> None:
        servers, self.workers = self._take_joining()
        self.fleet.start(servers, self.parameters, self.version)
        self.started, self.saved_at = True, time.monotonic()
        self.reports.begin()
        counts = {"workers": len(self.workers), "servers": len(servers), "blocks": len(self.fleet.sizes)}
        self.progress.tell(
            "started", **counts, parameters=sum(self.fleet.sizes), version=self.version, resumed=self.resumed
        )
        self._finish() if self.curve.finished else self._go_on()

    def _take_joining(self) -> tuple[dict[int, TrainerMember], dict[int, TrainerMember]]:
        """Return the servers and workers that wait to join, and empty the list of them."""
        servers = {rank: member for (role, rank), member in self.joining.items() if role == SERVER}
        workers = {rank: member for (role, rank), member in self.joining.items() if role == WORKER}
        self.joining = {}
        return servers, workers

    def _change(self) -> None:
        """Make all changes that wait, now that all workers are parked: members join and leave, parameters move, a
        checkpoint is saved. Then the job continues."""
        begin = time.perf_counter()
        self._rest_at_one_version()
        if self.curve.finished:
            return self._finish()
        if self.unreached and not self._reconnect():
            self._write(self.fleet.fetch(), "workers lose their parameter servers")
            sentence = f"Workers lose their parameter servers again and again: {self.unreached}."
            return self.end(LOST, "failed", sentence=sentence, checkpoint=True)
        before = self.fleet.fetch() if self.digests else None
        stayed = set(self.workers)
        facts = self._come_and_go()
        if facts and before is not None:
            digests = checkpoint.digest(before), checkpoint.digest(self.fleet.fetch())
            facts |= {"digest": digests[1], "identical": digests[0] == digests[1]}
        saved = self.fleet.fetch() if self.checkpoint_wanted else None
        self._go_on()
        if facts:
            facts |= {"standstill_ms": 1000 * (time.perf_counter() - begin)}
            self.reports.change_made(facts, stayed & set(self.workers))
        if saved is not None:
            self._write(saved, "regular")
        return None

    def _reconnect(self) -> bool:
        """Count a reconnection. Return False if there were too many without a step between them; the job then ends."""
        self.reconnections = 1 if self.version > self.reconnected_version else self.reconnections + 1
        self.reconnected_version = self.version
        return self.reconnections <= MOST_RECONNECTIONS

    def _rest_at_one_version(self) -> None:
        self.version = self.fleet.settle(self.settings.synchronous)
        if self.settings.synchronous:
            self.curve.rewind(self.version)

    def _come_and_go(self) -> dict[str, Any]:
        """Let all members in and out that wait for it, and return the facts of that, or none where no member did."""
        servers, workers = self._take_joining()
        replaced, self.marked = self.marked[: len(workers)], self.marked[len(workers) :]
        leaving = {rank for role, rank in self.leaving if role == SERVER}
        out = {rank for role, rank in self.leaving if role == WORKER} | set(replaced)
        self.leaving = set()
        if not (servers or workers or leaving or out):
            return {}
        facts: dict[str, Any] = {"version": self.version, "clock": self.clock, "replaced": replaced}
        facts |= {"servers_joined": sorted(servers), "servers_left": sorted(leaving)}
        facts |= {"workers_joined": sorted(workers), "workers_left": sorted(out)}
        if servers or leaving:
            moved = self.fleet.change(servers, leaving, self.version)
            facts |= {"moved_numbers": moved.numbers, "assignment_ms": moved.assignment_ms}
            facts |= {"migration_ms": moved.migration_ms}
        for rank in leaving:
            tell(self.fleet.members.pop(rank), WireMessage("stop"))
        for rank in out:
            tell(self.workers[rank], WireMessage("stop"))
            self._forget(rank)
        self.workers |= workers
        return facts | {"workers": len(self.workers), "servers": len(self.fleet.members)}

    def _forget(self, rank: int) -> None:
        del self.workers[rank]
        self.leaving.discard((WORKER, rank))
        self.marked = [other for other in self.marked if other != rank]
        self.reports.forget(rank)
        self.alone_since = time.monotonic()

    def _go_on(self) -> None:
        """Open the servers and send every worker its plan: chunks are dealt round robin, each from its position on."""
        self.fleet.open()
        self.clock = self.suspended_at = self.held_at = None
        self.unreached = ""
        ranks, now = sorted(self.workers), time.monotonic()
        for index, rank in enumerate(ranks):
            chunks = range(index, self.settings.chunks, len(ranks))
            positions = [[chunk, self.curve.positions[chunk]] for chunk in chunks]
            plan = {"generation": self.fleet.generation, "servers": self.fleet.described(), "positions": positions}
            worker = self.workers[rank]
            worker.parked, worker.heard_at = False, now
            tell(worker, WireMessage("train", plan))

    # Saving and ending.

    def _write(self, parameters: Floats, reason: str) -> None:
        begin = time.perf_counter()
        path = checkpoint.save(self.folder, self.settings, self.version, self.curve, parameters)
        self.checkpoint_wanted, self.saved_at = False, time.monotonic()
        facts = {"reason": reason, "version": self.version, "epochs_done": len(self.curve.epochs)}
        milliseconds = 1000 * (time.perf_counter() - begin)
        self.progress.tell("checkpoint", **facts, path=path.name, digest=checkpoint.digest(parameters), ms=milliseconds)

    def _finish(self) -> None:
        parameters = self.fleet.fetch()
        self._write(parameters, "finished")
        losses = self.curve.epochs
        self.end(DONE, "finished", epochs=len(losses), loss=losses[-1], digest=checkpoint.digest(parameters))

    def _try_to_stop(self, reason: str, since: float) -> None:
        """Save and end the job, once the last losses have come or we have waited long enough for them."""
        self.version = self.fleet.settle(self.settings.synchronous)
        late = time.monotonic() - since > LAST_REPORTS_SECONDS
        if self.settings.synchronous:
            if not self.curve.knows_all_before(self.version) and not late:
                return
            self.curve.rewind(self.version)
        self._write(self.fleet.fetch(), "stop")
        facts = {"version": self.version, "suspended_at": self.suspended_at}
        self.end(DONE, "stopped", reason=reason, checkpoint=True, **facts)

    def end(self, code: int, event: str, **facts: Any) -> None:
        """Report how the job ended, and tell all members to stop."""
        if self.code is not None:
            return
        self.code = code
        self.progress.tell(event, **facts)
        self.dismissals = {*self.workers.values(), *self.fleet.members.values(), *self.joining.values()}
        for member in self.dismissals:
            tell(member, WireMessage("stop"))

    def status(self) -> dict[str, Any]:
        """Return the job's status, for requests of `control`."""
        state = "waiting" if not self.started else "stopping" if self.stopping else "running"
        losses = self.curve.epochs
        return {
            "state": state if self.code is None else "ended",
            "epoch": len(losses),
            "epochs": self.settings.epochs,
            "loss": losses[-1] if losses else None,
            "workers": sorted(self.workers),
            "servers": sorted(self.fleet.members),
            "waiting": sorted(member.name for member in self.joining.values()),
            "steps_per_second": self.reports.last_speed,
        }


def tell(member: TrainerMember, message: WireMessage) -> None:
    """Send a member a message. If it is gone, the thread of its connection reports that."""
    with contextlib.suppress(ConnectionLost):
        member.channel.tell(message)
